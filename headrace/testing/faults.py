"""Ends a run of `LocalRunner` in a gap of the commit, as a crash would: for tests of restarts.

What a driver does between two steps of a commit is in the checkpoint and in the sinks when it ends
there; so the next run on the same checkpoint meets what it would meet after a kill. Nothing of the
process is killed: an exception unwinds the run, and whatever it comes to on its way ends it too.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from headrace.errors import HeadraceError, OptionError, ResultError, WorkerLostError
from headrace.state.crash_points import Point, Publication, observed

__all__ = [
    "GAPS", "PUBLICATION_GAPS", "TASK_GAPS", "Ended", "Fault", "Gap", "Point", "Publication",
    "driver_ends", "worker_dies",
]  # fmt: skip

Gap = Point | Publication
#: The gaps of every commit, in the order in which an epoch comes to them. `WORKER_LOST` is there
#: only where a worker dies, `AFTER_RETURN` once, when the run ends.
GAPS = tuple(Point)
#: Those of them in which a task is, and not the driver.
TASK_GAPS = (Point.BEFORE_SEAL, Point.AFTER_SEAL)
#: The gaps that only pipelines with `WriteToKafka` have, behind the commit.
PUBLICATION_GAPS = tuple(Publication)


class Ended(HeadraceError):
    """A driver was ended in a gap by a test."""


class Fault:
    """One fault that a test has asked for.

    Args:
        gap: where.
        epoch: its number; None: the first that comes to the gap.
        partition: of tasks, the state partition, `superstep-shard`; empty: the first that comes.
    """

    def __init__(self, gap: Gap, epoch: int | None, partition: str) -> None:
        self.gap, self.epoch, self.partition = gap, epoch, partition
        self.happened = False
        self._guard = threading.Lock()

    def __str__(self) -> str:
        which = "of any epoch" if self.epoch is None else f"of epoch {self.epoch}"
        return f"{self.gap.value} {which}" + f" in {self.partition}" * bool(self.partition)

    def meets(self, gap: Gap, epoch: int, partition: str) -> bool:
        """Whether it happens here; it happens once."""
        with self._guard:
            here = (
                not self.happened and gap is self.gap and self.epoch in (None, epoch)
                and self.partition in ("", partition)
            )
            self.happened = self.happened or here
            return here


@contextmanager
def driver_ends(
    gap: Gap, epoch: int | None = None, *, partition: str = ""
) -> Iterator[Fault]:
    """End the driver of the run in this block in a gap; the exception by which it ends is taken.

    >>> from headrace.testing import LocalRunner
    >>> import apache_beam as beam
    >>> options = beam.options.pipeline_options.PipelineOptions(
    ...     ["--streaming", "--checkpoint=memory://ended"])
    >>> p = beam.Pipeline(runner=LocalRunner(), options=options)
    >>> _ = p | beam.Create([1, 2])
    >>> with driver_ends(Point.BEFORE_TASKS):
    ...     p.run().wait_until_finish()

    Args:
        gap: one of `GAPS` or `PUBLICATION_GAPS`.
        epoch: its number; None: the first that comes to the gap.
        partition: of a task, the state partition.

    Raises:
        ResultError: the run never came to the gap, so the test has shown nothing.
    """
    fault = Fault(gap, epoch, partition)

    def end(point: Gap, at: int, attempt: str, where: str) -> None:
        del attempt
        # Whatever else of a dead driver still runs comes to its end as well.
        if fault.meets(point, at, where) or fault.happened:
            msg = f"the driver was ended: {fault}"
            raise Ended(msg)

    with observed(end):
        try:
            yield fault
        except Ended:
            return
    _see_that_it_happened(fault)


@contextmanager
def worker_dies(
    gap: Point, epoch: int | None = None, *, partition: str = ""
) -> Iterator[Fault]:
    """Let a worker die in the middle of a task of the run in this block: the epoch is run again.

    Args:
        gap: one of `TASK_GAPS`.
        epoch: its number; None: the first that comes to the gap.
        partition: the state partition of the task; empty: the first that comes.

    Raises:
        OptionError: no task is in that gap.
        ResultError: no task came to the gap, so the test has shown nothing.
    """
    if gap not in TASK_GAPS:
        msg = f"{gap.value}: the driver is in this gap, no worker; see driver_ends"
        raise OptionError(msg)
    fault = Fault(gap, epoch, partition)

    def die(point: Gap, at: int, attempt: str, where: str) -> None:
        del attempt
        if fault.meets(point, at, where):
            msg = f"the worker died: {fault}"
            raise WorkerLostError(msg)

    with observed(die):
        yield fault
    _see_that_it_happened(fault)


def _see_that_it_happened(fault: Fault) -> None:
    if not fault.happened:
        msg = f"the run in the block has not come to this gap: {fault}"
        raise ResultError(msg)
