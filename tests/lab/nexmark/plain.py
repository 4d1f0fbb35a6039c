"""A second NEXMark generator: plain Python, one event after the other, slow, and on its own.

Written from the description of the benchmark, not from `headrace`; the tests hold the fast one
against it. Takes settings as any object with the attributes of that name.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

FIRST = "Peter,Paul,Luke,John,Saul,Vicky,Kate,Julie,Sarah,Deiter,Walter".split(",")
LAST = "Shultz,Abrams,Spencer,White,Bartels,Walton,Smith,Jones,Noris".split(",")
CITIES = (
    "Phoenix,Los Angeles,San Francisco,Boise,Portland,Bend,Redmond,Seattle,Kent,Cheyenne"
).split(",")
STATES = "AZ,CA,ID,OR,WA,WY".split(",")


def cut(a: int, b: int) -> int:
    """Divide and drop the fraction, as Java does."""
    return a // b if a >= 0 else -(-a // b)


class Random:
    def __init__(self, seed: int) -> None:
        self.s = (seed ^ 0x5DEECE66D) % 2**48

    def next(self, b: int) -> int:
        self.s = (self.s * 0x5DEECE66D + 0xB) % 2**48
        r = self.s >> (48 - b)
        return r - 2**32 if r >= 2**31 else r

    def below(self, n: int) -> int:
        u = self.next(31)
        if n in (2**i for i in range(31)):
            return (n * u) >> 31
        while u - u % n + (n - 1) > 2**31 - 1:
            u = self.next(31)
        return u % n

    def double(self) -> float:
        high = self.next(26)
        return (high * 2**27 + self.next(27)) * 2.0**-53

    def below64(self, n: int) -> int:
        if n < 2**31 - 1:
            return self.below(n)
        v = (self.next(32) * 2**32 + self.next(32)) % 2**64
        v = v - 2**64 if v >= 2**63 else v
        return abs(v - cut(v, n) * n)

    def price(self) -> int:
        return math.floor(math.pow(10.0, self.double() * 6) * 100 + 0.5)

    def string(self, most: int) -> str:
        made = ""
        for _ in range(3 + self.below(most - 3)):
            made += " " if self.below(13) == 0 else chr(ord("a") + self.below(26))
        return made.strip(" ")

    def exact(self, n: int) -> str:
        made, v = "", 0
        for i in range(n):
            if i % 6 == 0:
                v = self.next(32)
            made += chr(97 + v - cut(v, 26) * 26)
            v = cut(v, 26)
        return made

    def extra(self, current: int, average: int) -> str:
        if current > average:
            return ""
        want = average - current
        d = math.floor(0.2 * want + 0.5)
        return self.exact(want - d + (0 if d == 0 else self.below(2 * d)))


class Event(NamedTuple):
    """One event as the generator gives it."""

    id: int
    ts: int
    watermark: int
    schedule: int  # milliseconds after the start
    kind: int
    fields: tuple[Any, ...]


def timeline(c: Any, e: int) -> int:
    """The time of event number e, in milliseconds."""
    u = 60_000_000 if c.rate_unit == "PER_MINUTE" else 1_000_000
    a, b = c.first_event_rate, c.next_event_rate
    n = 1 if a == b else 2 if c.rate_shape == "SQUARE" else 10
    rates = [a, b] if n == 2 else [
        math.floor((a + b) / 2 + (a - b) / 2 * math.cos(2 * math.pi * i / 10) + 0.5)
        for i in range(n)
    ]
    unit = 1_000
    fine = c.time_resolution == "ns" or (
        c.time_resolution == "auto" and any((u + r // 2) // r == 0 for r in rates)
    )
    if fine:
        u, unit = u * 1_000, 1_000_000
    ds = [(u + r // 2) // r * c.num_event_generators for r in rates]
    if n == 1:
        return int(c.base_time + e * ds[0] // unit)
    ticks = math.ceil(c.rate_period_sec / n) * 1_000 * unit
    counts = [ticks // d for d in ds]
    time, z = 0, e // sum(counts)  # in ticks
    e -= z * sum(counts)
    spans = [k * d if fine else k * d // 1_000 * 1_000 for k, d in zip(counts, ds, strict=True)]
    time += z * sum(spans)
    for k, d, span in zip(counts, ds, spans, strict=True):
        if e < k:
            time += e * d
            break
        e -= k
        time += span
    return int(c.base_time + time // unit)


def event(c: Any, first_id: int, k: int) -> Event:
    """The k-th event of a generator whose first id is given."""
    e, g = c.first_event_number + k, c.out_of_order_group_size
    adj = e // g * g + e * 953 % g
    id, ts = first_id + adj, timeline(c, adj)
    r, (q, o) = Random(id), divmod(id, 50)
    kind = 0 if o == 0 else 1 if o <= 3 else 2

    def some_person() -> int:
        active = min(q + 1, c.num_active_people)
        return q + 1 - active + r.below64(active + 10)  # type: ignore[no-any-return]

    if kind == 0:
        name = FIRST[r.below(11)] + " " + LAST[r.below(9)]
        email = r.string(7) + "@"
        email += r.string(5) + ".com"
        card = " ".join(f"{r.below(10_000):04}" for _ in range(4))
        city, state = CITIES[r.below(10)], STATES[r.below(6)]
        size = 8 + len(name) + len(email) + len(card) + len(city) + len(state)
        extra = r.extra(size, c.avg_person_byte_size)
        fields: tuple[Any, ...] = (1000 + q, name, email, card, city, state, ts, extra)
    elif kind == 1:
        seller = q // 100 * 100 if r.below(c.hot_sellers_ratio) > 0 else some_person()
        category, initial = 10 + r.below(5), r.price()
        horizon = timeline(c, adj + c.num_in_flight_auctions * 50 // 3) - ts
        expires = ts + 1 + r.below64(max(2 * horizon, 1))
        item, text = r.string(20), r.string(100)
        reserve = initial + r.price()
        extra = r.extra(48 + len(item) + len(text), c.avg_auction_byte_size)
        fields = (
            1000 + 3 * q + o - 1, item, text, initial, reserve, ts, expires, 1000 + seller,
            category, extra,
        )
    else:
        last = 3 * q + 2
        if r.below(c.hot_auction_ratio) > 0:
            auction = last // 100 * 100
        else:
            low = max(last - c.num_in_flight_auctions, 0)
            auction = low + r.below64(last - low + 11)
        bidder = q // 100 * 100 + 1 if r.below(c.hot_bidders_ratio) > 0 else some_person()
        price = r.price()
        fields = (1000 + auction, 1000 + bidder, price, ts, r.extra(32, c.avg_bid_byte_size))
    return Event(
        id, ts, timeline(c, e // g * g), timeline(c, e) - c.base_time, kind, fields
    )


def order(c: Any, total: int) -> list[tuple[int, int]]:
    """The (first id, k) of all events: generators that share them take turns."""
    if not c.split or c.num_event_generators == 1:
        return [(c.first_event_id, k) for k in range(total)]
    n = c.num_event_generators
    sizes = [total // n] * (n - 1) + [total - total // n * (n - 1)]
    starts = [c.first_event_id + sum(sizes[:i]) for i in range(n)]
    rounds = [[(starts[i], k) for i in range(n) if k < sizes[i]] for k in range(max(sizes))]
    return [each for one in rounds for each in one]


def size_in_bytes(record: tuple[Any, ...]) -> int:
    """Give the size by which Beam's monitors count a record; that of an event is one more."""
    fixed = {"Bid": 33, "Person": 22, "Auction": 59}[type(record).__name__]
    return fixed + sum(len(value) for value in record if isinstance(value, str))
