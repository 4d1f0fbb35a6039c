"""The settings of the scalability graphs."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.lab.parameters import Whole, setting
from headrace.lab.workloads.kernels.paced import StreamSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingSettings(StreamSettings):
    """Settings of all three graphs."""

    work: int = setting(16, Whole(0, 2**20), "Multiplications per element; try powers of two.")
    selectivity: int = setting(
        1, Whole(1, 256), "Only one element of this many is worked on and passed on."
    )
    keys: int = setting(1_000, Whole(1, 10**6), "Keys of the elements, chosen at random.")
    groups: int = setting(
        50, Whole(1, 10**6), "Keys of the second aggregate; only the graph shuffle has one."
    )
    window_ms: int = setting(
        1_000, Whole(1, 10**9), "Length of the windows; the graph stateless has none."
    )
