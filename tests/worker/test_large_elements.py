"""What waits in a worker is bounded in bytes, not in elements alone: a few may be very large."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.transforms.window import GlobalWindow, GlobalWindows, WindowedValue

from headrace.errors import TransportError
from headrace.worker import entry
from headrace.worker.batched import weights
from headrace.worker.batched.weights import HEAVY_BYTES, room_after, weight
from headrace.worker.ends import column_writer, file_writer
from headrace.worker.ends.column_writer import ColumnWriter
from headrace.worker.entry import RowQueue
from headrace.worker.exchange import group_writer as group_writers
from headrace.worker.exchange import writers
from headrace.worker.exchange.super_tuples import PayloadKind, SuperTuple, from_batch
from headrace.worker.exchange.writers import LocalWriter
from headrace.worker.grouping.bounded import chunks_of
from headrace.worker.grouping.spill import CHUNK_BYTES
from tests.worker.harness import on_headrace
from tests.worker.test_writers import at, group_writer

META = GlobalWindows.windowed_value(None)
KILOBYTE = b"x" * 1_024


@pytest.mark.parametrize(
    ("values", "right"),
    [
        ([], 0), ([1, 2.0, None, True], 0), ([b"four", "five5"], 9), ([(1, "two", (b"3",))], 4),
        ([b"one", 2, ("three",), ["four", 5]], 12), ([np.zeros(10, np.int64)], 80), ([{1: "x"}], 0),
    ],
    ids=repr,
)  # fmt: skip
def test_the_weight_of_values_is_that_of_their_texts(values: list[Any], right: int) -> None:
    assert weight(values) == right


def test_fewer_values_are_gathered_once_they_are_seen_to_be_large(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(weights, "WAITING_BYTES", 10 * len(KILOBYTE))
    assert room_after(16, [1] * 16, 2_048) == 64
    assert room_after(1_024, [1] * 16, 2_048) == 2_048
    assert room_after(64, [KILOBYTE] * 64, 2_048) == 10
    assert room_after(10, [KILOBYTE], 2_048) == 10  # few that came do not make room for more
    assert room_after(64, [KILOBYTE * 99] * 3, 2_048) == 1


#: How many results were made, and how many of them the next step has seen; most that waited.
WAITED = {"made": 0, "seen": 0, "most": 0}


def make(_: int) -> bytes:
    WAITED["made"] += 1
    return KILOBYTE


def make_some(_: int) -> Any:
    WAITED["made"] += 1
    yield KILOBYTE


def see(_: bytes) -> None:
    WAITED["most"] = max(WAITED["most"], WAITED["made"] - WAITED["seen"])
    WAITED["seen"] += 1


@pytest.mark.parametrize("step", [beam.Map(make), beam.FlatMap(make_some)], ids=["Map", "FlatMap"])
def test_small_elements_that_become_large_ones_do_not_wait_for_one_another(
    step: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches are run whole: 2,048 names of files must not become 2,048 contents at once."""
    monkeypatch.setattr(weights, "WAITING_BYTES", 10 * len(KILOBYTE))
    WAITED.update(made=0, seen=0, most=0)
    on_headrace(
        lambda p: p | beam.Create(range(3_000), reshuffle=False) | step | "See" >> beam.Map(see),
        shards=1,
    )
    assert WAITED["seen"] == 3_000
    assert WAITED["most"] <= weights.FIRST_ROOM


def test_a_heavy_element_of_a_grouping_travels_in_a_row_of_its_own() -> None:
    rows: list[SuperTuple] = []
    writer = group_writer(rows, shards=1)
    heavy = b"x" * HEAVY_BYTES
    writer.write([(1, heavy), (1, b"light"), (1, heavy)], at(None))
    assert [(row.kind, row.elements) for row in rows] == [(PayloadKind.KEYED_ROWS, 1)] * 2
    writer.process(at((1, heavy)))
    assert len(rows) == 3
    assert max(len(row.payload) for row in rows) < 1.1 * HEAVY_BYTES
    writer.flush()
    assert [(row.kind, row.elements) for row in rows[3:]] == [(PayloadKind.GROUPED, 1)]


