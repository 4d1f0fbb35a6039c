"""Keys and values: bytes to objects and back. Bytes to hold against are written by hand."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

import fastavro
import pytest
from google.protobuf import (  # type: ignore[import-untyped]
    descriptor_pb2,
    struct_pb2,
)
from google.protobuf.wrappers_pb2 import StringValue  # type: ignore[import-untyped]

from headrace.errors import OptionError, RegistryError
from headrace.io import Avro, Json, Protobuf, SchemaRegistry
from headrace.io.kafka.formats import after_path, decoder_of, encoder_of, path_of
from headrace.io.kafka.records import KafkaRecord
from headrace.io.kafka.registry import unframed
from headrace.io.kafka.sink import _Encode
from headrace.io.kafka.source import _Decode

RIDE = {
    "type": "record", "name": "Ride",
    "fields": [{"name": "id", "type": "long"}, {"name": "who", "type": "string"}],
}  # fmt: skip
#: Avro: 3 as zig-zag, a length of 3 as zig-zag, the text.
RIDE_BYTES = b"\x06\x06ann"


class Ride(NamedTuple):
    id: int
    who: str


class Served:
    """A registry: schemas by number."""

    def __init__(self) -> None:
        self.schemas: list[dict[str, Any]] = []
        self.asked: list[str] = []
        self.logins: list[str | None] = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked.append(self.path)
                outer.logins.append(self.headers.get("Authorization"))
                number = int(self.path.rpartition("/")[2])
                if number > len(outer.schemas):
                    self.send_error(404, "Schema not found")
                    return
                self._answer(outer.schemas[number - 1])

            def do_POST(self) -> None:
                outer.asked.append(self.path)
                told = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if told not in outer.schemas:
                    outer.schemas.append(told)
                self._answer({"id": outer.schemas.index(told) + 1})

            def _answer(self, found: Any) -> None:
                data = json.dumps(found).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def registry() -> Iterator[Served]:
    served = Served()
    yield served
    served.server.shutdown()
    served.server.server_close()


def test_avro_without_a_registry_is_the_record_alone() -> None:
    for schema in (RIDE, json.dumps(RIDE)):
        avro = Avro(schema)
        assert avro.encode(Ride(3, "ann")) == RIDE_BYTES
        assert avro.decode(RIDE_BYTES) == {"id": 3, "who": "ann"}


def test_avro_of_a_registry_has_five_bytes_before_it_and_is_read_as_it_was_written(
    registry: Served,
) -> None:
    writer = Avro(RIDE, registry=SchemaRegistry(registry.url), subject="rides-value")
    data = writer.encode({"id": 3, "who": "ann"})
    assert data == b"\0\0\0\0\x01" + RIDE_BYTES
    assert writer.encode({"id": 3, "who": "ann"}) == data
    reader = Avro(registry=SchemaRegistry(registry.url))
    assert [reader.decode(data) for _ in range(3)] == [{"id": 3, "who": "ann"}] * 3
    assert registry.asked == ["/subjects/rides-value/versions", "/schemas/ids/1"]  # once each


def test_avro_written_with_an_older_schema_is_read_with_the_readers(registry: Served) -> None:
    newer = {**RIDE, "fields": [*RIDE["fields"], {"name": "fare", "type": "int", "default": 9}]}
    written = Avro(RIDE, registry=SchemaRegistry(registry.url), subject="s").encode(Ride(1, "b"))
    found = Avro(newer, registry=SchemaRegistry(registry.url)).decode(written)
    assert found == {"id": 1, "who": "b", "fare": 9}


def test_a_registry_that_does_not_know_or_is_not_there_is_named(registry: Served) -> None:
    reader = Avro(registry=SchemaRegistry(registry.url))
    with pytest.raises(RegistryError, match="/schemas/ids/77: the registry answers 404"):
        reader.decode(b"\0\0\0\0\x4d" + RIDE_BYTES)
    gone = Avro(registry=SchemaRegistry("http://127.0.0.1:9"))
    with pytest.raises(RegistryError, match="cannot be asked"):
        gone.decode(b"\0\0\0\0\x01" + RIDE_BYTES)


def test_a_password_of_a_registry_comes_from_the_environment_and_is_not_shown(
    registry: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.schemas.append({"schema": json.dumps(RIDE)})
    monkeypatch.setenv("REGISTRY_PASSWORD", "hush")
    place = SchemaRegistry(registry.url, user="ann", password_variable="REGISTRY_PASSWORD")
    assert Avro(registry=place).decode(b"\0\0\0\0\x01" + RIDE_BYTES)["who"] == "ann"
    assert registry.logins == ["Basic YW5uOmh1c2g="]
    assert "hush" not in repr(place)
    with pytest.raises(OptionError, match="no user and password in the address"):
        SchemaRegistry("http://ann:hush@host/")


@pytest.mark.parametrize("data", [b"", b"\0\0\0\x01", b"\x07" + RIDE_BYTES])
def test_a_message_without_the_header_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="header"):
        unframed(data)


def test_protobuf_alone_and_behind_the_header_of_a_registry(registry: Served) -> None:
    message = StringValue(value="ann")
    alone = Protobuf(StringValue)
    assert alone.encode(message) == b"\x0a\x03ann"
    assert alone.decode(b"\x0a\x03ann") == message
    framed = Protobuf(
        StringValue, registry=SchemaRegistry(registry.url), subject="s", schema="syntax=..."
    )
    data = framed.encode(message)
    # StringValue is the eighth of its file's types: one step, to number 7, both as zig-zag.
    assert data == b"\0\0\0\0\x01" + b"\x02\x0e" + b"\x0a\x03ann"
    assert framed.decode(data) == message
    assert registry.schemas == [{"schema": "syntax=...", "schemaType": "PROTOBUF"}]


def test_the_way_to_the_first_type_of_a_file_is_one_byte_and_to_nested_ones_is_longer() -> None:
    assert path_of(struct_pb2.Struct.DESCRIPTOR) == b"\0"
    nested = descriptor_pb2.DescriptorProto.ExtensionRange.DESCRIPTOR
    file = descriptor_pb2.DescriptorProto.DESCRIPTOR.file
    outer = [*file.message_types_by_name].index("DescriptorProto")
    inner = [t.name for t in descriptor_pb2.DescriptorProto.DESCRIPTOR.nested_types].index(
        "ExtensionRange"
    )
    assert path_of(nested) == bytes([4, outer * 2, inner * 2])
    assert after_path(path_of(nested) + b"rest") == b"rest"
    assert after_path(b"\0rest") == b"rest"
    with pytest.raises(ValueError, match="within its header"):
        after_path(b"\x04\x80")


def test_json_is_text_without_blanks_and_records_are_objects() -> None:
    assert Json().encode({"a": [1, None], "b": "é"}) == '{"a":[1,null],"b":"é"}'.encode()
    assert Json().encode(Ride(3, "ann")) == b'{"id":3,"who":"ann"}'
    assert Json().decode(b'{"a": 1.5}') == {"a": 1.5}


def test_functions_are_formats_too() -> None:
    assert decoder_of("r", int)(b"17") == 17  # type: ignore[misc]
    assert encoder_of("w", lambda n: b"%d" % n)(17) == b"17"
    assert decoder_of("r", "bytes") is None and decoder_of("r", "text") is None


@pytest.mark.parametrize(("given", "value"), [("bytes", "text"), ("text", b"bytes"), ("bytes", 5)])
def test_a_value_of_another_kind_is_refused(given: str, value: Any) -> None:
    with pytest.raises(TypeError, match="is no"):
        encoder_of("w", given)(value)


def test_elements_of_every_form_become_messages() -> None:
    encode = _Encode(encoder_of("w", "text"), encoder_of("w", Json()), None)
    assert encode(("k", {"a": 1})) == (None, None, b"k", b'{"a":1}', None, None)
    assert encode([1, 2]) == (None, None, None, b"[1,2]", None, None)
    assert encode((None, None)) == (None, None, None, None, None, None)
    record = KafkaRecord(
        key="k", value=5, topic="t", partition=2, timestamp=1234, headers={"h": "x", "n": None}
    )
    assert encode(record) == ("t", 2, b"k", b"5", 1234, [("h", b"x"), ("n", None)])
    made = _Encode(encoder_of("w", "text"), encoder_of("w", "text"), lambda n: ("k", f"v{n}"))
    assert made(7)[2:4] == (b"k", b"v7")


class Row(NamedTuple):
    value: bytes | None
    topic: str = "t"
    partition: int = 3
    offset: int = 41


def test_a_message_that_cannot_be_decoded_is_named() -> None:
    decode = _Decode(("value",), {"value": json.loads})
    assert decode(Row(b"[1]")) == KafkaRecord(value=[1])
    assert decode(Row(None)) == KafkaRecord()  # a tombstone
    with pytest.raises(ValueError) as caught:
        decode(Row(b"{"))
    assert caught.value.__notes__ == [
        "[the value of the message at offset 41 of t, partition 3, cannot be decoded]"
    ]


def test_avro_like_fastavro_writes_it() -> None:
    import io

    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(RIDE), {"id": 70, "who": "bob"})
    assert Avro(RIDE).encode({"id": 70, "who": "bob"}) == out.getvalue()
