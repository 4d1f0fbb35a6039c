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
from headrace.worker.batched.weights import SAMPLE_VALUES, weight
from headrace.worker.batched.window_keys import window_key
from headrace.worker.beam_types import Key, Value, WindowedCoder
from headrace.worker.exchange.keys import ShardOf
from headrace.worker.grouping.value_bytes import ValueBytes

#: Elements of one row. More: more is read and written again where a row is due in part. Fewer: more
#: rows for the same elements.
ROW_ELEMENTS = 512
#: A row ends here too, about, or after one element that is larger.
ROW_BYTES = 1 << 20

#: What of an element decides its place: when it is due, its time, its number of arrival.
Place = tuple[int, int, int]
#: Place, value, windows and pane of one element.
Entry = tuple[int, int, int, Value, Any, Any]
#: Place, then encoded windows and pane, then the value, encoded or plain; last its key group.
Raw = tuple[int, int, int, bytes, Any, int]


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

    def raw(self, entries: Sequence[Entry]) -> Iterator[Raw]:
        """Encode elements."""
        values = [entry[3] for entry in entries]
        # Elements are pairs: what is plain is a tuple in the row, what is encoded is bytes.
        coded = values if self._plain(values) else map(self._encode, values)
        known: dict[Any, bytes] = {}
        groups: dict[Key, int] = {}
        for (due, time, number, value, windows, pane), data in zip(entries, coded, strict=True):
            which = (*map(window_key, windows), id(pane))
            meta = known.get(which)
            if meta is None:
                sample = windowed_value.create(b"", time, windows, pane)
                meta = known[which] = self._metas.encode(sample)
            key = value[0]
            if type(key) in (int, str, bytes):
                group = groups.get(key)
                if group is None:
                    group = groups[key] = self._key_group(key)
            else:  # equal keys of other types may have other encodings
                group = self._key_group(key)
            yield due, time, number, meta, data, group

    @staticmethod
    def rows(raw: list[Raw]) -> Iterator[Row]:
        """Give the rows of elements that stand in their order."""
        sample = [entry[4] for entry in raw[:: max(1, len(raw) // SAMPLE_VALUES)]]
        each = weight(sample) // max(1, len(sample)) + 1
        size = max(1, min(ROW_ELEMENTS, ROW_BYTES // each))
        for begin in range(0, len(raw), size):
            part = raw[begin : begin + size]
            dues, times, numbers, metas, values, groups = map(list, zip(*part, strict=True))
            yield Row(dues[0], len(part), pack(groups, dues, times, numbers, metas, values))

    def read(self, data: bytes, bound: int, later: list[Raw]) -> list[Entry]:
        """Give the elements of a row that are due before `bound`; add the rest to `later`."""
        groups, *columns = unpack_whole(data)
        dues = columns[0]
        cut = bisect_left(dues, bound)
        if cut < len(dues):
            later += zip(*(column[cut:] for column in (*columns, groups)), strict=True)
            columns = [column[:cut] for column in columns]
        known: dict[bytes, Any] = {}
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
