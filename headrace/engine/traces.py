"""Reads what a task was about when its worker died: the last mark of its trace.

Takes the folder of traces and Spark's text, gives words for a message; see `worker.trace`.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

#: Spark's word for the task that failed; its number is that of the shard.
_TASK = re.compile(r"Task (\d+) in stage")


def where_lost(folder: str, said: str) -> str:
    """Say in which step, on which shard and at which element the last try died.

    Args:
        folder: of the traces; empty if none were written.
        said: Spark's text, which names the task.
    """
    task = _TASK.search(said)
    if not folder:
        return f"shard {task.group(1)}" if task is not None else ""
    for path in sorted(Path(folder).glob("*.trace"), reverse=True):
        try:
            trace = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if task is None or trace["shard"] == int(task.group(1)):
            return f"{trace['steps']} on shard {trace['shard']}, at {trace['what']}"
    return f"shard {task.group(1)}" if task is not None else ""


def forget_traces(folder: str) -> None:
    """Take the traces of earlier tries away."""
    if folder:
        shutil.rmtree(folder, ignore_errors=True)
