"""Makes the events of the Yahoo benchmark, as columns and as the JSON texts that pipelines read.

Users, pages and addresses come from small pools, as in Yahoo's own generator: an event is five
pieces of text that exist already, joined column-wise.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.lab.data.generator import COMMON_FIELDS
from headrace.lab.data.randoms import I64, below
from headrace.lab.data.timeline import Timeline
from headrace.lab.workloads.yahoo.model import AD_TYPES, EVENT_TYPES, FIELDS, read_event
from headrace.lab.workloads.yahoo.settings import AD, Settings, identifier

USERS = 100
PAGES = 100
ADDRESSES = 1_000
MS = 1_000_000  # nanoseconds
_VISITOR, _AD, _KNOWN, _KIND, _ADDRESS = range(5)  # streams of random numbers

_SCHEMA = pa.schema(
    [
        *COMMON_FIELDS,
        *(
            pa.field(name, pa.int64() if name == "event_time" else pa.string(), nullable=False)
            for name in FIELDS
        ),
        pa.field("line", pa.string(), nullable=False),  # the event as it arrives
    ]
)


class _Pools(NamedTuple):
    """The texts that events are made of: fields, and pieces of a line with what stands between."""

    users: pa.Array
    pages: pa.Array
    ads: pa.Array
    ad_types: pa.Array
    event_types: pa.Array
    addresses: pa.Array
    visitor_pieces: pa.Array  # by user * PAGES + page
    kind_pieces: pa.Array  # by ad type * len(EVENT_TYPES) + event type
    address_pieces: pa.Array


class _Draws(NamedTuple):
    """What was drawn for a range of events: places in the pools."""

    visitors: I64
    ads: I64
    kinds: I64
    addresses: I64


@lru_cache(maxsize=4)
def _pools(seed: int, known_ads: int) -> _Pools:
    users = [identifier("b", number, seed) for number in range(USERS)]
    pages = [identifier("d", number, seed) for number in range(PAGES)]
    addresses = [f"10.{n // 250}.{n % 250}.{(n * 7 + seed) % 250 + 1}" for n in range(ADDRESSES)]
    return _Pools(
        users=pa.array(users),
        pages=pa.array(pages),
        ads=pa.array([identifier(AD, number, seed) for number in range(2 * known_ads)]),
        ad_types=pa.array(AD_TYPES),
        event_types=pa.array(EVENT_TYPES),
        addresses=pa.array(addresses),
        visitor_pieces=pa.array(
            f'{{"user_id": "{user}", "page_id": "{page}", "ad_id": "'
            for user in users
            for page in pages
        ),
        kind_pieces=pa.array(
            f'", "ad_type": "{ad}", "event_type": "{event}", "event_time": '
            for ad in AD_TYPES
            for event in EVENT_TYPES
        ),
        address_pieces=pa.array(f', "ip_address": "{address}"}}' for address in addresses),
    )


@dataclass(frozen=True, slots=True)
class YahooGenerator:
    """The events of one run."""

    settings: Settings

    @property
    def events(self) -> int:
        """How many there are in all."""
        return self.settings.events

    @property
    def schema(self) -> pa.Schema:
        """The common columns, the fields of the event, and its text."""
        return _SCHEMA

    def batch(self, start: int, count: int) -> pa.RecordBatch:
        """Make some events, a row each."""
        numbers, nanos, ms = self._times(start, count)
        pools, draws = self._pools(), self._draw(numbers)
        types, events = np.divmod(draws.kinds, len(EVENT_TYPES))
        users, pages = np.divmod(draws.visitors, PAGES)
        ads = pools.ads.take(pa.array(draws.ads))
        columns = [
            pa.array(numbers),
            pa.array(ms * 1_000).view(pa.timestamp("us", tz="UTC")),
            pa.array(nanos),
            pools.users.take(pa.array(users)),
            pools.pages.take(pa.array(pages)),
            ads,
            pools.ad_types.take(pa.array(types)),
            pools.event_types.take(pa.array(events)),
            pa.array(ms),
            pools.addresses.take(pa.array(draws.addresses)),
            _lines(pools, draws, ads, ms),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)

    def elements(self, start: int, count: int) -> tuple[list[Any], list[int]]:
        """Make the texts of some events, and their times in microseconds."""
        numbers, _, ms = self._times(start, count)
        pools, draws = self._pools(), self._draw(numbers)
        ads = pools.ads.take(pa.array(draws.ads))
        return _lines(pools, draws, ads, ms).to_pylist(), (ms * 1_000).tolist()

    def watermark(self, number: int) -> int:
        """Give a time in microseconds that neither this event nor a later one precedes."""
        return self._timeline().watermark(number, self.events, grain=1_000)

    def due(self, number: int) -> int:
        """Microseconds between the start of a paced run and this event's arrival."""
        return self._timeline().due(number)

    def to_line(self, element: str) -> str:
        """Give the text of the event, which the element is."""
        return element

    def from_line(self, line: str) -> tuple[str, int]:
        """Take the text of an event, and its time in microseconds.

        Raises:
            ValueError: it is no JSON object, or lacks a field; says which.
        """
        text = line.strip()
        event = read_event(text)
        missing = [name for name in FIELDS if name not in event]
        if missing:
            msg = f"an event without {', '.join(missing)}: {text[:100]!r}"
            raise ValueError(msg)
        time = event["event_time"]
        if type(time) is not int:
            msg = f"event_time is {time!r}, not a whole number of milliseconds"
            raise ValueError(msg)
        return text, time * 1_000

    def _timeline(self) -> Timeline:
        settings = self.settings
        return Timeline(base_ms=settings.base_ms, rate=settings.rate, group=settings.out_of_order)

    def _pools(self) -> _Pools:
        return _pools(self.settings.seed, self.settings.known_ads)

    def _times(self, start: int, count: int) -> tuple[I64, I64, I64]:
        """Give numbers, nanoseconds, and the milliseconds that an event can say."""
        numbers = np.arange(start, start + count, dtype=np.int64)
        nanos = self._timeline().nanos(numbers)
        return numbers, nanos, nanos // MS

    def _draw(self, numbers: I64) -> _Draws:
        settings, seed = self.settings, self.settings.seed
        ads = below(seed, _AD, numbers, settings.known_ads)
        if settings.unknown_ads:
            unknown = below(seed, _KNOWN, numbers, 1_000) < settings.unknown_ads
            ads = ads + unknown * np.int64(settings.known_ads)
        return _Draws(
            visitors=below(seed, _VISITOR, numbers, USERS * PAGES),
            ads=ads,
            kinds=below(seed, _KIND, numbers, len(AD_TYPES) * len(EVENT_TYPES)),
            addresses=below(seed, _ADDRESS, numbers, ADDRESSES),
        )


def _lines(pools: _Pools, draws: _Draws, ads: pa.Array, ms: I64) -> pa.Array:
    return pc.binary_join_element_wise(
        pools.visitor_pieces.take(pa.array(draws.visitors)),
        ads,
        pools.kind_pieces.take(pa.array(draws.kinds)),
        pa.array(ms).cast(pa.string()),
        pools.address_pieces.take(pa.array(draws.addresses)),
        "",
    )
