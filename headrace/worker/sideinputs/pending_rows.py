"""The rows of a pending states graph: how its three tiers lie in a store.

Tier 1: a row for each edge from a side window to a main window, by the side window's deadline. Tier
2: for each main window a node (what it lacks, how much waits), a row in an index by the earliest
time that waits, and pages that list its chunks. Tier 3: chunks of encoded elements. Knows neither
when a side window is ready nor what to do then: see `pending`.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from itertools import groupby
from typing import NamedTuple

from apache_beam.coders.coder_impl import (
    PaneInfoCoderImpl,
    create_InputStream,
    create_OutputStream,
)
from apache_beam.utils.timestamp import MAX_TIMESTAMP

from headrace.errors import StateError
from headrace.state.layout import (
    Kind,
    any_key_group,
    head,
    key_group_of,
    moment,
    name,
    part,
    rest_of,
    stamp,
    under,
)
from headrace.state.store import Store, odd_rows
from headrace.worker.batched.batches import BATCH_VALUES
from headrace.worker.beam_types import CoderImpl, Decode, Encode, InStream, Pane, Value, Window

END: int = MAX_TIMESTAMP.micros
#: Before every time: nothing has been scanned yet.
NEVER = -(1 << 63)
#: Key group of elements without a key: where their chunks lie is settled when they are written.
NOWHERE = -1
#: Bytes after which a chunk is closed, even if it holds few elements.
MAX_CHUNK_BYTES = 1 << 20

_NODE, _HOLD, _PAGE = b"n", b"h", b"p"
_TAIL_BYTES = 12  # who wrote a chunk (8), and a number (4): unique over all shards and their pasts
_PAGE_ENTRY = struct.Struct(f">I{_TAIL_BYTES}s")
_NODE_ROW = struct.Struct(">QqII")
_SUMMARY_ROW = struct.Struct(">8sQ")
_PANES = PaneInfoCoderImpl()


class Buffer:
    """Elements of one main window and key group that came in this epoch, encoded."""

    __slots__ = ("_out", "_panes", "_times")

    def __init__(self) -> None:
        self._out = create_OutputStream()
        self._times: list[int] = []
        self._panes: list[Pane] = []

    def take(
        self, values: list[Value], times: list[int], panes: list[Pane], encode: Encode
    ) -> None:
        """Add elements. They are encoded at once: their owner may change them afterwards."""
        out = self._out
        for value in values:
            encode(value, out, True)
        self._times += times
        self._panes += panes

    @property
    def full(self) -> bool:
        """Whether it should become a chunk now."""
        return len(self._times) >= BATCH_VALUES or bool(self._out.size() >= MAX_CHUNK_BYTES)

    def seal(self, window: bytes) -> bytes:
        """Give the chunk."""
        out = create_OutputStream()
        out.write_var_int64(len(self._times))
        out.write_bigendian_int64(min(self._times))
        out.write(window, True)
        runs = [(pane, len(list(equal))) for pane, equal in groupby(self._panes)]
        out.write_var_int64(len(runs))
        for pane, count in runs:
            out.write_var_int64(count)
            _PANES.encode_to_stream(pane, out, True)
        # Not by Beam's coder of windowed values: it cuts times to milliseconds.
        out.write(struct.pack(f">{len(self._times)}q", *self._times))
        return bytes(out.get() + self._out.get())


class Chunk(NamedTuple):
    """Elements that waited, decoded."""

    values: list[Value]
    times: tuple[int, ...]
    panes: list[Pane]


def read_chunk(data: bytes, decode: Decode) -> Chunk:
    """Read what `Buffer.seal` gave."""
    stream = create_InputStream(data)
    count, _, _ = _header(stream)
    panes: list[Pane] = []
    for _ in range(stream.read_var_int64()):
        run = stream.read_var_int64()
        panes += [_PANES.decode_from_stream(stream, True)] * run
    times = struct.unpack(f">{count}q", stream.read(8 * count))
    return Chunk([decode(stream, True) for _ in range(count)], times, panes)


def _header(stream: InStream) -> tuple[int, int, bytes]:
    """Read a chunk's number of elements, earliest time, and main window."""
    return stream.read_var_int64(), stream.read_bigendian_int64(), stream.read_all(True)


