"""Where each machine keeps its copies of the state."""

from __future__ import annotations

import tempfile
import uuid
from pathlib import Path


def local_folder(state_dir: str, checkpoint: str) -> str:
    """Give the folder of the stores: one for each checkpoint, and for each start of the machine.

    Stores are not synced to the disk, so what a machine wrote before it was started anew must not
    be used.

    Args:
        state_dir: what the user asked for; empty: below the folder for temporary files.
        checkpoint: the checkpoint's path.
    """
    base = state_dir or str(Path(tempfile.gettempdir()) / "headrace-state")
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        boot = "boot"
    token = uuid.uuid5(uuid.NAMESPACE_URL, checkpoint).hex[:16]
    return str(Path(base) / boot[:8] / token)
