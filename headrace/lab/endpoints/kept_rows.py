"""Rows of epochs in files of a folder, with the times at which they left: they outlive the driver.

A driver that is killed takes what it held in memory with it. An epoch's rows are one file that is
there whole or not at all; the rows of an epoch that comes again stand in for those before.
"""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

_SUFFIX = ".rows"


class KeptRows:
    """A folder of such files.

    Args:
        folder: made if it is not there.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def keep(self, epoch: int, left: float, rows: Any) -> None:
        """Keep an epoch's rows, which left at a time in seconds since 1970."""
        unfinished = self._folder / f"{epoch:08d}.unfinished"
        unfinished.write_bytes(pickle.dumps((left, rows)))
        os.replace(unfinished, unfinished.with_suffix(_SUFFIX))

    def read(self) -> dict[int, tuple[float, Any]]:
        """Give what is kept: epoch -> time and rows."""
        return {
            int(path.stem): pickle.loads(path.read_bytes())
            for path in sorted(self._folder.glob(f"*{_SUFFIX}"))
        }
