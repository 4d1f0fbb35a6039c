"""Merges accumulators before they travel, and finds hot keys on the way.

Takes what a combine that cannot be lifted sends to its grouping: an accumulator for each element.
Those of one key and the same windows are held for a while and merged to one, so that the shard that
owns a hot key gets a few, and not half of everything. What a grouping must still know of the
elements is told beside the accumulator (`merged_rows`). Where keys hardly repeat, elements are let
through as they are. Knows nothing of rows and channels.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import NamedTuple

from apache_beam.coders.coder_impl import create_OutputStream
from apache_beam.utils import windowed_value

from headrace.worker.batched.batches import Columns, Meta
from headrace.worker.batched.chains import augment
from headrace.worker.batched.plain_values import FAITHFUL, scalar_types
from headrace.worker.batched.weights import WAITING_BYTES, weight
from headrace.worker.beam_types import Coder, CoderImpl, Key, OutStream, Value, Windows
from headrace.worker.exchange.heavy_keys import HeavyKeys
from headrace.worker.exchange.merged_rows import write_merged

#: Accumulators that are held before they are merged. With more a hot key's load hardly shrinks
#: further: it is one accumulator for so many elements already.
HELD_ELEMENTS = 65_536
#: If merging made fewer than this part of what was held go away, it was not worth its time; a key
#: that is hot on 4 shards does so alone.
LEAST_GAIN = 0.1
#: So many times the elements that were held are then let through before it is tried again.
REST = 8
#: A key is hot if it alone has this part of what each shard would have if all had the same.
HOT_PART = 0.5
#: Letters of a key in a report.
SHOWN_LETTERS = 80


class Combining(NamedTuple):
    """How accumulators of one step are merged."""

    merge: Callable[[list[Value]], Value]
    step: str  # who is to blame if that fails
    timed: bool  # whether the times of elements matter to the grouping


class Shares(NamedTuple):
    """How much of what one task has merged belongs to hot keys."""

    elements: int  # that were merged, of all keys
    hot: dict[str, int]  # by key, as Python writes it: at least so many of them


class Parcel(NamedTuple):
    """Merged elements for one shard, ready to travel."""

    shard: int
    elements: int
    payload: bytes


class _Table(NamedTuple):
    """What is held for one set of windows, by the names of keys."""

    accumulators: dict[Key, list[Value]]
    times: dict[Key, list[int]]


class Merging:
    """What one writer holds.

    Args:
        combining: how accumulators are merged.
        key_coder: of the keys.
        windowed_coder: writes accumulators with their windows.
        shards: among how many the keys are divided.
    """

    def __init__(
        self, combining: Combining, key_coder: Coder, windowed_coder: CoderImpl, shards: int
    ) -> None:
        self._merge, self._step, self._timed = combining
        self._plain_types = scalar_types(key_coder) & FAITHFUL
        key_impl = key_coder.get_impl()
        self._key_encode, self._key_decode = key_impl.encode, key_impl.decode
        self._encode = windowed_coder.encode_to_stream
        self._hot_share = HOT_PART / shards
        self._heavy = HeavyKeys(self._hot_share)
        self._tables: dict[Windows, _Table] = {}
        self._held = 0
        self._bytes = 0
        self._rest = 0  # elements that are yet to be let through

    def begin(self) -> None:
        """Begin an epoch."""
        self._heavy = HeavyKeys(self._hot_share)

    def takes(self, values: list[Value], meta: Meta) -> bool:
        """Hold a batch of accumulators; False if they are better written as they are."""
        if self._rest > 0:
            self._rest -= len(values)
            return False
        names = self._names(values)
        if type(meta) is Columns:
            last: Windows | None = None
            for i, name in enumerate(names):
                if meta.windows[i] is not last:
                    last = meta.windows[i]
                    table = self._table(last)
                table.accumulators[name].append(values[i][1])
                if self._timed:
                    table.times[name].append(meta.times[i])
        else:
            table = self._table(meta.windows)
            for name, (_, value) in zip(names, values, strict=True):
                table.accumulators[name].append(value)
            if self._timed:
                for name in names:
                    table.times[name].append(meta.timestamp_micros)
        self._held += len(values)
        self._bytes += weight([value for _, value in values])
        return True

    @property
    def is_full(self) -> bool:
        """Whether what is held should travel now."""
        return self._held >= HELD_ELEMENTS or self._bytes >= WAITING_BYTES

    def _names(self, values: list[Value]) -> list[Key]:
        """Give what stands for the keys in a dict: they themselves if faithful, or their bytes."""
        keys = [key for key, _ in values]
        if self._plain_types.issuperset(map(type, keys)):
            return keys
        encode, plain = self._key_encode, self._plain_types
        return [key if type(key) in plain else _Encoded((encode(key),)) for key in keys]

    def _table(self, windows: Windows) -> _Table:
        windows = tuple(windows)
        found = self._tables.get(windows)
        if found is None:
            found = self._tables[windows] = _Table(defaultdict(list), defaultdict(list))
        return found

    def parcels(self, shard_of: Callable[[Key], int]) -> Iterator[Parcel]:
        """Merge what is held, and give it to travel, to the shards that own the keys."""
        tables, self._tables = self._tables, {}
        held, self._held, self._bytes = self._held, 0, 0
        counts: dict[int, int] = {}
        streams: dict[int, OutStream] = {}
        seen: dict[Key, int] = {}
        for windows, table in tables.items():
            end = windows[0].max_timestamp().micros
            for name, found in table.accumulators.items():
                encoded = type(name) is _Encoded
                shard = shard_of(self._key_decode(name[0]) if encoded else name)
                stream = streams.get(shard)
                if stream is None:
                    stream = streams[shard] = create_OutputStream()
                times = table.times[name] if self._timed else ()
                millis = sorted({_millis(time) for time in times})
                first = millis[0] * 1_000 if millis else end
                element = windowed_value.create(self._merged(found), first, windows)
                write_merged(
                    stream, self._encode, name[0] if encoded else self._key_encode(name), element,
                    len(found), millis,
                )
                counts[shard] = counts.get(shard, 0) + 1
                seen[name] = seen.get(name, 0) + len(found)
        self._heavy.see(seen)
        if held - sum(counts.values()) < held * LEAST_GAIN:
            self._rest = held * REST
        for shard, stream in streams.items():
            yield Parcel(shard, counts[shard], stream.get())

    def _merged(self, accumulators: list[Value]) -> Value:
        if len(accumulators) == 1:
            return accumulators[0]
        try:
            return self._merge(accumulators)
        except Exception as error:  # noqa: BLE001 (raised again with the step's name)
            augment(error, self._step)

    def shares(self) -> Shares:
        """Give the keys that are hot in what was merged in this epoch."""
        hot = {
            shown_key(self._key_decode(name[0]) if type(name) is _Encoded else name): count
            for name, count in self._heavy.found.items()
        }
        return Shares(self._heavy.total, hot)


class _Encoded(tuple[bytes]):
    """The bytes of a key whose Python equality is not the equality of its encoding."""

    __slots__ = ()


def _millis(micros: int) -> int:
    """Cut a time to milliseconds, towards zero, as Beam's coder does on every way."""
    return micros // 1_000 if micros >= 0 else -(-micros // 1_000)


def shown_key(key: Key) -> str:
    """Give a key as Python writes it, cut if it is long."""
    try:
        text = repr(key)
    except Exception:  # noqa: BLE001 (a report must not fail for the user's code)
        text = f"a {type(key).__name__}"
    return text if len(text) <= SHOWN_LETTERS else text[:SHOWN_LETTERS] + "..."
