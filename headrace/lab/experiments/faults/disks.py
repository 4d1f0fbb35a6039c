"""Disks that get full: small file systems in memory, mounted below a round's folder.

Needs the right to mount. Where there is none, `Disks.make` says so by giving None, and the caller
leaves those faults out.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path

ROOMY_BYTES = 1 << 30
#: Files that are written while the room is taken away.
_ATTEMPTS = 50


class Disks:
    """Some folders, each a disk of its own."""

    def __init__(self, folders: tuple[Path, ...]) -> None:
        self._folders = folders

    @classmethod
    def make(cls, folders: Iterable[Path]) -> Disks | None:
        """Make empty folders disks; None where that is not allowed."""
        mounted: list[Path] = []
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
            # As a folder of one's own: a checkpoint that others may write to is refused.
            if not _mount(folder, f"size={ROOMY_BYTES},mode=700", "-t", "tmpfs", "headrace-chaos"):
                for each in mounted:
                    _unmount(each)
                return None
            mounted.append(folder)
        return cls(tuple(mounted))

    def fill(self, folder: Path, left_bytes: int) -> bool:
        """Leave so much room on a disk; say whether that could be done."""
        page = os.sysconf("SC_PAGE_SIZE")
        for _ in range(_ATTEMPTS):
            found = os.statvfs(folder)
            used = (found.f_blocks - found.f_bfree) * found.f_frsize
            size = (used + left_bytes) // page * page + page
            if _mount(folder, f"remount,size={size}"):  # refused where more is in use by now
                return True
            time.sleep(0.02)
        return False

    def empty(self, folder: Path) -> None:
        """Give the room back."""
        _mount(folder, f"remount,size={ROOMY_BYTES}")

    def close(self, keep: bool) -> None:
        """Unmount all; `keep`: what is on them stays in the folders."""
        for folder in self._folders:
            saved = folder.with_name(f"{folder.name}.saved")
            if keep:
                shutil.copytree(folder, saved, symlinks=True)
            _unmount(folder)
            if keep:
                folder.rmdir()
                saved.rename(folder)


def _mount(folder: Path, options: str, *more: str) -> bool:
    command = ["mount", "-o", options, *more, str(folder)]
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


def _unmount(folder: Path) -> None:
    for command in (["umount", str(folder)], ["umount", "--lazy", str(folder)]):
        if subprocess.run(command, capture_output=True, check=False).returncode == 0:
            return
