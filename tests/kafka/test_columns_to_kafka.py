"""Bytes that stay columns on their way to a topic: the outbox gets what objects would give it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.compiler.lower.one_step import NotLowered, lower
from headrace.compiler.lower.shapes import shape_of_hint
from headrace.io.kafka.formats import encoder_of
from headrace.io.kafka.outbox import ParquetOutbox
from headrace.io.kafka.records import KafkaRecord
from headrace.io.kafka.sink import _Encode
from headrace.io.storage import LocalStorage
from headrace.worker.columns.kernels import kernel_of
from headrace.worker.columns.values import of_objects
from headrace.worker.ends.column_fields import arrays_of

#: As a worker has the rows of a sink.
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
MESSAGE = pa.schema([
    ("topic", pa.string()), ("partition", pa.int32()), ("key", pa.binary()),
    ("value", pa.binary()), ("timestamp", pa.int64()), ("headers", HEADERS),
])  # fmt: skip


class Pair(NamedTuple):
    """A record that is a message."""

    key: bytes | None
    value: bytes | None


class Value(NamedTuple):
    """A message without a key."""

    value: bytes


class Addressed(NamedTuple):
    """A record that says where it goes."""

    value: bytes
    topic: str


def encode(key: Any = "bytes", value: Any = "bytes", message: Any = None) -> _Encode:
    return _Encode(encoder_of("Write", key), encoder_of("Write", value), message)


@pytest.mark.parametrize(
    ("hint", "elements"),
    [
        (tuple[bytes, bytes], [(b"k", b"v"), (b"", b"")]),
        (tuple[bytes | None, bytes | None], [(None, b"v"), (b"k", None), (None, None)]),
        (Pair, [Pair(b"k", None), Pair(None, b"v")]),
        (Value, [Value(b"v"), Value(b"")]),
        (bytes, [b"v", b""]),
    ],
)
def test_columns_become_the_messages_that_objects_become(hint: Any, elements: list[Any]) -> None:
    shape = shape_of_hint(hint)
    assert shape is not None
    lowered = lower(beam.Map(encode()).dofn, shape)
    assert not isinstance(lowered, NotLowered), lowered
    values = of_objects(elements, shape)
    assert values is not None
    outcome = kernel_of(lowered)(values)
    assert outcome.back is None
    messages = list(map(encode(), elements))
    assert outcome.values.objects() == messages
    arrays = arrays_of(outcome.values, MESSAGE)
    assert arrays is not None
    assert list(zip(*(array.to_pylist() for array in arrays), strict=True)) == messages


@pytest.mark.parametrize(
    ("made", "hint"),
    [
        (lambda: encode(value="text"), tuple[bytes, bytes]),
        (lambda: encode(key=lambda key: key + b"?"), tuple[bytes, bytes]),
        (lambda: encode(message=lambda pair: pair[::-1]), tuple[bytes, bytes]),
        (encode, tuple[str, bytes]),
        (encode, tuple[bytes, bytes, bytes]),
        (encode, Addressed),
        (encode, KafkaRecord),
    ],
)
def test_what_is_more_than_bytes_goes_as_objects(made: Callable[[], _Encode], hint: Any) -> None:
    shape = shape_of_hint(hint)
    if shape is not None:
        assert isinstance(lower(beam.Map(made()).dofn, shape), NotLowered)


class Session:
    """Says where its paths lie."""

    def __init__(self, base: Path) -> None:
        self._base = base

    def storage(self) -> LocalStorage:
        return LocalStorage(str(self._base))


@pytest.mark.parametrize("most", [1, 3, 4, 6, 10, 11])
@pytest.mark.parametrize("start", [0, 3, 6, 7, 10])
def test_an_epochs_messages_are_taken_from_any_place_in_any_number(
    tmp_path: Path, most: int, start: int
) -> None:
    outbox = ParquetOutbox(str(tmp_path), Session(tmp_path))
    folder = Path(outbox._folders._folder(4))
    rows = [(None, None, b"k%d" % n, None, None, None) for n in range(10)]
    for name, part in (("a", rows[:6]), ("b", rows[6:])):
        fields = zip(zip(*part, strict=True), MESSAGE, strict=True)
        columns = [pa.array(values, field.type) for values, field in fields]
        folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table(columns, MESSAGE), folder / f"{name}.parquet", row_group_size=4)
    found = [(list(part), len(part), last) for part, last in outbox.messages(4, start, most)]
    assert [row for part, _, _ in found for row in part] == rows[start:]
    assert all(len(part) == size <= most for part, size, _ in found)
    assert [last for _, _, last in found] == [False] * (len(found) - 1) + [True]
    assert len(found) == max(1, -(-(10 - start) // most))
