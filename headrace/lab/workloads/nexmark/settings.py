"""The settings of NEXMark: Beam's own, in snake case, and what each may be.

Decides which combinations make no sense. Knows nothing of how events are made.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from headrace.errors import OptionError
from headrace.lab.parameters import Choice, Flag, Real, Whole, check, setting
from headrace.lab.workloads.nexmark.times import Schedule, delays, step_seconds

#: 2015-07-15T00:00:00Z, where Beam's events begin.
BASE_TIME_MS = 1_436_918_400_000
_RATES = Whole(1, 1_000_000_000)
_SIZES = Whole(0, 1_000_000)
_RATIOS = Whole(1, 1_000_000)
_SECONDS = Whole(1, 1_000_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class NexmarkSettings:
    """What may be set. Defaults are Beam's, but for `num_event_generators`: Beam has 100 there.

    With 1, one generator's events are those that a pipeline really sees, as in Beam's own tests.
    """

    num_events: int = setting(
        100_000, Whole(0, 2**52), "Events in all; 0: as many as there can be, before the year 2262."
    )
    num_event_generators: int = setting(
        1, Whole(1, 1_000_000),
        "Generators that share the rate; each is so many times slower. See split.",
    )
    split: bool = setting(
        False, Flag(),
        "Whether the events are shared out among the generators, which then run side by side on "
        "the same span of time, or all come from one of them.",
    )
    rate_shape: str = setting(
        "SINE", Choice(("SQUARE", "SINE")), "How the rate goes from first_event_rate to "
        "next_event_rate and back: at once, or in ten steps of a cosine.",
    )
    first_event_rate: int = setting(10_000, _RATES, "Events per unit of event time, at first.")
    next_event_rate: int = setting(
        10_000, _RATES, "Events per unit of event time, half a period later."
    )
    rate_unit: str = setting(
        "PER_SECOND", Choice(("PER_SECOND", "PER_MINUTE")), "The unit of both rates."
    )
    rate_period_sec: int = setting(
        600, _SECONDS, "Seconds from one first_event_rate to the next, if the rates differ."
    )
    time_resolution: str = setting(
        "auto", Choice(("auto", "us", "ns")), "Whether the time between two events is cut to "
        "microseconds, as Beam does, or to nanoseconds; auto: to nanoseconds where microseconds "
        "would be 0, beyond 2,000,000 events per second.",
    )
    base_time: int = setting(
        BASE_TIME_MS, Whole(0, 9_000_000_000_000),
        "Where event time begins, milliseconds since 1970.",
    )
    use_wallclock_event_time: bool = setting(
        False, Flag(), "Whether event time begins now, unless a base_time is given."
    )
    first_event_id: int = setting(
        0, Whole(0, 2**52), "Added to every event's number to make its id, the seed of its values."
    )
    first_event_number: int = setting(
        0, Whole(0, 2**52), "Where on the generator's line of time the events begin."
    )
    out_of_order_group_size: int = setting(
        1, Whole(1, 2**31 - 1), "Events that come in each other's place; 1: all in order."
    )
    is_rate_limited: bool = setting(
        False, Flag(), "Whether a source hands an event out when its time has come, not before."
    )
    watermark_holdback_sec: int = setting(
        0, Whole(0, 1_000_000), "Seconds that the watermark stays behind."
    )
    occasional_delay_sec: int = setting(
        3, Whole(0, 1_000_000), "Seconds by which an event may be late; query 11 waits half of it."
    )
    avg_person_byte_size: int = setting(200, _SIZES, "Mean size of a person, made by padding.")
    avg_auction_byte_size: int = setting(500, _SIZES, "Mean size of an auction, made by padding.")
    avg_bid_byte_size: int = setting(100, _SIZES, "Mean size of a bid, made by padding.")
    hot_auction_ratio: int = setting(
        2, _RATIOS, "All bids but one in so many go to the hot auctions; 1: none does."
    )
    hot_sellers_ratio: int = setting(
        4, _RATIOS, "All auctions but one in so many have a hot seller; 1: none has."
    )
    hot_bidders_ratio: int = setting(
        4, _RATIOS, "All bids but one in so many have a hot bidder; 1: none has."
    )
    num_in_flight_auctions: int = setting(
        100, Whole(0, 1_000_000), "Auctions that are open at a time, on average."
    )
    num_active_people: int = setting(
        1_000, Whole(1, 2**31), "The newest people, who alone sell and bid."
    )
    window_size_sec: int = setting(
        10, _SECONDS, "Windows of queries 4, 5, 7, 8, 10; gap of query 11; delay of query 12."
    )
    window_period_sec: int = setting(5, _SECONDS, "Slide of the windows of queries 4 and 5.")
    auction_skip: int = setting(123, Whole(1), "Query 2 keeps auctions whose id it divides.")
    fanout: int = setting(
        5, Whole(1, 10_000), "Keys over which queries 4, 5, 7 may spread; no effect on answers."
    )
    max_auctions_waiting_time: int = setting(
        600, _SECONDS, "Seconds that query 3 remembers a person."
    )
    max_log_events: int = setting(100_000, Whole(1), "Events of a pane of queries 10 and 11.")
    side_input_row_count: int = setting(
        500, Whole(0, 10_000_000), "Rows of the table that queries 13 and 14 join with."
    )
    session_gap_sec: int = setting(600, _SECONDS, "Gap between the sessions of query 14.")
    num_key_buckets: int = setting(20_000, Whole(1), "Keys of queries 15 and 16.")
    pardo_cpu_factor: float = setting(
        1.0, Real(0.0, 1.0), "Share of the events for which query 15 works hard."
    )

    def __post_init__(self) -> None:
        check(self)
        if self.use_wallclock_event_time and self.base_time == BASE_TIME_MS:
            # Written down, so that copies and other processes begin at the same moment.
            object.__setattr__(self, "base_time", time.time_ns() // 1_000_000)
        self._check_rates()
        self._check_end()

    @property
    def nanoseconds(self) -> bool:
        """Whether the time between two events is cut to nanoseconds instead of microseconds."""
        if self.time_resolution == "auto":
            return 0 in delays(self, per_second=1_000_000)
        return self.time_resolution == "ns"

    @property
    def max_events(self) -> int:
        """What Beam takes `num_events` for: 0 stands for a great number."""
        if self.num_events:
            return self.num_events
        size = max(self.avg_person_byte_size, self.avg_auction_byte_size, self.avg_bid_byte_size)
        return (2**63 - 1) // (50 * max(size, 1))

    @property
    def events(self) -> int:
        """How many events there are."""
        if self.num_events:
            return self.num_events
        shared = self.num_event_generators if self.split else 1
        return min(self.max_events, self._room() * shared, 2**52)

    @property
    def ahead(self) -> int:
        """Events in which as many auctions begin as are open at a time."""
        return self.num_in_flight_auctions * 50 // 3

    def _check_rates(self) -> None:
        per_second = 1_000_000_000 if self.nanoseconds else 1_000_000
        found = delays(self, per_second=per_second)
        if len(found) == 1:
            return
        if 0 in found:
            msg = (
                "with time_resolution=us and two rates, both must be 2,000,000 events per second "
                "at most: the time between two events would be 0"
            )
            raise OptionError(msg)
        if max(step_seconds(self, len(found)) * per_second // delay for delay in found) == 0:
            msg = (
                f"rate_period_sec={self.rate_period_sec} is too short: no generator makes an event "
                "in it; use a longer one, a higher rate or fewer generators"
            )
            raise OptionError(msg)

    def _room(self) -> int:
        """Give the number of events that one generator can make before the year 2262."""
        used = self.first_event_number + self.out_of_order_group_size
        return max(Schedule.of(self).last_number() - used, 0)

    def _check_end(self) -> None:
        count = self.events
        if self.split:  # the last generator makes the rest too
            count = count // self.num_event_generators + count % self.num_event_generators
        if not 0 < count <= self._room():
            msg = (
                f"num_events={self.num_events} at this rate would go on until after the year 2262: "
                f"at most {self._room():,} of one generator fit"
            )
            raise OptionError(msg)
        last = self.first_event_number + count + self.out_of_order_group_size
        if not Schedule.of(self).fits(last + self.ahead):
            msg = (
                f"num_in_flight_auctions={self.num_in_flight_auctions} is too large for this rate: "
                "auctions would end later than 64 bits can tell"
            )
            raise OptionError(msg)
