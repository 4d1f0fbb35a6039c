"""The sinks of the branches, one for each way in which rows can leave a streaming pipeline.

Takes rows `(key, start, end, count, total, mix)`; `reading` finds them again. A sink is used here
as its guide says it must be for rows to be there once: functions replace what they wrote for the
same epoch, and Beam's file sinks get the rows of a window in one piece.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.io import fileio

from headrace.io import WriteToSpark
from headrace.lab.experiments.faults.variants import SinkKind

SCHEMA = "key string, start bigint, end bigint, count bigint, total bigint, mix bigint"
LEDGER = "ledger.sqlite"
#: How long a transaction waits for that of another driver.
_BUSY_SECONDS = 60.0


class Ledger:
    """Keeps the rows of each epoch in a table of SQLite; an epoch that comes again replaces its."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __call__(self, frame: Any, epoch: int, incarnation: int = 0) -> None:
        """Take the rows of an epoch, in one transaction.

        A driver that a newer one has overtaken changes nothing, and what it wrote of this epoch and
        of later ones before that goes.
        """
        rows = [(epoch, *row) for row in frame.collect()]
        Path(self._path).parent.mkdir(parents=True, exist_ok=True)
        opened = sqlite3.connect(self._path, timeout=_BUSY_SECONDS, isolation_level=None)
        with closing(opened) as database:
            database.execute("BEGIN IMMEDIATE")
            database.execute("CREATE TABLE IF NOT EXISTS drivers(incarnation INT)")
            database.execute(
                "CREATE TABLE IF NOT EXISTS rows"
                "(epoch INT, key TEXT, start INT, until INT, count INT, total INT, mix INT)"
            )
            newest = database.execute("SELECT max(incarnation) FROM drivers").fetchone()[0]
            if newest is None or newest < incarnation:
                database.execute("INSERT INTO drivers VALUES (?)", (incarnation,))
            elif newest > incarnation:
                return
            database.execute("DELETE FROM rows WHERE epoch >= ?", (epoch,))
            database.executemany("INSERT INTO rows VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
            database.execute("COMMIT")


class Write(beam.PTransform):  # type: ignore[misc]
    """Write the rows of a branch to a folder of its own."""

    def __init__(self, kind: SinkKind, folder: Path) -> None:
        super().__init__()
        self._kind = kind
        self._folder = folder

    def expand(self, pcoll: Any) -> Any:
        """Apply the sink."""
        folder = str(self._folder)
        match self._kind:
            case SinkKind.FILES:
                return pcoll | WriteToSpark(folder, schema=SCHEMA)
            case SinkKind.PARTITIONS:
                return pcoll | WriteToSpark(folder, schema=SCHEMA, partition_by=["start"])
            case SinkKind.FUNCTION:
                return pcoll | WriteToSpark(function=Ledger(f"{folder}/{LEDGER}"), schema=SCHEMA)
            case SinkKind.BEAM_FILES:
                return (
                    pcoll
                    | "Lines" >> beam.Map(lambda row: (0, json.dumps(row))).with_output_types(
                        tuple[int, str]
                    )
                    # Else there is a file for each shard, named by how many there are of them: an
                    # epoch that is run again on other shards would leave the files of both.
                    | "InOnePiece" >> beam.GroupByKey()
                    | "Open" >> beam.FlatMap(lambda pair: pair[1]).with_output_types(str)
                    | fileio.WriteToFiles(
                        folder, file_naming=_by_window, sink=lambda _: fileio.TextSink()
                    )
                )
            case SinkKind.BEAM_TEXT:
                return (
                    pcoll
                    | "Lines" >> beam.Map(json.dumps).with_output_types(str)
                    | beam.io.WriteToText(f"{folder}/rows", file_name_suffix=".txt", num_shards=1)
                )


def _by_window(
    window: Any, pane: Any, shard: int, shards: int, compression: str, destination: Any
) -> str:
    del pane, compression, destination
    return f"{window.start.micros}-{shard}-of-{shards}.txt"
