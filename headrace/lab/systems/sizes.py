"""Follows how large a system's state and its checkpoint are while it runs.

The state is what the system tells of it when it lets itself be watched; the checkpoint is measured
in its folder, so it is known of every system that has one in files. A look walks through that
folder, so it is made only where growth is asked about.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType

import numpy as np

from headrace.lab.data_engine.schedule import F64, I64
from headrace.lab.systems.system import Glance, bytes_below

_LOOK_SECONDS = 0.5
#: Sizes, with their times in seconds since 1970.
Looks = Sequence[tuple[float, int]]


class Sizes:
    """Looks again and again while the context is open.

    Args:
        checkpoint: the folder, which may not be there yet.
        every: seconds between two looks.
    """

    def __init__(self, checkpoint: Path, every: float = _LOOK_SECONDS) -> None:
        self._checkpoint, self._every = checkpoint, every
        self._look: Callable[[], Glance] | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="headrace-lab-sizes", daemon=True)
        self.state: list[tuple[float, int]] = []
        self.checkpoint: list[tuple[float, int]] = []

    @contextmanager
    def watch(self, look: Callable[[], Glance]) -> Iterator[None]:
        """Let a run be looked at, while this context is open."""
        self._look = look
        try:
            yield
        finally:
            self._look = None

    def __enter__(self) -> Sizes:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(self._every):
            self._note()

    def _note(self) -> None:
        if self._checkpoint.is_dir():
            self.checkpoint.append((time.time(), bytes_below(self._checkpoint)))
        look = self._look
        if look is not None:
            with suppress(Exception):  # a run that ends meanwhile can no longer be asked
                size = look().state_bytes
                if size is not None:
                    self.state.append((time.time(), size))


def over_time(looks: Looks, zero: float) -> tuple[F64, I64]:
    """Give the times of looks, in seconds after a moment, and the sizes that were seen.

    >>> at, sizes = over_time([(100.5, 7), (101.0, 9)], 100.0)
    >>> at.tolist(), sizes.tolist()
    ([0.5, 1.0], [7, 9])
    """
    at = np.array([moment for moment, _ in looks], dtype=np.float64) - zero
    return at, np.array([size for _, size in looks], dtype=np.int64)
