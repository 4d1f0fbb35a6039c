"""The settings of the windowed aggregation and join."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.errors import OptionError
from headrace.lab.parameters import Whole, check, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a run of a windowed question can be told."""

    events: int = setting(100_000, Whole(1), "How many events there are, of both streams together.")
    rate: int = setting(
        10_000, Whole(1, 10**9), "Events per second of event time, of both streams together."
    )
    seed: int = setting(1, Whole(0), "Other seeds give other events.")
    out_of_order: int = setting(
        1, Whole(1, 10**6), "Events of a group of this size arrive in a shuffled order; 1: none do."
    )
    base_ms: int = setting(
        1_436_918_400_000, Whole(0), "Time of the first event, milliseconds since 1970."
    )
    keys: int = setting(160, Whole(1, 2**31), "How many places there are.")
    max_value: int = setting(3_600, Whole(1, 2**31), "Values are from 1 to this, evenly.")
    partners: int = setting(
        10,
        Whole(0, 1_000),
        "Events out of 1,000 of the join's second stream whose place the first stream has too.",
    )
    window_size_sec: int = setting(8, Whole(1, 86_400), "Length of the windows in seconds.")
    slide_sec: int = setting(
        4, Whole(1, 86_400), "Seconds from one window's start to the next; the length: tumbling."
    )

    def __post_init__(self) -> None:
        check(self)
        if self.slide_sec > self.window_size_sec:
            msg = (
                f"slide_sec={self.slide_sec} is outside its domain: at most "
                f"window_size_sec={self.window_size_sec}, or events would fall between windows"
            )
            raise OptionError(msg)
