"""The settings of the micro benchmarks."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.errors import OptionError
from headrace.lab.parameters import Whole, check, setting
from headrace.lab.workloads.kernels.paced import StreamSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainSettings(StreamSettings):
    """Settings of the chain of ParDos."""

    stages: int = setting(20, Whole(1, 500), "ParDos in a row.")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings(StreamSettings):
    """Settings of the grouping."""

    keys: int = setting(10, Whole(1, 10**6), "Keys, given to elements in turn.")
    window_ms: int = setting(2_000, Whole(1, 10**9), "Length of the sliding windows.")
    slide_ms: int = setting(
        1_000, Whole(1, 10**9), "Time between two starts of windows; at most their length."
    )

    def __post_init__(self) -> None:
        check(self)
        if self.slide_ms > self.window_ms:
            msg = f"slide_ms={self.slide_ms} is above window_ms={self.window_ms}: it leaves gaps"
            raise OptionError(msg)
