"""Keeps grouped values on disk when they outgrow memory, and reads them back group by group.

Takes (group name, chunks of encoded values), gives the groups in name order, each as a re-iterable
sequence that reads its chunks when asked. Knows bytes only; the caller encodes and decodes.
"""

from __future__ import annotations

import heapq
import os
import struct
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple, Protocol
from zlib import crc32

from apache_beam.coders import observable

from headrace.errors import TransportError
from headrace.state.disk_space import space_for
from headrace.worker.beam_types import Value

_HEAD = struct.Struct("<IIII")  # name bytes, values, chunk bytes, checksum of the chunk
_HEAD_SUM = struct.Struct("<I")  # checksum of the four and the name: a damaged name is another key

#: Values per chunk: one chunk is decoded at a time, so this bounds memory while iterating.
CHUNK_VALUES = 4_096
#: A chunk ends here too, or after one value that is larger.
CHUNK_BYTES = 4 << 20


class RunFile:
    """An anonymous temporary file that is closed when nobody points at it any more."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(prefix="headrace-spill-")
        self.write = self._file.write
        self.flush = self._file.flush
        self.fileno = self._file.fileno
        weakref.finalize(self, self._file.close)


class Loadable(Protocol):
    """Some values of one group, wherever they are."""

    @property
    def values(self) -> int:
        """How many there are."""

    def load(self) -> bytes:
        """Give them packed."""


class Chunk(NamedTuple):
    """Where some values of one group lie."""

    file: RunFile
    offset: int
    size: int
    values: int
    checksum: int

    def load(self) -> bytes:
        """Read the chunk; damaged bytes are never handed on."""
        data = os.pread(self.file.fileno(), self.size, self.offset)
        if len(data) != self.size or crc32(data) != self.checksum:
            raise _damaged(self.offset)
        return data


class HeldChunk(NamedTuple):
    """Some values of one group that are in memory."""

    data: bytes
    values: int

    def load(self) -> bytes:
        """Give the bytes."""
        return self.data


def _damaged(offset: int) -> TransportError:
    return TransportError(f"spilled values at byte {offset} are damaged; is the local disk full?")


class SpillRuns:
    """Sorted runs in anonymous temporary files; the system frees them when the task ends."""

    def __init__(self) -> None:
        self._runs: list[RunFile] = []

    def __bool__(self) -> bool:
        return bool(self._runs)

    def write(self, groups: Iterable[tuple[bytes, Iterable[tuple[int, bytes]]]]) -> None:
        """Write one run; `groups` come in name order, each with its (count, bytes) chunks."""
        with space_for(f"{tempfile.gettempdir()}/headrace-spill"):
            file = RunFile()
            for name, chunks in groups:
                for count, data in chunks:
                    head = _HEAD.pack(len(name), count, len(data), crc32(data))
                    file.write(head)
                    file.write(_HEAD_SUM.pack(crc32(head + name)))
                    file.write(name)
                    file.write(data)
            file.flush()
        self._runs.append(file)

    def groups(self) -> Iterator[tuple[bytes, list[Chunk]]]:
        """Merge all runs: each group once, with all its chunks."""
        merged = heapq.merge(*(self._scan(run) for run in self._runs), key=itemgetter(0))
        for name, pairs in groupby(merged, key=itemgetter(0)):
            yield name, [chunk for _, chunk in pairs]

    @staticmethod
    def _scan(run: RunFile) -> Iterator[tuple[bytes, Chunk]]:
        with os.fdopen(os.dup(run.fileno()), "rb") as file:
            end = os.fstat(run.fileno()).st_size
            offset = 0
            while offset < end:
                fixed = os.pread(file.fileno(), _HEAD.size + _HEAD_SUM.size, offset)
                if len(fixed) != _HEAD.size + _HEAD_SUM.size:
                    raise _damaged(offset)
                head = fixed[: _HEAD.size]
                name_size, count, size, checksum = _HEAD.unpack(head)
                if name_size > end - offset:  # checked first: it may ask for any amount of memory
                    raise _damaged(offset)
                name = os.pread(file.fileno(), name_size, offset + len(fixed))
                if (crc32(head + name),) != _HEAD_SUM.unpack(fixed[_HEAD.size :]):
                    raise _damaged(offset)
                offset += len(fixed) + name_size
                yield name, Chunk(run, offset, size, count, checksum)
                offset += size


class SpilledValues(observable.ObservableMixin):  # type: ignore[misc]
    """The values of one group, read from where they lie each time they are iterated.

    Observable, so that Beam's size estimate listens to what passes instead of reading it all.
    """

    def __init__(
        self, chunks: Sequence[Loadable], decode: Callable[[bytes], Iterable[Value]]
    ) -> None:
        super().__init__()
        self._chunks: list[Loadable] = [*chunks]
        self._decode = decode
        self._length: int | None = None  # not counted yet

    def more(self, chunk: Loadable) -> None:
        """Take some more values."""
        self._chunks.append(chunk)
        self._length = None

    def __iter__(self) -> Iterator[Value]:
        for chunk in self._chunks:
            yield from self._decode(chunk.load())

    def __len__(self) -> int:
        if self._length is None:  # `list(values)` asks too, and some chunks are read to be counted
            self._length = sum(chunk.values for chunk in self._chunks)
        return self._length

    def __reduce__(self) -> tuple[type[list[Value]], tuple[list[Value]]]:
        return list, (list(self),)
