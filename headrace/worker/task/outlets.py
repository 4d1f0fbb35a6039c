"""Makes the writers of a task: one per channel that a stage writes to.

Takes the task and where rows go, gives writers; counts what leaves the plan.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import pyarrow as pa

from headrace.plan.order import PortOrder
from headrace.plan.settings import ColumnsMode
from headrace.plan.supersteps import MERGE_SHARD, Channel, ChannelKind, Port
from headrace.worker.batched.batches import Meta
from headrace.worker.batched.ends import Writer
from headrace.worker.beam_types import Value
from headrace.worker.columns.values import ColumnValues
from headrace.worker.ends.column_writer import ColumnWriter
from headrace.worker.ends.file_writer import FileWriter
from headrace.worker.exchange.group_writer import GroupWriter
from headrace.worker.exchange.grouping_kind import Grouping, grouping_of, spans_suffice
from headrace.worker.exchange.keys import ShardOf
from headrace.worker.exchange.merging import Merging, Shares
from headrace.worker.exchange.ordered_groups import OrderedGroupWriter
from headrace.worker.exchange.ordered_writer import (
    OrderedLocalWriter,
    OrderedWriter,
    Where,
    by_key,
    in_turn,
    keyed_row_encoder,
    row_encoder,
    to_one,
)
from headrace.worker.exchange.plain_pairs import PlainPairs
from headrace.worker.exchange.plain_rows import PlainRowWriter
from headrace.worker.exchange.super_tuples import PayloadKind, Rank, SuperTuple
from headrace.worker.exchange.watched_keys import WatchedKeys
from headrace.worker.exchange.writers import Fanout, LocalWriter, RowWriter
from headrace.worker.protocol import SuperstepTask
from headrace.worker.task.descriptors import Descriptors
from headrace.worker.task.element_merger import as_grouped

Send = Callable[[SuperTuple], None]
#: Takes a batch into the stage that reads a local channel.
Push = Callable[[list[Value], Meta], None]
PushColumns = Callable[[ColumnValues, Meta], None]


class Outlets:
    """The writers of one task."""

    def __init__(
        self,
        task: SuperstepTask,
        shard: int,
        descriptors: Descriptors,
        take: Send,
        reader: Callable[[int], Push],
        column_reader: Callable[[int], PushColumns | None],
    ) -> None:
        """Describe a task.

        Args:
            task: what is written.
            shard: which part of it is here.
            descriptors: for the coders.
            take: takes a super tuple of a grouping on this very shard.
            reader: gives what takes the elements of a local channel.
            column_reader: gives what takes them as columns; None where that is of no use.
        """
        self._task = task
        self._shard = shard
        self._descriptors = descriptors
        self._take = take
        self._reader = reader
        self._column_reader = column_reader
        self._target: Send | None = None
        self._folders: Mapping[int, str] = {}
        self._counts: dict[int, int] = {}
        self._files: dict[int, list[str]] = {}
        self._merging: dict[int, Merging] = {}  # by channel
        self._watched: dict[int, WatchedKeys] = {}  # the same

    def begin(self, target: Send, folders: Mapping[int, str]) -> None:
        """Begin an epoch: rows go here; files of channels that leave the plan go to folders."""
        self._target = target
        self._folders = folders
        self._counts, self._files = {}, {}
        for merging in self._merging.values():
            merging.begin()
        for watched in self._watched.values():
            watched.begin()

    @property
    def counts(self) -> Mapping[int, int]:
        """Rows that left the plan, by output channel."""
        return self._counts

    @property
    def files(self) -> Mapping[int, list[str]]:
        """The files that hold them, by output channel; none where rows travel."""
        return self._files

    @property
    def shares(self) -> Mapping[int, Shares]:
        """What was merged before it travelled, and how much of it was of hot keys, by channel."""
        return {channel: merging.shares() for channel, merging in self._merging.items()}

    @property
    def watched(self) -> Mapping[int, Shares]:
        """About how much went to each exchange by key, and of which hot keys, if it is watched."""
        return {channel: keys.shares() for channel, keys in self._watched.items()}

    def send(self, row: SuperTuple) -> None:
        """Hand a row to whoever takes the task's output."""
        assert self._target is not None
        if row.kind == PayloadKind.COLUMNS:
            self._counts[row.channel] = self._counts.get(row.channel, 0) + row.elements
        self._target(row)

    def writer(self, ports: Sequence[Port]) -> Writer:
        """Make the writer of an output that goes to the channels of these ports."""
        writers = [self._channel(port.channel, port.order) for port in ports]
        writers = [self._seen(p.channel, w) for p, w in zip(ports, writers, strict=True)]
        return writers[0] if len(writers) == 1 else Fanout(writers)

    def _seen(self, index: int, writer: Writer) -> Writer:
        """Let somebody look at the keys that go to other shards, if the run is watched."""
        keyed = self._task.channels[index].kind in (ChannelKind.GROUP, ChannelKind.KEYED)
        if not (self._task.settings.watch_keys and keyed) or index in self._merging:
            return writer  # what is merged is counted there
        self._watched[index] = WatchedKeys(writer)
        return self._watched[index]

    def _channel(self, index: int, order: PortOrder | None) -> Writer:
        channel = self._task.channels[index]
        if channel.kind is ChannelKind.OUTPUT:
            return self._columns(index, order)
        if order is not None:
            return self._ordered(index, channel, order)
        if channel.groups:
            return self._groups(index)
        if channel.kind is ChannelKind.LOCAL:
            return LocalWriter(self._reader(index), self._column_reader(index))
        return self._rows(index)

    def _columns(self, index: int, order: PortOrder | None) -> Writer:
        label = self._task.channels[index].label
        schema = pa.ipc.read_schema(pa.py_buffer(dict(self._task.schemas)[index]))
        size = self._task.settings.super_tuple_bytes
        verified = self._task.settings.columns is ColumnsMode.VERIFY
        if index in self._task.direct:
            return FileWriter(
                index, label, schema, folder=partial(self._folder_of, index),
                wrote=partial(self._wrote, index), shard=self._shard, super_tuple_bytes=size,
                verified=verified,
            )
        return ColumnWriter(
            index, label, schema, self.send, shard=self._shard % self._task.shards,
            super_tuple_bytes=size, order=order, verified=verified,
        )

    def _folder_of(self, index: int) -> str:
        return self._folders[index]

    def _wrote(self, index: int, name: str, rows: int) -> None:
        self._counts[index] = self._counts.get(index, 0) + rows
        self._files.setdefault(index, []).append(name)

    def _groups(self, index: int) -> Writer:
        channel = self._task.channels[index]
        local = channel.kind is ChannelKind.LOCAL
        combining = None
        if self._task.settings.merge_hot_keys and not local and self._task.shards > 1:
            combining = self._descriptors.combining(self._task.superstep.stages, index)
        windowing = self._descriptors.windowing(index)
        writer = GroupWriter(
            index,
            self._descriptors.coder(index),
            grouping_of(windowing),
            self._take if local else self.send,
            shards=self._task.shards,
            super_tuple_bytes=self._task.settings.super_tuple_bytes,
            fixed_shard=self._shard if local else None,
            sliced=channel.slices is not None,
            spans=spans_suffice(windowing),
            combining=combining,
        )
        if writer.merging is not None:
            self._merging[index] = writer.merging
        return writer

    def _ordered(self, index: int, channel: Channel, order: PortOrder) -> Writer:
        """Make a writer that numbers what it writes."""
        local = channel.kind is ChannelKind.LOCAL
        if local and not channel.groups:
            return OrderedLocalWriter(self._reader(index), order)
        coder, shards = self._descriptors.coder(index), self._task.shards
        slots: list[tuple[int, ...]] = [(shard,) for shard in range(shards)]
        where: Where = to_one
        if local:
            slots = [(self._shard,)]
        elif channel.kind is ChannelKind.BROADCAST:
            slots = [tuple(range(shards))]
        elif channel.kind in (ChannelKind.GROUP, ChannelKind.KEYED):
            where = by_key(coder, shards)
        elif channel.kind is ChannelKind.SPREAD:
            where = in_turn(self._shard, shards)
        else:
            slots = [(MERGE_SHARD,)]
        side = channel.kind is ChannelKind.BROADCAST
        rows = OrderedWriter(
            index,
            keyed_row_encoder(coder) if channel.groups else row_encoder(coder),
            where,
            slots,
            self._take if local else self.send,
            order=order,
            kind=PayloadKind.KEYED_ROWS if channel.groups else PayloadKind.ROWS,
            rank=Rank.SIDE_INPUT if side else Rank.DATA,
            super_tuple_bytes=self._task.settings.super_tuple_bytes,
        )
        return self._ordered_groups(index, rows, order, local=local) if channel.groups else rows

    def _ordered_groups(
        self, index: int, rows: OrderedWriter, order: PortOrder, *, local: bool
    ) -> Writer:
        """Make the writer of a grouping's input; plain pairs in bulk if its tables take them."""
        pairs = self._plain_pairs(index)
        key_coder = self._descriptors.coder(index).wrapped_value_coder.key_coder()
        grouping = grouping_of(self._descriptors.windowing(index))
        by_table = grouping in (Grouping.GLOBAL, Grouping.INTERVALS)
        if not pairs or not by_table or self._task.channels[index].slices is not None:
            return rows
        shards = self._task.shards
        return OrderedGroupWriter(
            index,
            rows,
            pairs,
            None if local or shards == 1 else ShardOf(key_coder, shards),
            range(self._shard, self._shard + 1) if local else range(shards),
            self._take_grouped if local else self.send,
            by_window=grouping is Grouping.INTERVALS,
            order=order,
            super_tuple_bytes=self._task.settings.super_tuple_bytes,
        )

    def _take_grouped(self, row: SuperTuple) -> None:
        self._take(as_grouped(row))

    def _rows(self, index: int) -> Writer:
        kind, shards = self._task.channels[index].kind, self._task.shards
        coder = self._descriptors.coder(index)
        side, keyed = kind is ChannelKind.BROADCAST, kind is ChannelKind.KEYED
        size = self._task.settings.super_tuple_bytes
        rows = RowWriter(
            index,
            coder,
            self.send,
            shards=shards,
            first_shard=self._shard,
            super_tuple_bytes=size,
            rank=Rank.SIDE_INPUT if side else Rank.DATA,
            shard_of=ShardOf(coder.wrapped_value_coder.key_coder(), shards) if keyed else None,
            copy_to_all=side,
        )
        pairs = self._plain_pairs(index) if keyed else None
        if not pairs:
            return rows
        return PlainRowWriter(
            index, coder, rows, pairs, self.send, shards=shards, super_tuple_bytes=size
        )

    def _plain_pairs(self, index: int) -> PlainPairs:
        pair = self._descriptors.coder(index).wrapped_value_coder
        return PlainPairs(pair.key_coder(), pair.value_coder())
