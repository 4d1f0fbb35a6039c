"""A disk that takes its time, under the checkpoints that headrace opens in this process.

For whoever does harm to headrace alone: experiments with faults, and a live system's own driver.
The product knows nothing of it.
"""

from __future__ import annotations

import os
import random
import time
from functools import partial
from pathlib import Path

from headrace.engine.checkpoint import checkpoints
from headrace.state.disk import Disk
from headrace.state.files import Files


def slow_checkpoints(longest: float, marker: str = "") -> None:
    """Let checkpoints that this process opens be on a slow disk.

    Args:
        longest: the longest pause before and after a file is written, in seconds.
        marker: a file; the disk is slow only while it is there, and the first write that was
            leaves a second file, see `felt`. Empty: always.
    """
    vars(checkpoints)["Files"] = partial(slow_files, longest=longest, marker=marker)


def felt(marker: Path) -> Path:
    """Give the file that says that a write was slow while the marker was there."""
    return marker.with_name(f"{marker.name}.felt")


def slow_files(place: str, longest: float, marker: str = "") -> Files:
    """Give the files of a checkpoint on a slow disk; it stays slow when they go to a worker."""
    return Files(place, SlowDisk(place, longest, marker))


class SlowDisk(Disk):
    """A disk that takes its time.

    Args:
        folder: of the files.
        longest: the longest pause, in seconds.
        marker: a file; the disk is slow only while it is there. Empty: always.
    """

    def __init__(self, folder: str, longest: float, marker: str = "") -> None:
        super().__init__(folder)
        self._longest, self._marker = longest, marker

    def _put(self, path: str, data: bytes) -> None:
        self._wait()
        super()._put(path, data)
        self._wait()

    def _wait(self) -> None:
        if self._marker:
            if not os.path.exists(self._marker):
                return
            felt(Path(self._marker)).touch()
        pause(self._longest)


def pause(longest: float) -> None:
    """Wait for as long as the disk takes."""
    # Mostly short: a disk that always takes its longest would only make all slower alike.
    time.sleep(longest * random.random() ** 3)
