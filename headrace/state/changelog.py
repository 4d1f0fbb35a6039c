"""The files of a state partition: rows with a checksum around them.

Decides what a file looks like on disk: a head, an Arrow stream of names and values in the order
of names (a null value says the row is gone), and a foot with length, row count and CRC-32 of
all before it. A file that is torn, cut or changed is refused and named, never read as data.
Knows nothing of versions and stores.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from zlib import crc32

import pyarrow as pa

from headrace.errors import StateError
from headrace.state.chain import Link
from headrace.state.files import Files

#: Names, and beside each its value or None, both in the order of names.
Rows = tuple[Sequence[bytes], Sequence[bytes | None]]

_MAGIC = b"headrace"
_FORMAT = 1
_HEAD = struct.Struct(">8sHxxxxxx")  # 16 bytes: Arrow wants its stream aligned
_FOOT = struct.Struct(">QQI")  # length of the file without the foot, rows, CRC-32 of all before it
_CRC = struct.Struct(">I")
#: Rows that are turned into Python objects at once when a file is read.
_BATCH_ROWS = 32768

_SCHEMA = pa.schema([("name", pa.large_binary()), ("value", pa.large_binary())])
_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
_ADVICE = (
    "Bring the file back from a copy of the checkpoint folder, or start from an older checkpoint."
)

_WAY_ON = "run the pipeline with the version that wrote the checkpoint, or a later one"


class Draft:
    """A file that is being made in memory."""

    def __init__(self) -> None:
        self._sink = pa.BufferOutputStream()
        self._sink.write(_HEAD.pack(_MAGIC, _FORMAT))
        self._stream = pa.ipc.new_stream(self._sink, _SCHEMA, options=_OPTIONS)
        self.rows = 0
        self.raw_bytes = 0  # before compression

    def add(self, rows: Rows) -> None:
        """Add rows; their names come after all names added before."""
        columns = [pa.array(column, pa.large_binary()) for column in rows]
        batch = pa.record_batch(columns, schema=_SCHEMA)
        for start in range(0, len(batch), _BATCH_ROWS):
            self._stream.write_batch(batch.slice(start, _BATCH_ROWS))
        self.rows += len(batch)
        self.raw_bytes += batch.nbytes

    def write(self, files: Files, name: str, *, until: int, tier: int = 0) -> Link:
        """Close the file, write it and give the link to it."""
        self._stream.close()
        body = self._sink.getvalue()
        sizes = struct.pack(">QQ", len(body), self.rows)
        crc = crc32(sizes, crc32(body))
        data = b"".join((body, sizes, _CRC.pack(crc)))
        try:
            files.write(name, data)
        except OSError as error:
            msg = (
                f"{files.path(name)} cannot be written: {error}. The state of the epoch before is "
                f"whole; make room or mend the folder, and start the pipeline again."
            )
            raise StateError(msg) from error
        return Link(name=name, size=len(data), crc=crc, rows=self.rows, until=until, tier=tier)


def write_rows(files: Files, name: str, rows: Rows, *, until: int, tier: int = 0) -> Link:
    """Write rows, sorted by name, as one file."""
    draft = Draft()
    draft.add(rows)
    return draft.write(files, name, until=until, tier=tier)


def fetch(files: Files, link: Link) -> bytes:
    """Read a file of a chain and check that it is the one the chain means, whole and unchanged."""
    try:
        data = files.read(link.name)
    except FileNotFoundError as error:
        raise _bad(files, link, "it is not there") from error
    except OSError as error:
        raise _bad(files, link, str(error)) from error
    if len(data) != link.size:
        raise _bad(files, link, f"it has {len(data)} bytes and should have {link.size}")
    if len(data) < _HEAD.size + _FOOT.size:
        raise _bad(files, link, "it is too short to be a file of state")
    magic, version = _HEAD.unpack_from(data)
    if magic != _MAGIC:
        raise _bad(files, link, "it does not begin like a file of state")
    length, rows, crc = _FOOT.unpack_from(data, len(data) - _FOOT.size)
    whole = crc32(memoryview(data)[: -_CRC.size])
    if whole != crc or crc != link.crc:
        raise _bad(files, link, f"its checksum is {whole:08x} and should be {link.crc:08x}")
    if version != _FORMAT:
        msg = (
            f"{files.path(link.name)} was written by {_other(version)} version of headrace (format "
            f"{version}, this one reads {_FORMAT}): {_WAY_ON}"
        )
        raise StateError(msg)
    if length != len(data) - _FOOT.size or rows != link.rows:
        raise _bad(files, link, f"it holds {rows} rows and should hold {link.rows}")
    return data


def unpack(data: bytes) -> Iterator[Rows]:
    """Give the rows of a checked file, batch by batch."""
    body = pa.py_buffer(data).slice(_HEAD.size, len(data) - _HEAD.size - _FOOT.size)
    for batch in pa.ipc.open_stream(body):
        names, values = (
            column.to_numpy(zero_copy_only=False).tolist() for column in batch.columns
        )
        yield names, values


def read_link(files: Files, link: Link) -> Iterator[Rows]:
    """Give the rows of one file of a chain, batch by batch."""
    return unpack(fetch(files, link))


def problems(files: Files, link: Link) -> list[str]:
    """Say what is wrong with one file of a chain; nothing, if it can be used."""
    try:
        last = b""
        for names, values in read_link(files, link):
            if len(names) != len(values):
                return [str(_bad(files, link, "names and values are not equally many"))]
            for name in names:
                if name <= last:
                    return [str(_bad(files, link, f"the name {name.hex()} is out of order"))]
                last = name
    except StateError as error:
        return [str(error)]
    except pa.ArrowException as error:
        return [str(_bad(files, link, str(error)))]
    return []


def _other(version: int) -> str:
    return "a newer" if version > _FORMAT else "another"


def _bad(files: Files, link: Link, what: str) -> StateError:
    return StateError(f"{files.path(link.name)} cannot be used: {what}. {_ADVICE}")
