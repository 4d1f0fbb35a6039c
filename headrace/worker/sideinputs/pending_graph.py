"""Knows which elements of a ParDo wait for which windows of its side inputs, and wakes them.

The pending states graph. Three tiers: side windows that are waited for, main windows that wait, and
their elements. Takes batches, gives those parts of them that may be processed now. Cost: an element
is encoded and decoded once for each window in which it waits, all else is per window and epoch;
elements are not read before their window is free. How the tiers lie in the store: see
`pending_rows`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from apache_beam.transforms import sideinputs
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils import windowed_value

from headrace.state.store import Store
from headrace.worker.batched.batches import BATCH_VALUES, Columns, Meta, columns, pick
from headrace.worker.batched.window_keys import WindowKey, window_key
from headrace.worker.beam_types import Coder, Key, Value, Window, WindowedCoder, Windows
from headrace.worker.sideinputs.pending_rows import (
    END,
    NEVER,
    NOWHERE,
    Buffer,
    Node,
    PendingRows,
    read_chunk,
)
from headrace.worker.sideinputs.views import StoredSide


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One side input of a ParDo."""

    index: int  # its place among the side inputs of the stage
    mapping: Callable[[Window], Window]  # main window -> side window
    channel: StoredSide
    window_coder: Coder  # of the side windows


#: What is known of an element's windows: the ready ones, and the nodes of the others.
_Split = tuple[tuple[Window, ...], tuple[Node, ...]]


