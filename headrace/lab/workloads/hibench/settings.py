"""The settings of the HiBench streaming suite."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.lab.parameters import Whole, check, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a run of a HiBench question can be told."""

    events: int = setting(100_000, Whole(1), "How many records there are.")
    rate: int = setting(10_000, Whole(1, 10**9), "Records per second of event time.")
    seed: int = setting(1, Whole(0), "Other seeds give other records.")
    out_of_order: int = setting(
        1,
        Whole(1, 10**6),
        "Records of a group of this size arrive in a shuffled order; 1: none do.",
    )
    base_ms: int = setting(
        1_436_918_400_000, Whole(0), "Time of the first record, milliseconds since 1970."
    )
    ips: int = setting(100, Whole(1, 1_000_000), "How many addresses there are.")
    window_size_sec: int = setting(
        10, Whole(1, 86_400), "Length of the windows of fixwindow in seconds."
    )

    def __post_init__(self) -> None:
        check(self)
