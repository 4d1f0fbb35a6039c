"""Streaming DataFrames of a classic session on our own loop, where workers read for themselves.

Spark's query of such a DataFrame would plan, generate and log a batch of its own around each of our
epochs, to say no more than which files, messages or partitions came. The sources of our own loop
say that too, and keep the log that Spark would keep, so a checkpoint can change hands between the
two at any start. What only Spark can read, or choose, is left to it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlparse

from pyspark.sql.types import StructType, TimestampType

from headrace.engine.scans.choose import scan_of
from headrace.engine.scans.file_scans import Footer, footers
from headrace.engine.scans.projections import NotPlain, if_plain
from headrace.engine.scans.reader_scans import part_of, reader_of
from headrace.engine.sources.file_lists import Entry
from headrace.engine.sources.file_source import FileSource
from headrace.engine.sources.kafka_source import KafkaSource
from headrace.engine.sources.own_batches import OwnBatch, dealt, in_tasks
from headrace.engine.sources.own_feeds import OwnSource
from headrace.engine.sources.python_source import ReaderSource
from headrace.engine.sources.queries import Brought
from headrace.engine.sources.stream_plans import StreamRead
from headrace.engine.spark.session import SparkTarget
from headrace.errors import UnsupportedTransformError
from headrace.io.kafka.heads import EARLIEST, Position
from headrace.io.sources import micros_of, quoted
from headrace.plan.scans import MICROS, FileScan, ReaderScan, Scan, TopicPart, TopicScan
from headrace.state.files import Files

#: Options by which Spark chooses what a batch has in ways that our loop has not.
_CHOICES = ("minOffsetsPerTrigger", "maxTriggerDelay", "startingOffsetsByTimestampStrategy")


class PlainRead:
    """What a streaming DataFrame of a classic session reads.

    Args:
        frame: the DataFrame.
        scan: what is known of its rows.
    """

    def __init__(self, frame: Any, scan: Scan) -> None:
        self._scan = scan
        plan = frame._jdf.queryExecution().analyzed()  # noqa: SLF001 (no other door)
        self._leaf = plan.collectLeaves().head()
        self.read = self._read()

    def _read(self) -> StreamRead:
        leaf = self._leaf
        if leaf.getClass().getSimpleName() == "StreamingRelation":
            source = leaf.dataSource()
            name, given = str(source.className()), source.options()
            keys = given.keys().toSeq()
            found = {str(k): str(given.apply(k)) for k in map(keys.apply, range(keys.size()))}
            more = source.paths()
            paths = [str(more.apply(at)) for at in range(more.size())]
        else:
            name, paths = str(leaf.sourceName()), []
            found = dict(leaf.extraOptions().asCaseSensitiveMap())
        options = {key.lower(): value for key, value in found.items()}
        one = options.pop("path", "")
        return StreamRead(
            format=name.lower(), schema="", options=options,
            paths=tuple(paths or filter(None, [one])), plan_id=0,
        )

    def leaf_schema(self) -> StructType:
        """Give what columns the read itself has."""
        return StructType.fromJson(json.loads(self._leaf.schema().json()))

    def over(self, rows: Any) -> Any:
        """Give the columns that the DataFrame has of the rows of a bounded one, read by Spark."""
        plain = rows.selectExpr(*(
            f"{'.'.join(map(quoted, column.path))} AS `{at}`"
            for at, column in enumerate(self._scan.columns)
        ))  # fmt: skip
        return plain.selectExpr(*(
            f"{micros_of(str(at), TimestampType()) if c.kind == MICROS else quoted(str(at))} "
            f"AS {quoted(c.name)}"
            for at, c in enumerate(self._scan.columns)
        ))  # fmt: skip


def plain_source(
    name: str, frame: Any, target: SparkTarget, files: Files, log: str
) -> OwnSource | None:
    """Open the source of a streaming DataFrame; None: it is to be read by a query of Spark's.

    Args:
        name: the read's.
        frame: the DataFrame.
        target: whose child session reads what workers cannot.
        files: the checkpoint.
        log: the folder in it for the log of this DataFrame.
    """
    if (scan := scan_of(frame)) is None:
        return None
    read = PlainRead(frame, scan)
    if any(read.read.option(choice) for choice in _CHOICES):
        return None
    try:
        match scan:
            case FileScan():
                return PlainFiles(name, read, scan, target, files, log)
            case TopicScan():
                return PlainTopics(name, read, scan, target, files, log)
            case ReaderScan():
                return PlainReader(scan, target)
    except UnsupportedTransformError:
        return None


class PlainFiles(FileSource):
    """Parquet files, each cut for several tasks. A file that workers cannot read is read by Spark.

    Args:
        name: the read's.
        read: of the DataFrame.
        scan: how workers read it.
        target: whose child session reads such files.
        files: the checkpoint.
        log: the folder in it for the log of this DataFrame.
    """

    def __init__(
        self, name: str, read: PlainRead, scan: FileScan, target: SparkTarget, files: Files,
        log: str,
    ) -> None:
        super().__init__(name, read, target, files, log)
        self._scan, self._tasks = scan, target.door.parallelism
        self._last: tuple[Any, Mapping[str, Footer] | None] = (None, None)

    def promised(self, start: dict[str, int], end: dict[str, int]) -> int | None:
        """Give how many rows the files say that they have."""
        found = self._footers(start, end)
        return None if found is None else sum(footer.rows for footer in found.values())

    def rows(self, start: dict[str, int], end: dict[str, int]) -> Any:
        """Give the parts of the files of some lists."""
        found = self._footers(start, end)
        if found is None:
            return Brought(super().rows(start, end), None)
        sizes = [(path, footer.size) for path, footer in found.items()]
        return OwnBatch(self._scan, dealt(sizes, self._tasks))

    def _footers(
        self, start: dict[str, int], end: dict[str, int]
    ) -> Mapping[str, Footer] | None:
        """Look at the files of some lists; None: Spark must read them."""
        if self._last[0] != (start, end):
            entries = self._lists.between(start["logOffset"], end["logOffset"])
            found = if_plain("files", lambda: footers(
                [self._local(entry) for entry in entries], self._scan, self._session
            ))  # fmt: skip
            self._last = (start, end), found
        return self._last[1]

    def _local(self, entry: Entry) -> str:
        """Give the path of a file on this machine whose folders are no columns."""
        found = urlparse(entry.path)
        if found.scheme != "file" or found.netloc:
            msg = f"{found.scheme} is no local file system"
            raise NotPlain(msg)
        path = entry.path.removeprefix("file://")
        if any("=" in folder for folder in path.split("/")[:-1]):
            msg = "names of folders may be columns"
            raise NotPlain(msg)
        return path


class PlainTopics(KafkaSource):
    """Messages of Kafka's topics.

    Args:
        name: the read's.
        read: of the DataFrame.
        scan: how workers read it.
        target: says how many tasks fetch them.
        files: the checkpoint.
        log: the folder in it for the log of this DataFrame.
    """

    def __init__(
        self, name: str, read: PlainRead, scan: TopicScan, target: SparkTarget, files: Files,
        log: str,
    ) -> None:
        super().__init__(name, read, target.session, files, log)
        self._scan, self._tasks = scan, target.door.parallelism

    def rows(self, start: Position, end: Position) -> OwnBatch:
        """Give the messages between two positions."""
        wanted = self.between(start, end)
        first: Position = {}
        if any(begin == EARLIEST for _, _, begin, _ in wanted):
            first, _ = self._heads.ends()
        parts = [
            TopicPart(topic, int(part), first[topic][part] if begin == EARLIEST else begin, after)
            for topic, part, begin, after in wanted
        ]
        return OwnBatch(self._scan, in_tasks(parts, self._tasks))


class PlainReader(ReaderSource):
    """What the stream reader of a Python data source gives.

    Args:
        scan: has the reader.
        target: says how many tasks ask it.
    """

    def __init__(self, scan: ReaderScan, target: SparkTarget) -> None:
        super().__init__(reader_of(scan))
        self._scan, self._tasks = scan, target.door.parallelism

    def rows(self, start: Any, end: Any) -> OwnBatch:
        """Give the partitions between two offsets, as Spark would tell a worker of them."""
        parts = [part_of(each) for each in self._reader.partitions(start, end)]
        return OwnBatch(self._scan, in_tasks(parts, self._tasks))
