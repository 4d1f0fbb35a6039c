"""The list of benchmarks: pipeline, size, right answer, and the bar headrace must clear."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headrace.lab.experiments.micro import by_time, pipelines
from headrace.lab.experiments.micro.answers import Keys, sum_below

Answer = dict[str, int]

KEYS = 10_000
#: Seconds that each key of a windowed case lives: 100 fixed windows, 504 sliding ones. The number
#: of keys grows with the elements, so that a smaller run does the same work per element.
SECONDS_PER_KEY = 1_000
WINDOW, PERIOD = 10, 2
VALUE_BYTES = 1_024
LARGE_KEYS = 64
WORKER_LIMIT_BYTES = 1_500_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One benchmark."""

    name: str
    what: str  # one line for people, with the parameters
    build: Callable[[Any, int], None]  # (pipeline, elements)
    expected: Callable[[int], Answer]  # elements -> counters
    share: float = 1.0  # of --elements, for headrace
    reference_share: float | None = 1.0  # the same for Beam's runner; None: headrace runs alone
    bar: float | None = None  # ratio to clear, no less
    worker_limit_bytes: int | None = None  # no Python worker may hold more
    most_repeats: int = 100  # fewer where one run is long and says it all

    def __post_init__(self) -> None:
        if self.bar is not None and self.reference_share is None:
            msg = f"case {self.name} has a bar but nothing to compare with"
            raise ValueError(msg)


def keys_for(n: int) -> int:
    """How many keys a windowed case of n elements has."""
    return max(1, n // SECONDS_PER_KEY)


def _numbers(count: int, total: int) -> Answer:
    return {"count": count, "total": total, "wrong": 0}


def _keyed(keys: int) -> Callable[[int], Answer]:
    return lambda n: _numbers(Keys(n, keys).groups(), sum_below(n))


def _windowed(size: int, period: int) -> Callable[[int], Answer]:
    return lambda n: _numbers(
        Keys(n, keys_for(n)).windows(size, period), size // period * sum_below(n)
    )


_FIXED = f"windows of {WINDOW} s, 1 element per key and second, {SECONDS_PER_KEY} s"
_SLIDING = f"windows of {WINDOW} s every {PERIOD} s, 1 element per key and second, " \
    f"{SECONDS_PER_KEY} s"

CASES = (
    Case(
        name="maps_3", what="generate, three maps of integers",
        build=pipelines.maps, expected=lambda n: _numbers(n, n * n - 2 * n), bar=1.8,
    ),
    Case(
        name="pardos_20", what="generate, 20 identity DoFns, elements of 24 bytes",
        build=pipelines.pardos, expected=lambda n: _numbers(n, sum_below(n)), bar=2.1,
        share=0.4, reference_share=0.2,
    ),
    Case(
        name="sum_1k", what="CombinePerKey(sum), 1000 integer keys",
        build=pipelines.sums(1_000), expected=_keyed(1_000), bar=1.7,
    ),
    Case(
        name="sum_1m", what="CombinePerKey(sum), 1000000 integer keys",
        build=pipelines.sums(1_000_000), expected=_keyed(1_000_000), bar=1.9,
    ),
    Case(
        name="group_int", what=f"GroupByKey, {KEYS} integer keys",
        build=pipelines.groups_by_int(KEYS), expected=_keyed(KEYS), bar=4.5,
    ),
    Case(
        name="group_str", what=f"GroupByKey, {KEYS} string keys of 17 characters",
        build=pipelines.groups_by_text(KEYS), expected=_keyed(KEYS), bar=2.5,
    ),
    Case(
        name="group_tuple", what=f"GroupByKey, {KEYS} keys (string, integer)",
        build=pipelines.groups_by_tuple(KEYS), expected=_keyed(KEYS), bar=2.5,
    ),
    Case(
        name="group_fixed", what=f"GroupByKey, {_FIXED}",
        build=pipelines.windowed(keys_for, WINDOW, WINDOW, combine=False),
        expected=_windowed(WINDOW, WINDOW), bar=8.0, share=0.4, reference_share=0.02,
    ),
    Case(
        name="sum_fixed", what=f"CombinePerKey(sum), {_FIXED}",
        build=pipelines.windowed(keys_for, WINDOW, WINDOW, combine=True),
        expected=_windowed(WINDOW, WINDOW), bar=8.0, reference_share=0.02,
    ),
    Case(
        name="group_sliding", what=f"GroupByKey, {_SLIDING}",
        build=pipelines.windowed(keys_for, WINDOW, PERIOD, combine=False),
        expected=_windowed(WINDOW, PERIOD), bar=8.0, share=0.2, reference_share=0.005,
    ),
    Case(
        name="sum_sliding", what=f"CombinePerKey(sum), {_SLIDING}",
        build=pipelines.windowed(keys_for, WINDOW, PERIOD, combine=True),
        expected=_windowed(WINDOW, PERIOD), bar=8.0, reference_share=0.005,
    ),
    Case(
        name="state", what="a stateful DoFn, 1000 integer keys, one block in eight out of order",
        build=by_time.stateful(1_000, by_time.Last),
        expected=lambda n: _numbers(n, sum_below(n)), share=0.1, reference_share=None,
    ),
    Case(
        name="time_sorted", what="the same with @headrace.time_sorted",
        build=by_time.stateful(1_000, by_time.LastInOrder),
        expected=lambda n: _numbers(n, sum_below(n)), share=0.1, reference_share=None,
    ),
    Case(
        name="in_sequence", what="OrderedProcessor, 1024 keys, one block in eight out of order",
        build=by_time.in_sequence(16),
        expected=lambda n: _numbers(n, sum_below(n)), share=0.1, reference_share=None,
    ),
    Case(
        name="big_group",
        what=f"GroupByKey, values of {VALUE_BYTES} bytes that do not compress, {LARGE_KEYS} keys",
        build=pipelines.large_groups(LARGE_KEYS, VALUE_BYTES), expected=_keyed(LARGE_KEYS),
        share=0.4, reference_share=None, worker_limit_bytes=WORKER_LIMIT_BYTES,
        most_repeats=1,
    ),
)


def find(names: list[str]) -> list[Case]:
    """Give the named cases, all if none is named; an unknown name is an error that lists them."""
    known = {case.name: case for case in CASES}
    for name in names:
        if name not in known:
            msg = f"there is no case {name}; there are {', '.join(known)}"
            raise KeyError(msg)
    return [known[name] for name in names] or list(CASES)