def test_a_grouping_ships_texts_before_their_number_is_reached(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(group_writers, "WAITING_BYTES", 10 * len(KILOBYTE))
    rows: list[SuperTuple] = []
    writer = group_writer(rows, shards=1)
    for number in range(100):  # far below the thousand that it may hold at first
        writer.write([(number, KILOBYTE)], at(None))
    assert len(rows) == 10


def test_a_neighbouring_stage_gets_large_elements_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writers, "WAITING_BYTES", 3 * len(KILOBYTE))
    pushed: list[int] = []
    writer = LocalWriter(lambda values, _: pushed.append(len(values)))
    for _ in range(6):
        writer.process(WindowedValue(KILOBYTE, 0, (GlobalWindow(),)))
    assert pushed == [3, 3]


def test_rows_for_a_sink_are_shipped_by_their_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column_writer, "WAITING_BYTES", 10 * len(KILOBYTE))
    rows: list[SuperTuple] = []
    schema = pa.schema([("key", pa.int64()), ("data", pa.binary())])
    writer = ColumnWriter(0, "Sink", schema, rows.append, shard=0, super_tuple_bytes=1 << 16)
    writer.write([(n, KILOBYTE) for n in range(100)], META)  # fewer than it holds by number
    writer.flush()
    assert sum(row.elements for row in rows) == 100
    assert max(row.elements for row in rows) == 10


def test_a_file_gets_a_row_group_before_large_rows_fill_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_writer, "GROUP_BYTES", 64 * len(KILOBYTE))
    told: list[Any] = []
    writer = file_writer.FileWriter(
        0, "Sink", pa.schema([("data", pa.binary())]), folder=lambda: str(tmp_path),
        wrote=lambda *what: told.append(what), shard=0, super_tuple_bytes=1 << 12,
    )  # fmt: skip
    for _ in range(1_000):
        writer.write([(KILOBYTE,)], META)
    writer.flush()
    ((name, count),) = told
    found = pq.ParquetFile(tmp_path / name).metadata
    assert (count, found.num_rows) == (1_000, 1_000)
    assert found.num_row_groups >= 3  # 1,000 KB at 256 rows held and 64 KB a group


def test_spilled_values_are_cut_into_chunks_by_their_bytes() -> None:
    from apache_beam.coders import BytesCoder

    values = [b"x" * (CHUNK_BYTES // 2)] * 5
    found = list(chunks_of(list(values), BytesCoder().get_impl().encode_to_stream))
    assert [count for count, _ in found] == [2, 2, 1]


def large(number: int, size: int) -> SuperTuple:
    return SuperTuple(0, 1, 0, PayloadKind.ROWS, number, 1, b"x" * size)


def test_a_box_waits_for_its_reader_once_it_holds_many_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(entry, "QUEUE_BYTES", 100)
    queue = RowQueue()
    sent: list[int] = []

    def send() -> None:
        for number, size in enumerate([60, 30, 20, 500, 500]):
            queue.send(large(number, size))
            sent.append(number)
        queue.send(None)

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    limit = time.monotonic() + 60
    while len(sent) < 2 and time.monotonic() < limit:
        time.sleep(0.001)
    time.sleep(0.05)
    assert sent == [0, 1]  # 110 bytes would be too many
    found = [r.seq for batch in queue.batches() for r in from_batch(batch)]
    thread.join(60)
    assert found == [0, 1, 2, 3, 4]  # one row alone may be larger than the bound


def test_an_element_that_no_row_can_carry_is_refused_with_a_remedy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(entry, "MAX_ROW_BYTES", 1_000)
    with pytest.raises(TransportError, match="1,001 bytes is too large to travel.*in a file"):
        RowQueue().send(large(0, 1_001))
