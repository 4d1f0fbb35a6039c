"""NEXMark 10, log to sharded files: is every event of a window written down?

Takes persons, auctions and bids. Gives (moment, message): for every fixed window of
`window_size_sec` that has events its last millisecond, and the message that it is written.

Events are spread over 25 shards by their hash. A shard's events of a window are written when there
are `max_log_events` of them and when the window is over; what comes late, up to a day, is written
ten seconds after it came, or when there are so many. If a folder is given, each such pane becomes
a file

    LOG-<moment>-<shard>-<pane's number>-<E|O|L|U>-<hex>

of events in binary form, and each window has INDEX-<moment>, which names its files. Beam takes
random hex digits, so a pane written a second time after a failure has two files. Here they follow
from what stands before them, and a file appears under its name only when it is complete: a pane
written again replaces itself. Without a folder nothing is written, but all events come together
all the same.
"""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.metrics import Metrics
from apache_beam.transforms.trigger import (
    AccumulationMode,
    AfterAny,
    AfterCount,
    AfterProcessingTime,
    AfterWatermark,
)
from apache_beam.transforms.window import FixedWindows
from apache_beam.utils.windowed_value import PaneInfo, PaneInfoTiming

from headrace.lab.workloads.nexmark.coder import encode
from headrace.lab.workloads.nexmark.common import iso, question, to_ms
from headrace.lab.workloads.nexmark.model import Record, java_hash

SHARDS = 25
LATENESS_SEC = 24 * 60 * 60
LATE_DELAY_SEC = 10

Entry = tuple[str, int, str, str]  # shard, pane's number, its timing, file


def by_shard(event: Record) -> tuple[int, bytes]:
    """Key an event, in binary form, by its shard."""
    return abs(java_hash(event)) % SHARDS, encode(event)


def moment_of(window: Any) -> str:
    """Give the last millisecond of a window."""
    return iso(to_ms(window.end) - 1)


def shard_name(shard: int) -> str:
    """Give the text of a shard.

    >>> shard_name(7)
    'shard-00007-of-00025'
    """
    return f"shard-{shard:05d}-of-{SHARDS:05d}"


def file_name(moment: str, shard: str, pane: int, timing: str) -> str:
    """Give the name of a pane's file; always the same for the same pane.

    >>> file_name("2015-07-15T00:00:09.999Z", "shard-00007-of-00025", 0, "ON_TIME")[:56]
    'LOG-2015-07-15T00:00:09.999Z-shard-00007-of-00025-000-O-'
    """
    name = f"LOG-{moment}-{shard}-{pane:03d}-{timing[0]}"
    return f"{name}-{hashlib.blake2b(name.encode(), digest_size=8).hexdigest()}"


def write_whole(path: Path, parts: Iterable[bytes]) -> None:
    """Write a file that is never seen half written."""
    hidden = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with hidden.open("wb") as file:
            file.writelines(parts)
            file.flush()
            os.fsync(file.fileno())
        hidden.replace(path)
    finally:
        hidden.unlink(missing_ok=True)


class WritePane(beam.DoFn):  # type: ignore[misc]
    """Writes one pane of a shard, and tells where."""

    def __init__(self, folder: str | None) -> None:
        self._folder = folder
        self._saved = Metrics.counter("nexmark", "savedFile")
        self._written = Metrics.counter("nexmark", "writtenRecords")

    def process(
        self,
        element: tuple[int, Iterable[bytes]],
        window: Any = beam.DoFn.WindowParam,
        pane: PaneInfo = beam.DoFn.PaneInfoParam,
    ) -> Iterator[tuple[int, Entry]]:
        """Take a pane."""
        records = list(element[1])
        if not records:  # all of them were written early
            return
        timing = PaneInfoTiming.to_string(pane.timing)
        shard, name = shard_name(element[0]), ""
        if self._folder is not None:
            name = file_name(moment_of(window), shard, pane.index, timing)
            Path(self._folder).mkdir(parents=True, exist_ok=True)
            write_whole(Path(self._folder, name), records)
            self._saved.inc()
        self._written.inc(len(records))
        yield 0, (shard, pane.index, timing, name)


class WriteIndex(beam.DoFn):  # type: ignore[misc]
    """Writes the index of a window, and says so once."""

    def __init__(self, folder: str | None) -> None:
        self._folder = folder
        self._indexed = Metrics.counter("nexmark", "indexed")

    def process(
        self,
        element: tuple[int, Iterable[Entry]],
        window: Any = beam.DoFn.WindowParam,
        pane: PaneInfo = beam.DoFn.PaneInfoParam,
    ) -> Iterator[tuple[str, str]]:
        """Take all entries of a window."""
        moment = moment_of(window)
        if self._folder is not None:
            lines = sorted(" ".join((moment, *map(str, entry))) for entry in element[1])
            path = Path(self._folder, f"INDEX-{moment}")
            write_whole(path, [f"{line}\n".encode() for line in lines])
            self._indexed.inc()
        # A batch run need not say when a pane fired: unknown stands for on time there.
        if pane.index == 0 and pane.timing in (PaneInfoTiming.ON_TIME, PaneInfoTiming.UNKNOWN):
            yield moment, f"written for timestamp {moment}"


class LogToFiles(beam.PTransform):  # type: ignore[misc]
    """Events to (moment, message), with files in `folder` if there is one."""

    def __init__(self, settings: Any, folder: str | None = None) -> None:
        super().__init__()
        self._size_sec = settings.window_size_sec
        self._pane = settings.max_log_events
        self._folder = folder

    def expand(self, events: Any) -> Any:
        """Write the panes of shards, then the index of each window."""
        late = AfterAny(AfterCount(self._pane), AfterProcessingTime(LATE_DELAY_SEC))
        return (
            events
            | "Shard" >> beam.Map(by_shard).with_output_types(tuple[int, bytes])
            | "Window"
            >> beam.WindowInto(
                FixedWindows(self._size_sec),
                trigger=AfterWatermark(early=AfterCount(self._pane), late=late),
                accumulation_mode=AccumulationMode.DISCARDING,
                allowed_lateness=LATENESS_SEC,
            )
            | "Panes" >> beam.GroupByKey()
            | "Write" >> beam.ParDo(WritePane(self._folder)).with_output_types(tuple[int, Any])
            # An index with late files replaces the one without, so it must name all.
            | "Whole"
            >> beam.WindowInto(
                FixedWindows(self._size_sec),
                trigger=AfterWatermark(late=AfterCount(1)),
                accumulation_mode=AccumulationMode.ACCUMULATING,
                allowed_lateness=LATENESS_SEC,
            )
            | "Entries" >> beam.GroupByKey()
            | "Index" >> beam.ParDo(WriteIndex(self._folder)).with_output_types(tuple[str, str])
        )


def build(settings: Any, folder: str | None = None) -> LogToFiles:
    """Make the pipeline from events to rows; `folder` is where files go, if they are wanted."""
    return LogToFiles(settings, folder)


WORKLOAD = question(
    "q10",
    "Log to sharded files: is every event of a window written down?",
    ("moment", "message"),
    build,
)