class Node:
    """A main window that waits."""

    __slots__ = (
        "buffers", "chunks", "count", "edges", "held", "lacks", "least", "name", "needs", "pages",
        "sealed", "window",
    )

    def __init__(self, encoded: bytes, window: Window) -> None:
        self.name = encoded
        self.window = window
        self.count = 0
        self.least = END
        self.pages = 0  # rows that list chunks
        self.chunks = 0  # numbers given to chunks
        self.lacks = 0  # a bit for each side input that is not ready
        self.held: int | None = None  # `least` as the store has it; None: not in the store
        self.needs: dict[int, Window] = {}  # side input -> window, if asked this epoch
        self.edges: dict[int, bytes] = {}  # side input -> edge, where its row is not written yet
        self.buffers: dict[int, Buffer] = {}  # by key group
        self.sealed: list[tuple[int, bytes]] = []  # key group and chunk


class PendingRows:
    """The rows of one stage's graph."""

    def __init__(self, stage: int, sides: int, window_impl: CoderImpl) -> None:
        self._stage = stage
        self._sides = sides
        self._window_impl = window_impl
        self._summary_row = name(Kind.META, stage, 0, part(b"pending"))
        self._edges = head(Kind.PENDING_SIDE, stage)
        self._store: Store | None = None
        self._writer: bytes | None = None

    def attach(self, store: Store) -> None:
        """Begin an epoch."""
        self._store = store
        self._writer = None

    # -- what is known of the whole graph

    def read_summary(self) -> tuple[int, list[int]] | None:
        """Give the number of elements that wait, and how far each side input was scanned."""
        row = self._rows.get(self._summary_row)
        if row is None:
            return None
        self._writer, count = _SUMMARY_ROW.unpack_from(row)
        return count, list(struct.unpack_from(f">{self._sides}q", row, _SUMMARY_ROW.size))

    def write_summary(self, count: int, scanned: list[int]) -> None:
        """Write the same, unless nothing waits and nothing did."""
        old = self._rows.get(self._summary_row)
        if not count and (old is None or _SUMMARY_ROW.unpack_from(old)[1] == 0):
            return
        marks = struct.pack(f">{self._sides}q", *scanned)
        self._rows.put(self._summary_row, _SUMMARY_ROW.pack(self._written_by, count) + marks)

    @property
    def _written_by(self) -> bytes:
        """Give what tells this shard's rows from all others; drawn once in a shard's life."""
        if self._writer is None:
            self._writer = os.urandom(8)
        return self._writer

    @property
    def _here(self) -> tuple[int, bytes]:
        """Give key group and first part of the rows of tiers 1 and 2.

        These follow from the chunks, and a shard that gets chunks of others makes them anew: so
        they may lie anywhere, but no two shards may give a row the same name.
        """
        writer = self._written_by
        return int.from_bytes(writer[:4], "big"), writer[4:]

    def reset(self) -> list[Node]:
        """Forget tiers 1 and 2; give nodes made of the chunks alone, with a page each."""
        store = self._rows
        found: dict[bytes, Node] = {}
        pages: dict[bytes, list[bytes]] = {}
        for row, chunk in store.scan(*under(head(Kind.PENDING_ELEMENTS, self._stage))):
            count, least, encoded = _header(create_InputStream(chunk))
            if encoded not in found:
                found[encoded] = Node(encoded, self._window_impl.decode(encoded))
                pages[encoded] = []
            node = found[encoded]
            node.count += count
            node.least = min(node.least, least)
            node.chunks += 1
            pages[encoded].append(_PAGE_ENTRY.pack(key_group_of(row), row[-_TAIL_BYTES:]))
        for kind in (Kind.PENDING_SIDE, Kind.PENDING_MAIN):
            for row, _ in list(store.scan(*under(head(kind, self._stage)))):
                store.delete(row)
        for encoded, entries in pages.items():
            store.put(self._page_row(encoded, 0), b"".join(entries))
            found[encoded].pages = 1
        return list(found.values())

    def earliest(self) -> int:
        """Give the earliest time in the index."""
        first = self._main_row(_HOLD)
        for row, _ in self._rows.scan(*under(first)):
            return moment(row[len(first) : len(first) + 8])
        return END

    # -- tier 1

    def edge(self, index: int, deadline: int, side: bytes, main: bytes) -> bytes:
        """Name the edge from a side window to a main window."""
        return self._edges_of(index, deadline, side) + part(main)

    def _edges_of(self, index: int, deadline: int, side: bytes) -> bytes:
        key_group, mine = self._here
        number = index.to_bytes(2, "big")
        return name(
            Kind.PENDING_SIDE, self._stage, key_group, mine, number, part(side), time=deadline
        )

    def take_edges(self, index: int, deadline: int, side: bytes) -> list[bytes]:
        """Delete the edges from a side window; give the main windows they lead to."""
        return self._take(list(self._rows.scan(*under(self._edges_of(index, deadline, side)))))

    def take_passed(self, index: int, since: int, mark: int) -> list[bytes]:
        """Delete the edges whose deadlines are at or after `since`, before `mark`."""
        own = self._here[1] + index.to_bytes(2, "big")
        rows = self._rows.scan(self._edges + stamp(since), self._edges + stamp(mark))
        return self._take([row for row in rows if rest_of(row[0]).startswith(own)])

    def _take(self, edges: list[tuple[bytes, bytes]]) -> list[bytes]:
        for row, _ in edges:
            self._rows.delete(row)
        return [main for _, main in edges]

    # -- tiers 2 and 3

    def has_node(self, window: bytes) -> bool:
        """Whether a main window has a node in the store."""
        return self._rows.get(self._node_row(window)) is not None

    def read_node(self, encoded: bytes, window: Window | None = None) -> Node | None:
        """Read a main window's node."""
        row = self._rows.get(self._node_row(encoded))
        if row is None:
            return None
        node = Node(encoded, self._window_impl.decode(encoded) if window is None else window)
        node.count, node.least, node.pages, node.chunks = _NODE_ROW.unpack_from(row)
        node.lacks = int.from_bytes(row[_NODE_ROW.size :], "big")
        node.held = node.least
        return node

    def write_node(self, node: Node) -> None:
        """Write a node with its new edges and elements."""
        store = self._rows
        for edge in node.edges.values():
            store.put(edge, node.name)
        page = [
            self._write_chunk(node, key_group, chunk)
            for key_group, chunk in [
                *node.sealed, *((p, buffer.seal(node.name)) for p, buffer in node.buffers.items())
            ]
        ]
        if page:
            store.put(self._page_row(node.name, node.pages), b"".join(page))
            node.pages += 1
        if node.held != node.least:
            if node.held is not None:
                store.delete(self._hold_row(node.held, node.name))
            store.put(self._hold_row(node.least, node.name), b"")
            node.held = node.least
        lacks = node.lacks.to_bytes((node.lacks.bit_length() + 7) // 8, "big")
        facts = _NODE_ROW.pack(node.count, node.least, node.pages, node.chunks)
        store.put(self._node_row(node.name), facts + lacks)

    def _write_chunk(self, node: Node, key_group: int, chunk: bytes) -> bytes:
        tail = self._written_by + node.chunks.to_bytes(4, "big")
        # Spread, so that another number of shards shares the work.
        where = any_key_group(node.name + tail) if key_group == NOWHERE else key_group
        self._rows.put(self._chunk_row(where, node.name, tail), chunk)
        node.chunks += 1
        return _PAGE_ENTRY.pack(where, tail)

    def delete_node(self, node: Node) -> None:
        """Delete a node; its elements stay until `take_chunks`."""
        if node.held is not None:
            self._rows.delete(self._node_row(node.name))
            self._rows.delete(self._hold_row(node.held, node.name))

    def take_chunks(self, node: Node) -> Iterator[bytes]:
        """Give the chunks of a node one by one, as they were written, and delete them."""
        store = self._rows
        for number in range(node.pages):
            page = self._page_row(node.name, number)
            for key_group, tail in _PAGE_ENTRY.iter_unpack(self._must(page)):
                row = self._chunk_row(key_group, node.name, tail)
                chunk = self._must(row)
                store.delete(row)
                yield chunk
            store.delete(page)
        for _, chunk in node.sealed:
            yield chunk
        for buffer in node.buffers.values():
            yield buffer.seal(node.name)

    def _main_row(self, *rest: bytes) -> bytes:
        key_group, mine = self._here
        return name(Kind.PENDING_MAIN, self._stage, key_group, mine, *rest)

    def _node_row(self, window: bytes) -> bytes:
        return self._main_row(_NODE, part(window))

    def _hold_row(self, time: int, window: bytes) -> bytes:
        return self._main_row(_HOLD, stamp(time), part(window))

    def _page_row(self, window: bytes, number: int) -> bytes:
        return self._main_row(_PAGE, part(window), number.to_bytes(4, "big"))

    def _chunk_row(self, key_group: int, window: bytes, tail: bytes) -> bytes:
        return name(Kind.PENDING_ELEMENTS, self._stage, key_group, part(window), tail)

    @property
    def _rows(self) -> Store:
        if self._store is None:
            msg = f"stage {self._stage}: elements that wait are asked for outside of an epoch"
            raise StateError(msg)
        return self._store

    def _must(self, row: bytes) -> bytes:
        found = self._rows.get(row)
        if found is None:
            msg = f"stage {self._stage}: elements that wait are missing in the store"
            raise odd_rows(msg)
        return found
