"""Splits a splittable DoFn that runs for too long, from a thread beside it.

Takes the operations of a stage and a time; what is split off is handed to a function. The DoFn
itself goes on to the end of what it was left with.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from headrace.worker.beam_types import Operation, Proto

_LOG = logging.getLogger(__name__)

#: After the first try, how often it is tried again: a DoFn may refuse, or begin another element.
RETRY_SECONDS = 0.05


@contextmanager
def splitting(
    ops: Sequence[tuple[str, Operation]], seconds: float, take: Callable[[str, Proto], None]
) -> Iterator[None]:
    """While the block runs for longer than `seconds`, split what the operations work on.

    Args:
        ops: transform ids and their operations; without any, nothing happens.
        seconds: when to split for the first time.
        take: called with the transform id and Beam's residual, in another thread.
    """
    if not ops:
        yield
        return
    done = threading.Event()
    failures: list[Exception] = []

    def watch() -> None:
        wait = seconds
        while not done.wait(wait):
            wait = RETRY_SECONDS
            for transform_id, op in ops:
                try:
                    split = op.try_split(0.0)
                    if split:
                        for _, residual in split[1]:
                            take(transform_id, residual)
                except Exception as failure:  # noqa: BLE001 (raised again where the DoFn runs)
                    _LOG.exception("%s cannot be split: it runs until it returns", transform_id)
                    failures.append(failure)
                    return

    thread = threading.Thread(target=watch, name="headrace-splitter", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
    if failures:
        raise failures[0]
