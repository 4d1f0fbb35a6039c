"""Turns an epoch into a Spark plan of one task: all supersteps of all shards in one process.

Beside `launch`, which gives each superstep a stage of its own. Such a task does one epoch, or stays
for many. Starts no job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any

from pyspark.sql.types import BinaryType, StructField, StructType

from headrace.engine.spark.launch import EPOCH_PROPERTY, Reads, fed, no_rows, numbers, rows_type
from headrace.engine.tasks import EpochTasks, links_of
from headrace.plan.scans import Scan
from headrace.worker.entry import (
    Epoch,
    Link,
    from_text,
    pack,
    packed,
    read_scan,
    run_whole_epoch,
    serve,
    unpacked,
)

#: Whether an epoch begins with superstep 0, before the text that says the rest of it.
_WHOLE, _LATER = b"w", b"l"


@cache
def _parts_type() -> Any:
    return StructType([StructField("part", BinaryType(), False)])


def launch_in_one_task(
    tasks: EpochTasks,
    session: Any,
    epoch: Epoch,
    shards: int,
    frame: Any | None,
    whole: bool,
    scan: Scan | None = None,
    reads: Reads | None = None,
) -> Any:
    """Build the plan of one epoch; see `launch.launch_epoch`, which takes and gives the same."""
    if frame is not None:
        assert epoch.feeding is not None
        links = links_of(tasks, whole=whole, feeding=epoch.feeding)
        function = in_one_task(links, epoch, shards)
        return fed(frame, scan if tasks.columns else None, session, function, tasks=1)
    links = links_of(tasks, whole=whole, feeding=None if reads is None else reads.channel)
    if not links:
        return no_rows(session)
    function = in_one_task(links, epoch, shards, None if reads is None else reads.scan)
    return numbers(session, 1).mapInArrow(function, rows_type())


def launch_reports(
    tasks: EpochTasks, session: Any, shards: int, whole: bool, reads: Reads | None = None
) -> Any:
    """Build the plan of all epochs that no DataFrame feeds and no sink wants rows of.

    The property of their job says which epoch it is; what is given is the reports, packed.
    """
    links = links_of(tasks, whole=whole, feeding=None if reads is None else reads.channel)
    function = in_one_task(links, None, shards, None if reads is None else reads.scan)

    def reports(batches: Iterable[Any]) -> Iterator[Any]:
        return packed(function(batches))

    return numbers(session, 1).mapInArrow(reports, _parts_type())


def launch_resident(
    tasks: EpochTasks, session: Any, shards: int, path: str, scans: Mapping[int, Scan]
) -> Any:
    """Build the plan of a task that stays for many epochs, and is told of each by a socket.

    It does the same epochs as `launch_reports`; `request` and `reports_of` say what is sent.

    Args:
        tasks: the plan's.
        session: where to run it.
        shards: how many there are.
        path: of the socket.
        scans: what it reads itself, by the channels that are fed.
    """
    links = {
        _WHOLE: links_of(tasks, whole=True), _LATER: links_of(tasks, whole=False)
    }
    fed = {
        channel: (links_of(tasks, whole=False, feeding=channel), scan)
        for channel, scan in scans.items()
    }

    def answer(request: bytes) -> bytes:
        epoch = from_text(request[1:].decode())
        if epoch.feeding is None:
            return pack(run_whole_epoch(links[request[:1]], epoch, shards, ()))
        supersteps, scan = fed[epoch.feeding]
        return pack(run_whole_epoch(supersteps, epoch, shards, _own_rows(epoch, scan)))

    def resident(batches: Iterable[Any]) -> Iterator[Any]:
        for _ in batches:  # a number that means nothing
            pass
        serve(path, answer)
        return iter(())

    return numbers(session, 1).mapInArrow(resident, _parts_type())


def request(epoch: str, *, whole: bool) -> bytes:
    """Give what a resident task is asked: an epoch."""
    return (_WHOLE if whole else _LATER) + epoch.encode()


def reports_of(answer: bytes) -> list[tuple[int, bytes]]:
    """Read what a resident task has answered."""
    return unpacked((answer,))


def in_one_task(
    links: tuple[Link, ...], epoch: Epoch | None, shards: int, scan: Scan | None = None
) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """Give the function for `mapInArrow`: a whole epoch.

    Args:
        links: the supersteps.
        epoch: what they must know; None: the property of their job says it.
        shards: how many there are.
        scan: how the task reads what the epoch names, if Spark hands no rows over.
    """

    def supersteps(batches: Iterable[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        known = epoch
        if known is None:
            context = TaskContext.get()
            assert context is not None
            known = from_text(context.getLocalProperty(EPOCH_PROPERTY))
        if known.feeding is None or scan is not None:
            for _ in batches:  # a number that means nothing
                pass
        if scan is not None:
            batches = _own_rows(known, scan)
        return run_whole_epoch(links, known, shards, batches)

    return supersteps


def _own_rows(epoch: Epoch, scan: Scan) -> Iterator[Any]:
    """Read all that an epoch names."""
    return read_scan(scan, [part for parts in epoch.parts for part in parts])