class PendingGraph:
    """The pending states graph of one stage."""

    def __init__(
        self,
        stage: int,
        sides: Sequence[Side],
        windowed_coder: WindowedCoder,
        key_group: Callable[[Key], int] | None,
    ) -> None:
        """Describe a stage.

        Args:
            stage: its number in the plan.
            sides: its side inputs, by index.
            windowed_coder: of its main input.
            key_group: gives the key group of a key; None if the main input has no keys that matter.
        """
        self._sides = tuple(sides)
        self._side_impls = [side.window_coder.get_impl() for side in sides]
        self._is_global = [
            side.mapping is sideinputs._global_window_mapping_fn  # noqa: SLF001 (has no other name)
            for side in sides
        ]
        value_impl = windowed_coder.wrapped_value_coder.get_impl()
        self._encode, self._decode = value_impl.encode_to_stream, value_impl.decode_from_stream
        self._window_impl = windowed_coder.window_coder.get_impl()
        self._key_group = key_group
        self._rows = PendingRows(stage, len(self._sides), self._window_impl)
        self._forget_epoch()

    def _forget_epoch(self) -> None:
        self._nodes: dict[bytes, Node] = {}
        self._free: list[Node] = []  # that a new shard found to lack nothing
        self._splits: dict[WindowKey, _Split | None] = {}
        self._nothing_missing: bool | None = None
        self._prepared = False
        self._count = 0
        self._scanned = [NEVER] * len(self._sides)

    def attach(self, store: Store) -> None:
        """Begin an epoch. Nothing is read yet: the side inputs may be attached later."""
        self._forget_epoch()
        self._rows.attach(store)

    # -- algorithm 1

    def admit(self, values: list[Value], meta: Meta) -> tuple[list[Value], Meta] | None:
        """Give what of a batch may be processed now; keep the rest."""
        if self._nothing_missing is None:
            self._nothing_missing = all(map(self._always_ready, self._sides))
        if self._nothing_missing:
            return values, meta
        if type(meta) is not Columns:
            return self._admit_alike(values, meta)
        splits = self._split_all(meta.windows)
        if splits is None:
            return values, meta
        return self._admit_some(values, meta, splits)

    def _always_ready(self, side: Side) -> bool:
        return side.channel.watermark >= END or (
            self._is_global[side.index] and side.channel.ready(GlobalWindow())
        )

    def _admit_alike(self, values: list[Value], meta: Meta) -> tuple[list[Value], Meta] | None:
        split = self._split(meta.windows)
        if split is None:
            return values, meta
        ready, nodes = split
        each = columns(values, meta)
        for node in nodes:
            self._keep(node, values, each, range(len(values)))
        if not ready:
            return None
        return values, windowed_value.create(None, meta.timestamp_micros, ready, meta.pane_info)

    def _admit_some(
        self, values: list[Value], meta: Columns, splits: list[_Split | None]
    ) -> tuple[list[Value], Meta] | None:
        kept: dict[Node, list[int]] = {}
        passing: list[int] = []
        windows: list[Value] = []
        for i, split in enumerate(splits):
            if split is None:
                passing.append(i)
                windows.append(meta.windows[i])
                continue
            ready, nodes = split
            if ready:
                passing.append(i)
                windows.append(ready)
            for node in nodes:
                found = kept.get(node)
                if found is None:
                    kept[node] = [i]
                else:
                    found.append(i)
        for node, positions in kept.items():
            self._keep(node, values, meta, positions)
        if not passing:
            return None
        passed = pick(meta, passing)
        return [values[i] for i in passing], passed._replace(windows=windows)

    def _split_all(self, windows: Sequence[Windows]) -> list[_Split | None] | None:
        """Split the windows of each element; None if all are ready.

        Equal objects are asked once a batch, equal windows once an epoch.
        """
        tokens = list(map(id, windows))  # good while the batch is alive
        found = {
            token: self._split(each)
            for token, each in dict(zip(tokens, windows, strict=True)).items()
        }
        return list(map(found.__getitem__, tokens)) if any(found.values()) else None

    def _split(self, windows: Windows) -> _Split | None:
        """Part an element's windows into ready ones and those that wait; None: all are ready."""
        key = window_key(windows[0]) if len(windows) == 1 else tuple(map(window_key, windows))
        if key in self._splits:
            return self._splits[key]
        nodes = [self._waiting(window) for window in windows]
        waiting = tuple(node for node in nodes if node is not None)
        ready = tuple(w for w, node in zip(windows, nodes, strict=True) if node is None)
        split = self._splits[key] = (ready, waiting) if waiting else None
        return split

    def _waiting(self, window: Window) -> Node | None:
        """Give the node of a main window, None if all its side windows are ready."""
        needs = self._missing(window)
        if not needs:
            return None
        encoded = self._window_impl.encode(window)
        node = self._node(encoded, window) or Node(encoded, window)
        self._nodes[encoded] = node
        self._link(node, needs)
        return node

    def _missing(self, window: Window) -> dict[int, Window]:
        """Give the side windows that a main window still needs, by side input."""
        needs = {}
        for side in self._sides:
            needed = side.mapping(window)
            if not side.channel.ready(needed):
                needs[side.index] = needed
        return needs

    def _link(self, node: Node, needs: dict[int, Window]) -> None:
        """Give a node an edge from each side window that it needs, where it has none yet."""
        node.needs = needs
        for index, needed in needs.items():
            if not node.lacks >> index & 1:
                node.lacks |= 1 << index
                node.edges[index] = self._edge(index, needed, node)

    def _edge(self, index: int, needed: Window, node: Node) -> bytes:
        encoded = self._side_impls[index].encode(needed)
        deadline = self._sides[index].channel.deadline(needed)
        return self._rows.edge(index, deadline, encoded, node.name)

    def _keep(
        self, node: Node, values: list[Value], meta: Columns, positions: Sequence[int]
    ) -> None:
        """Push elements back: into one buffer, or into one for each key group."""
        if self._key_group is None:
            self._fill(node, NOWHERE, values, meta, positions)
        else:
            groups: dict[int, list[int]] = {}
            for i in positions:
                groups.setdefault(self._key_group(values[i][0]), []).append(i)
            for group, chosen in groups.items():
                self._fill(node, group, values, meta, chosen)
        node.count += len(positions)
        self._count += len(positions)

    def _fill(
        self, node: Node, group: int, values: list[Value], meta: Columns, chosen: Sequence[int]
    ) -> None:
        buffer = node.buffers.get(group)
        if buffer is None:
            buffer = node.buffers[group] = Buffer()
        times, panes = meta.times, meta.panes
        moments = [times[i] for i in chosen]
        buffer.take([values[i] for i in chosen], moments, [panes[i] for i in chosen], self._encode)
        node.least = min(node.least, *moments)
        if buffer.full:
            node.sealed.append((group, node.buffers.pop(group).seal(node.name)))

    # -- algorithm 2

    def release(
        self, opened: Iterable[tuple[int, bytes]], watermarks: Sequence[int]
    ) -> Iterator[tuple[list[Value], Meta]]:
        """Give the elements that need not wait any longer; to be read to its end, before `flush`.

        Args:
            opened: side inputs and their (encoded) windows that got elements in this epoch.
            watermarks: of each side input.
        """
        self._prepare()
        self._splits.clear()
        self._nothing_missing = None
        free, self._free = self._free, []
        if self._count:
            for index, window in opened:
                self._opened(index, window, free)
            for index, mark in enumerate(watermarks):
                if mark > self._scanned[index]:
                    # Nothing that ends earlier waits: it was ready, or was found the last time.
                    for main in self._rows.take_passed(index, self._scanned[index], mark):
                        self._has(index, self._node(main), free)
            for node in list(self._nodes.values()):  # edges that no row tells of yet
                self._look_again(node, free)
        self._scanned = [max(*pair) for pair in zip(self._scanned, watermarks, strict=True)]
        for node in free:
            self._nodes.pop(node.name, None)
            self._count -= node.count
            self._rows.delete_node(node)
        return self._emit(free)

    def _opened(self, index: int, encoded: bytes, free: list[Node]) -> None:
        window = self._side_impls[index].decode(encoded)
        if self._sides[index].channel.ready(window):
            deadline = self._sides[index].channel.deadline(window)
            for main in self._rows.take_edges(index, deadline, encoded):
                self._has(index, self._node(main), free)

    def _look_again(self, node: Node, free: list[Node]) -> None:
        for index in list(node.edges):
            if self._sides[index].channel.ready(node.needs[index]):
                self._has(index, node, free)

    def _has(self, index: int, node: Node | None, free: list[Node]) -> None:
        """Take note that a main window lacks one side input less."""
        if node is None or not node.lacks >> index & 1:
            return
        node.lacks &= ~(1 << index)
        node.edges.pop(index, None)
        self._nodes[node.name] = node
        if not node.lacks:
            free.append(node)

    def _emit(self, nodes: list[Node]) -> Iterator[tuple[list[Value], Meta]]:
        values: list[Value] = []
        times: list[int] = []
        windows: list[Value] = []
        panes: list[Value] = []
        for node in nodes:
            only = (node.window,)
            for data in self._rows.take_chunks(node):
                chunk = read_chunk(data, self._decode)
                values += chunk.values
                times += chunk.times
                panes += chunk.panes
                windows += [only] * len(chunk.values)
                while len(values) >= BATCH_VALUES:
                    yield _cut(values, times, windows, panes)
        if values:
            yield _cut(values, times, windows, panes)

    # -- what others ask

    def waits(self, window: bytes) -> bool:
        """Whether a main window (encoded) has elements that wait."""
        self._prepare()
        return window in self._nodes or (self._count > 0 and self._rows.has_node(window))

    def hold(self) -> int:
        """Give the earliest time of the elements that wait; the end of time if none waits."""
        self._prepare()
        if not self._count:
            return END
        # The index in the store may lag behind these nodes, but never names a time too early.
        least = min((node.least for node in self._nodes.values()), default=END)
        return min(least, self._rows.earliest())

    def count(self) -> int:
        """Give how many elements wait; one that waits in two windows counts twice."""
        self._prepare()
        return self._count

    # -- from and to the store

    def flush(self) -> None:
        """Write everything to the store."""
        self._prepare()
        for node in self._nodes.values():
            self._rows.write_node(node)
        # Without the summary the next epoch looks for chunks again, and finds the free ones.
        if not self._free:
            self._rows.write_summary(self._count, self._scanned)
        self._forget_epoch()

    def _prepare(self) -> None:
        """Read how much waits. A shard that has no summary looks for chunks it got from others."""
        if self._prepared:
            return
        self._prepared = True
        summary = self._rows.read_summary()
        if summary is not None:
            self._count, self._scanned = summary
            return
        for node in self._rows.reset():
            self._count += node.count
            self._link(node, self._missing(node.window))
            self._rows.write_node(node)
            node.edges.clear()
            if not node.lacks:
                self._nodes[node.name] = node
                self._free.append(node)

    def _node(self, encoded: bytes, window: Window | None = None) -> Node | None:
        """Find a main window's node in memory or in the store."""
        self._prepare()
        node = self._nodes.get(encoded)
        if node is not None or not self._count:
            return node
        return self._rows.read_node(encoded, window)


def _cut(
    values: list[Value], times: list[int], windows: list[Value], panes: list[Value]
) -> tuple[list[Value], Meta]:
    """Take the first values out of growing columns, as a batch."""
    batch = values[:BATCH_VALUES]
    meta = Columns(times[:BATCH_VALUES], windows[:BATCH_VALUES], panes[:BATCH_VALUES])
    for column in (values, times, windows, panes):
        del column[:BATCH_VALUES]
    return batch, meta
