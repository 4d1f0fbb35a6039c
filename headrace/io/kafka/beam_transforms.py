"""Gives ours in place of Beam's own Kafka transforms, whose code is Java's.

Takes `apache_beam.io.kafka.ReadFromKafka` or `WriteToKafka` as a user has made it, reads its fields
out of the payload that a Java service would get, and gives a transform with the same elements.
Refuses, by name, what only Java could do.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam.coders import RowCoder
from apache_beam.io import kafka as beams
from apache_beam.portability.api import external_transforms_pb2

from headrace.errors import UnsupportedTransformError
from headrace.io.kafka.formats import BYTES, TEXT
from headrace.io.kafka.offsets import GroupStart
from headrace.io.kafka.sink import WriteToKafka
from headrace.io.kafka.source import ReadFromKafka, nothing_to_read

_CLASSES = "org.apache.kafka.common.serialization."
#: Kafka's own classes for plain values: how their bytes are laid out.
_LAYOUTS = {"Short": ">h", "Integer": ">i", "Long": ">q", "Float": ">f", "Double": ">d"}
#: Spark's numbers for what a message's time is, and Kafka's names.
_TIME_KINDS = {0: "CreateTime", 1: "LogAppendTime"}


class _Header(NamedTuple):
    key: str
    value: bytes | None


class _WithMetadata(NamedTuple):
    """The fields of Beam's `ByteArrayKafkaRecord`."""

    topic: str
    partition: int
    offset: int
    timestamp: int  # milliseconds
    key: bytes | None
    value: bytes | None
    headers: Sequence[_Header] | None
    timestampTypeId: int
    timestampTypeName: str


def in_place_of(transform: Any) -> Any | None:
    """Give the transform that runs here; None if there is no need of one.

    Raises:
        UnsupportedTransformError: it asks for what only Java could do.
    """
    if isinstance(transform, beams.ReadFromKafka):
        metadata = transform._urn == beams.ReadFromKafka.URN_WITH_METADATA  # noqa: SLF001
        return _Read(transform.label, _fields(transform), metadata=metadata)
    if isinstance(transform, beams.WriteToKafka):
        return _Write(transform.label, _fields(transform))
    return None


class _Read(beam.PTransform):  # type: ignore[misc]
    def __init__(self, label: str, fields: Any, *, metadata: bool) -> None:
        super().__init__(label)
        for name in ("consumer_factory_fn_class", "max_read_time"):
            if getattr(fields, name, None):
                msg = (
                    f"{label}: {name} of Beam's ReadFromKafka is not supported on headrace; "
                    "headrace.io.ReadFromKafka takes options, and an end"
                )
                raise UnsupportedTransformError(msg)
        config = dict(fields.consumer_config)
        most = fields.max_num_records or None
        group = config.pop("group.id", None)
        reset = config.pop("auto.offset.reset", "latest")
        start: Any = "earliest" if reset == "earliest" else "latest"
        if fields.start_read_time is not None:
            start = fields.start_read_time / 1000
        elif group:
            start = GroupStart(group=group, otherwise=reset)
        elif most and start == "latest":
            raise UnsupportedTransformError(nothing_to_read(label))
        by_arrival = fields.timestamp_policy == beams.ReadFromKafka.processing_time_policy
        columns = ["key", "value"]
        if metadata:
            columns += ["topic", "partition", "offset", "timestamp", "timestampType", "headers"]
        self._metadata = metadata
        self._again = bool(fields.redistribute)
        self._read = ReadFromKafka(
            config.pop("bootstrap.servers"),
            list(fields.topics),
            key=_decoder(label, fields.key_deserializer),
            value=_decoder(label, fields.value_deserializer),
            columns=columns,
            start=start,
            end="latest" if most else None,
            max_records=most,
            timestamp=None if by_arrival and not most else "timestamp",
            group_id=group if fields.commit_offset_in_finalize and group else None,
            options=config,
        )

    def expand(self, pbegin: Any) -> Any:
        rows = pbegin | "Read" >> self._read
        if self._metadata:
            made = rows | "Record" >> beam.Map(_record).with_output_types(_WithMetadata)
        else:
            made = rows | "Pair" >> beam.Map(_pair)
        return made | "Redistribute" >> beam.Reshuffle() if self._again else made


class _Write(beam.PTransform):  # type: ignore[misc]
    def __init__(self, label: str, fields: Any) -> None:
        super().__init__(label)
        config = dict(fields.producer_config)
        self._write = WriteToKafka(
            config.pop("bootstrap.servers"),
            fields.topic,
            key=_encoder(label, fields.key_serializer),
            value=_encoder(label, fields.value_serializer),
            options=config,
        )

    def expand(self, pcoll: Any) -> Any:
        return pcoll | "Write" >> self._write


def _pair(row: Any) -> tuple[Any, Any]:
    return row.key, row.value


def _record(row: Any) -> _WithMetadata:
    headers = None if row.headers is None else [_Header(h.key, h.value) for h in row.headers]
    return _WithMetadata(
        topic=row.topic, partition=row.partition, offset=row.offset,
        timestamp=row.timestamp.micros // 1000, key=row.key, value=row.value, headers=headers,
        timestampTypeId=row.timestampType, timestampTypeName=_TIME_KINDS.get(row.timestampType, ""),
    )  # fmt: skip


def _fields(transform: Any) -> Any:
    """Read what a Java service would be told."""
    payload = external_transforms_pb2.ExternalConfigurationPayload.FromString(
        transform._payload  # noqa: SLF001 (Beam has no other door)
    )
    return RowCoder(payload.schema).decode(payload.payload)


def _decoder(label: str, name: str) -> Any:
    kind = _kind(label, name, "Deserializer")
    if kind in ("ByteArray", "String"):
        return BYTES if kind == "ByteArray" else TEXT
    return _Unpack(_LAYOUTS[kind])


def _encoder(label: str, name: str) -> Any:
    kind = _kind(label, name, "Serializer")
    if kind in ("ByteArray", "String"):
        return BYTES if kind == "ByteArray" else TEXT
    return _Pack(_LAYOUTS[kind])


def _kind(label: str, name: str, what: str) -> str:
    kind = name.removeprefix(_CLASSES).removesuffix(what)
    if name != f"{_CLASSES}{kind}{what}" or kind not in ("ByteArray", "String", *_LAYOUTS):
        known = ", ".join(f"{k}{what}" for k in ("ByteArray", "String", *_LAYOUTS))
        msg = (
            f"{label}: {name} is a class of Java's. Of Kafka's own, {known} are known; or use "
            "headrace.io.ReadFromKafka and WriteToKafka, which take formats and functions"
        )
        raise UnsupportedTransformError(msg)
    return kind


class _Unpack:
    def __init__(self, layout: str) -> None:
        self._layout = layout

    def __call__(self, data: bytes) -> Any:
        return struct.unpack(self._layout, data)[0]


class _Pack:
    def __init__(self, layout: str) -> None:
        self._layout = layout

    def __call__(self, value: Any) -> bytes:
        return struct.pack(self._layout, value)
