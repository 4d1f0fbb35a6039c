"""Elements that wait for their turn, as bytes: many of them in one row.

Takes columns of elements in their order, gives the bytes of rows, and reads them back up to a
moment; what of a row is later is handed over as it lies there. Knows neither store nor disk.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from apache_beam import coders
from apache_beam.utils import windowed_value

from headrace.state.layout import KEY_GROUPS
from headrace.state.mixed import pack, unpack_whole
from headrace.worker.batched.plain_values import FAITHFUL
from headrace.worker.batched.weights import SAMPLE_VALUES, weight
from headrace.worker.batched.window_keys import WindowKey, window_key
from headrace.worker.beam_types import Element, Key, Pane, Value, WindowedCoder, Windows
from headrace.worker.exchange.keys import ShardOf
from headrace.worker.grouping.value_bytes import ValueBytes

#: Elements of one row. More: more is read and written again where a row is due in part. Fewer: more
#: rows for the same elements.
ROW_ELEMENTS = 512
#: A row ends here too, about, or after one element that is larger.
ROW_BYTES = 1 << 20

#: The place of an element (when it is due, its time, its number of arrival), then its value,
#: windows and pane.
Entry = tuple[int, int, int, Value, Windows, Pane]
#: Columns: of the three numbers of a place, of encoded windows and panes, of values, encoded or
#: plain, and of key groups.
Raw = tuple[list[int], list[int], list[int], list[bytes], list[Value], list[int]]


def nothing() -> Raw:
    """Give columns of no element."""
    return [], [], [], [], [], []


def extend(raw: Raw, more: Sequence[list[Any]]) -> None:
    """Add to columns."""
    columns: tuple[list[Any], ...] = raw
    for column, added in zip(columns, more, strict=True):
        column.extend(added)


def in_order(raw: Raw) -> Raw:
    """Give the columns in the order of the places."""
    dues, times, numbers = raw[:3]
    order = sorted(range(len(dues)), key=lambda i: (dues[i], times[i], numbers[i]))
    made: Any = tuple([column[i] for i in order] for column in raw)
    return made  # type: ignore[no-any-return]


class Row(NamedTuple):
    """One row to be written."""

    first: int  # when its first element is due
    elements: int
    data: bytes


class Entries:
    """Turns the elements of one ParDo into rows and back."""

    def __init__(self, windowed_coder: WindowedCoder, *, keyed: bool) -> None:
        """Describe a ParDo.

        Args:
            windowed_coder: of the elements that it takes.
            keyed: rows may be dealt out to other shards, so they say where each element belongs.
        """
        pairs = windowed_coder.wrapped_value_coder
        self._plain = ValueBytes(pairs).are_plain
        impl = pairs.get_impl()
        self._encode, self._decode = impl.encode, impl.decode
        metas = coders.WindowedValueCoder(coders.BytesCoder(), windowed_coder.window_coder)
        self._metas = metas.get_impl()
        self._key_group = ShardOf(pairs.key_coder(), KEY_GROUPS).any if keyed else _no_key_group

    def encoded(
        self, dues: list[int], times: list[int], numbers: range, values: list[Value],
        windows: Sequence[Windows], panes: Sequence[Pane],
    ) -> Raw:
        """Encode elements; in whole columns, as far as that goes."""
        # Elements are pairs: what is plain is a tuple in the row, what is encoded is bytes.
        data = values if self._plain(values) else list(map(self._encode, values))
        groups = self._groups([value[0] for value in values])
        return dues, times, list(numbers), self._encoded_metas(times, windows, panes), data, groups

    def _groups(self, keys: list[Key]) -> list[int]:
        kinds = set(map(type, keys))
        if len(kinds) == 1 and kinds <= FAITHFUL:
            known = {key: self._key_group(key) for key in set(keys)}
            return [known[key] for key in keys]
        return list(map(self._key_group, keys))

    def _encoded_metas(
        self, times: list[int], windows: Sequence[Windows], panes: Sequence[Pane]
    ) -> list[bytes]:
        """Encode windows and panes, those that are alike once."""
        first = windows[0]
        if len(first) == 1 and {id(w[0]) for w in windows} == {id(first[0])}:
            if {*map(len, windows)} == {1} and {*map(id, panes)} == {id(panes[0])}:
                return [self._meta(times[0], first, panes[0])] * len(windows)
        known: dict[tuple[WindowKey, ...], bytes] = {}
        found = []
        for time, given, pane in zip(times, windows, panes, strict=True):
            which = (*map(window_key, given), id(pane))
            meta = known.get(which)
            if meta is None:
                meta = known[which] = self._meta(time, given, pane)
            found.append(meta)
        return found

    def _meta(self, time: int, windows: Windows, pane: Pane) -> bytes:
        return bytes(self._metas.encode(windowed_value.create(b"", time, windows, pane)))

    @staticmethod
    def rows(raw: Raw) -> Iterator[Row]:
        """Give the rows of elements that stand in their order."""
        dues, times, numbers, metas, values, groups = raw
        sample = values[:: max(1, len(values) // SAMPLE_VALUES)]
        each = weight(sample) // max(1, len(sample)) + 1
        size = max(1, min(ROW_ELEMENTS, ROW_BYTES // each))
        for begin in range(0, len(dues), size):
            part = slice(begin, begin + size)
            rest = [column[part] for column in (dues, times, numbers, metas, values)]
            yield Row(dues[begin], len(rest[0]), pack(groups[part], *rest))

    def read(self, data: bytes, bound: int, later: Raw) -> list[Entry]:
        """Give the elements of a row that are due before `bound`; add the rest to `later`."""
        groups, *columns = unpack_whole(data)
        dues = columns[0]
        cut = bisect_left(dues, bound)
        if cut < len(dues):
            extend(later, [column[cut:] for column in (*columns, groups)])
            columns = [column[:cut] for column in columns]
        known: dict[bytes, Element] = {}
        found: list[Entry] = []
        decode = self._decode
        for due, time, number, meta, value in zip(*columns, strict=True):
            like = known.get(meta)
            if like is None:
                like = known[meta] = self._metas.decode(meta)
            pair = decode(value) if type(value) is bytes else value
            found.append((due, time, number, pair, like.windows, like.pane_info))
        return found


def _no_key_group(key: Key) -> int:  # noqa: ARG001 (whichever)
    return 0
