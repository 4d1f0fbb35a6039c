"""How the bytes of a key or a value become an object, and the reverse.

A format is a description that travels to the workers; `decode` and `encode` are its behaviour.
Names of formats that need nothing more: `"bytes"` and `"text"`. Any function `bytes -> object`
decodes, and any `object -> bytes` encodes. Knows nothing of topics, Spark and pipelines.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from headrace.errors import OptionError
from headrace.io.kafka.registry import SchemaRegistry, framed, unframed

__all__ = ["Avro", "Format", "Json", "Protobuf", "SchemaRegistry", "decoder_of", "encoder_of"]

#: Formats by name: what they mean is done by Spark, as columns, where a topic is read.
BYTES, TEXT = "bytes", "text"


@runtime_checkable
class Format(Protocol):
    """What every format can do."""

    def decode(self, data: bytes) -> Any:
        """Give the object; ValueError says why there is none."""

    def encode(self, value: Any) -> bytes:
        """Give the bytes."""


@dataclass(frozen=True, slots=True)
class Json:
    """JSON text in UTF-8.

    Args:
        schema: `user string, amount double`: Spark reads the fields, `record.value.amount` is one,
            and rows stay columns. None: any JSON, read by Python into dicts and lists.
    """

    schema: str | None = None

    def decode(self, data: bytes) -> Any:
        """Give the object that the text stands for."""
        return json.loads(data)

    def encode(self, value: Any) -> bytes:
        """Give the text, without blanks; records are objects, named by their fields."""
        if hasattr(value, "_asdict"):
            value = value._asdict()
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


@dataclass(frozen=True, slots=True)
class Avro:
    """Avro records, alone or behind the header of a schema registry.

    Args:
        schema: a schema as a dict or as JSON text. With a registry it may be left out for reading,
            where the registry knows how a message was written; given, it is what readers want.
        registry: messages have the five bytes of a registry before them.
        subject: under which a registry keeps the schema of what is written.
    """

    schema: Any = None
    registry: SchemaRegistry | None = None
    subject: str | None = None
    _parsed: dict[str, Any] = field(
        default_factory=dict, init=False, repr=False, compare=False, hash=False
    )

    def __post_init__(self) -> None:
        if self.schema is None and self.registry is None:
            msg = "Avro: give a schema, or the registry that has it"
            raise OptionError(msg)

    def decode(self, data: bytes) -> Any:
        """Give the record as a dict."""
        import fastavro

        mine = self._own()
        if self.registry is None:
            return fastavro.schemaless_reader(io.BytesIO(data), mine, None)
        number, body = unframed(data)
        known = self._parsed.get(f"#{number}")
        if known is None:
            known = fastavro.parse_schema(json.loads(self.registry.schema(number)))
            self._parsed[f"#{number}"] = known
        return fastavro.schemaless_reader(io.BytesIO(body), known, mine)

    def encode(self, value: Any) -> bytes:
        """Give the record's bytes."""
        import fastavro

        mine = self._own()
        if mine is None:
            msg = "Avro: give the schema in which to write"
            raise OptionError(msg)
        if hasattr(value, "_asdict"):
            value = value._asdict()
        out = io.BytesIO()
        fastavro.schemaless_writer(out, mine, value)
        if self.registry is None:
            return out.getvalue()
        text = self.schema if isinstance(self.schema, str) else json.dumps(self.schema)
        number = self.registry.number(self.subject, text, "AVRO")
        return framed(number, out.getvalue())

    def _own(self) -> Any:
        if self.schema is None:
            return None
        found = self._parsed.get("")
        if found is None:
            import fastavro

            given = json.loads(self.schema) if isinstance(self.schema, str) else self.schema
            found = self._parsed[""] = fastavro.parse_schema(given)
        return found


@dataclass(frozen=True, slots=True)
class Protobuf:
    """Messages of a Protobuf class, alone or behind the header of a schema registry.

    Args:
        message: the class that `protoc` has made.
        registry: messages have the five bytes of a registry and the way to their type before them;
            for writing, it is told the schema.
        subject: under which a registry keeps the schema of what is written.
        schema: the text of the .proto file, for a registry that does not have it yet.
    """

    message: Any
    registry: SchemaRegistry | None = None
    subject: str | None = None
    schema: str | None = None

    def __post_init__(self) -> None:
        if not hasattr(self.message, "FromString"):
            msg = f"Protobuf: {self.message!r} is no class of a Protobuf message"
            raise OptionError(msg)

    def decode(self, data: bytes) -> Any:
        """Give the message."""
        if self.registry is not None:
            data = after_path(unframed(data)[1])
        return self.message.FromString(data)

    def encode(self, value: Any) -> bytes:
        """Give the message's bytes."""
        data: bytes = value.SerializeToString()
        if self.registry is None:
            return data
        number = self.registry.number(self.subject, self.schema, "PROTOBUF")
        return framed(number, path_of(self.message.DESCRIPTOR) + data)


def decoder_of(step: str, given: Any) -> Callable[[bytes], Any] | None:
    """Give what decodes; None if nothing is to be done.

    Raises:
        OptionError: it is no format.
    """
    if given in (BYTES, TEXT) or given is bytes:
        return None
    if isinstance(given, Format):
        return given.decode
    if callable(given):
        return given  # type: ignore[no-any-return]
    raise OptionError(_no_format(step, given))


def encoder_of(step: str, given: Any) -> Callable[[Any], bytes]:
    """Give what encodes.

    Raises:
        OptionError: it is no format.
    """
    if given == BYTES:
        return _as_bytes
    if given == TEXT:
        return _as_text
    if isinstance(given, Format):
        return given.encode
    if callable(given):
        return given  # type: ignore[no-any-return]
    raise OptionError(_no_format(step, given))


def is_plain(encode: Callable[[Any], bytes]) -> bool:
    """Whether an encoder of `encoder_of` gives bytes back as they are."""
    return encode is _as_bytes


def path_of(descriptor: Any) -> bytes:
    """Give the way from a file's top to a message type, as a registry's header has it.

    The first type of a file, the most frequent, is one byte of zero.
    """
    path: list[int] = []
    while descriptor is not None:
        holder = descriptor.containing_type
        among = holder.nested_types if holder is not None else list(
            descriptor.file.message_types_by_name.values()
        )
        path.insert(0, [other.full_name for other in among].index(descriptor.full_name))
        descriptor = holder
    if path == [0]:
        return b"\0"
    return b"".join(_varint(number) for number in (len(path), *path))


def after_path(data: bytes) -> bytes:
    """Give what follows the way to a message type."""
    count, at = _read_varint(data, 0)
    for _ in range(count):
        _, at = _read_varint(data, at)
    return data[at:]


def _varint(number: int) -> bytes:
    number <<= 1  # zig-zag, and none of these is negative
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        if at >= len(data):
            msg = "the message ends within its header"
            raise ValueError(msg)
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return number >> 1, at


def _as_bytes(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    msg = (
        f"a {type(value).__name__} is no bytes; say how it becomes some: "
        'value="text", value=Json(), Avro(...), Protobuf(...) or a function'
    )
    raise TypeError(msg)


def _as_text(value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode()
    msg = f"a {type(value).__name__} is no text"
    raise TypeError(msg)


def _no_format(step: str, given: Any) -> str:
    kind = "a mapping" if isinstance(given, Mapping) else repr(given)
    return (
        f'{step}: {kind} is no format; give "bytes", "text", Json(), Avro(...), Protobuf(...) or '
        "a function"
    )
