"""The messages between a data engine and its readers: a line of JSON, then bytes of Arrow.

A request is one line. An answer is one line that says how many bytes follow; those are a stream of
Arrow's IPC format. Nothing that arrives is executed: no pickle.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO

import pyarrow as pa

from headrace.errors import TransportError

#: A line longer than this is no message of ours. The record of a long run is the longest one.
LONGEST_LINE = 64 * 2**20


def send(out: BinaryIO, head: Mapping[str, Any], body: bytes | pa.Buffer = b"") -> None:
    """Write a message."""
    line = json.dumps({**head, "bytes": len(body)}, separators=(",", ":"))
    out.write(line.encode() + b"\n")
    if len(body):
        out.write(body)
    out.flush()


def receive(source: BinaryIO) -> tuple[dict[str, Any], bytes] | None:
    """Read a message; None: the other side has gone.

    Raises:
        TransportError: what came is no message.
    """
    line = source.readline(LONGEST_LINE)
    if not line:
        return None
    try:
        head = json.loads(line)
        count = head.pop("bytes")
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        msg = f"no message of a data engine: {line[:80]!r}"
        raise TransportError(msg) from error
    body = source.read(count) if count else b""
    if len(body) < count:
        msg = f"a data engine ended in the middle of a message: {len(body):,} of {count:,} bytes"
        raise TransportError(msg)
    return head, body


def encoded(schema: pa.Schema, batches: Sequence[pa.RecordBatch]) -> pa.Buffer:
    """Write batches as a stream of Arrow."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as out:
        for batch in batches:
            out.write_batch(batch)
    return sink.getvalue()


def decoded(body: bytes) -> list[pa.RecordBatch]:
    """Read batches from a stream of Arrow."""
    return list(pa.ipc.open_stream(body)) if body else []
