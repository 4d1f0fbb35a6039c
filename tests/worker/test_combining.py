"""Combining before the exchange gives what combining everything at once gives."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.transforms import combiners, core, trigger, window

from headrace.worker.batched import combining, gather
from headrace.worker.batched.combining import owns_resources
from headrace.worker.batched.known_combines import builtin_of
from tests.worker.harness import SEEN, collect, gathered, gathered_by_beam, on_headrace

PAIRS = [(f"k{(i * i) % 7}", (i * 37) % 101 - 50) for i in range(200)]


class Spread(beam.CombineFn):  # type: ignore[misc]
    """Largest minus smallest; keeps all values until `compact` drops all but two."""

    def create_accumulator(self) -> list[int]:
        return []

    def add_input(self, accumulator: list[int], element: int) -> list[int]:
        accumulator.append(element)
        return accumulator

    def merge_accumulators(self, accumulators: Any) -> list[int]:
        return [value for held in accumulators for value in held]

    def compact(self, accumulator: list[int]) -> list[int]:
        assert accumulator, "a key without values has no accumulator"
        return [min(accumulator), max(accumulator)]

    def extract_output(self, accumulator: list[int]) -> int:
        return max(accumulator) - min(accumulator)


class Opened(Spread):
    """Works only between `setup` and `teardown`, and notes both with its identity."""

    def setup(self) -> None:
        self._open = True
        SEEN.setdefault("setup", []).append(id(self))

    def add_input(self, accumulator: list[int], element: int) -> list[int]:
        assert self._open
        return super().add_input(accumulator, element)

    def extract_output(self, accumulator: list[int]) -> int:
        assert self._open
        return super().extract_output(accumulator)

    def teardown(self) -> None:
        self._open = False
        SEEN.setdefault("teardown", []).append(id(self))


def by_key(pairs: list[tuple[str, int]]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for key, value in pairs:
        found[key].append(value)
    return found


CASES: dict[str, tuple[Any, Any]] = {
    "sum": (sum, sum),
    "min": (min, min),
    "max": (max, max),
    "mean": (combiners.MeanCombineFn(), lambda v: sum(v) / len(v)),
    "count": (combiners.CountCombineFn(), len),
    "a callable": (lambda values: sum(values) * 1, sum),
    "compact": (Spread(), lambda v: max(v) - min(v)),
    "setup": (Opened(), lambda v: max(v) - min(v)),
    "top": (combiners.TopCombineFn(2), lambda v: sorted(v, reverse=True)[:2]),
}


@pytest.fixture(params=["roomy", "adding", "sending"])
def room(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Limits as they are, and limits that make the pre-combiner add, or add and send, often."""
    if request.param != "roomy":
        monkeypatch.setattr(gather, "BATCH_VALUES", 8)
        monkeypatch.setattr(combining, "HELD_VALUES", 2)
    if request.param == "sending":
        monkeypatch.setattr(combining, "MAX_KEYS", 3)
        monkeypatch.setattr(combining, "MAX_KEYS_TINY", 3)
    return str(request.param)


@pytest.mark.usefixtures("room")
@pytest.mark.parametrize("name", CASES)
def test_a_combine_per_key_is_that_of_all_its_values(name: str) -> None:
    fn, plain = CASES[name]

    def build(p: beam.Pipeline) -> None:
        made = p | beam.Create([0]) | beam.FlatMap(lambda _: PAIRS)
        made | beam.CombinePerKey(fn) | collect()

    expected = sorted((key, plain(values)) for key, values in by_key(PAIRS).items())
    assert gathered(build) == expected


@pytest.mark.usefixtures("room")
def test_combines_in_windows_are_those_of_each_window() -> None:
    def build(p: beam.Pipeline) -> None:
        made = p | beam.Create([(key, i, value) for i, (key, value) in enumerate(PAIRS)])
        stamped = made | beam.Map(lambda e: window.TimestampedValue((e[0], e[2]), e[1]))
        windowed = stamped | beam.WindowInto(window.SlidingWindows(40, 20))
        for name in ("sum", "mean", "compact"):
            windowed | name >> beam.CombinePerKey(CASES[name][0]) | collect(name, times=True)

    found = on_headrace(build)[0]
    held: dict[tuple[int, str], list[int]] = defaultdict(list)
    for i, (key, value) in enumerate(PAIRS):
        first = i // 20 * 20
        for start in (first, first - 20):
            held[start, key].append(value)
    for name in ("sum", "mean", "compact"):
        plain = CASES[name][1]
        ours = {(int(w.start), pair[0]): pair[1] for pair, _, w, _ in found[name]}
        assert len(found[name]) == len(ours)
        assert ours == {place: plain(values) for place, values in held.items()}
        # The last millisecond of the window: Beam's coder keeps no more.
        assert all(time.micros == w.end.micros - 1_000 for _, time, w, _ in found[name])


@pytest.mark.parametrize(
    "when", [window.TimestampCombiner.OUTPUT_AT_EARLIEST, window.TimestampCombiner.OUTPUT_AT_LATEST]
)
def test_a_combine_that_keeps_a_time_keeps_the_one_beam_keeps(when: Any) -> None:
    def build(p: beam.Pipeline) -> None:
        made = p | beam.Create([("a", 3), ("a", 7), ("b", 12), ("a", 15)])
        stamped = made | beam.Map(lambda e: window.TimestampedValue(e, e[1]))
        windowed = stamped | beam.WindowInto(window.FixedWindows(10), timestamp_combiner=when)
        windowed | beam.CombinePerKey(sum) | collect(times=True)

    found = gathered(build)
    assert found == gathered_by_beam(build)
    early = when == window.TimestampCombiner.OUTPUT_AT_EARLIEST
    assert (("a", 10), 3 if early else 7) in [(pair, float(time)) for pair, time, _, _ in found]


def test_keys_that_python_calls_equal_are_combined_as_on_beam() -> None:
    def build(p: beam.Pipeline) -> None:
        pairs = [(1, 1), (True, 10), (1.0, 100), (None, 5), ((1, 2), 7), (None, 6)]
        made = p | beam.Create([0]) | beam.FlatMap(lambda _: pairs)
        made | beam.CombinePerKey(sum) | collect()

    ours, theirs = gathered(build), gathered_by_beam(build)
    assert sum(value for _, value in ours) == 129
    assert {key: value for key, value in ours} == {key: value for key, value in theirs}


def test_setup_and_teardown_are_called_once_for_each_instance() -> None:
    def build(p: beam.Pipeline) -> None:
        p | beam.Create(PAIRS) | beam.CombinePerKey(Opened()) | collect()

    found = on_headrace(build)[0]
    assert found["setup"]
    assert sorted(found["setup"]) == sorted(found["teardown"])
    assert len(found["setup"]) >= 3  # before the exchange, merging, extracting


def test_a_combine_of_nothing_gives_the_empty_result_once() -> None:
    def build(p: beam.Pipeline) -> None:
        made = p | beam.Create([1]) | beam.Filter(lambda x: x > 1)
        made | "Sum" >> beam.CombineGlobally(sum) | collect("sum")
        made | "Count" >> combiners.Count.Globally() | collect("count")

    found = on_headrace(build)[0]
    assert found == {"sum": [0], "count": [0]}


def test_a_failure_in_a_combine_fn_names_the_step() -> None:
    def build(p: beam.Pipeline) -> None:
        p | beam.Create([("a", 1), ("a", "x")]) | "Adding up" >> beam.CombinePerKey(sum) | collect()

    with pytest.raises(Exception, match="unsupported operand") as caught:
        on_headrace(build)
    assert "[while running 'Adding up" in str(caught.value)


@pytest.mark.parametrize(
    ("fn", "inner"),
    [(sum, sum), (min, min), (max, max), (len, None)],
    ids=["sum", "min", "max", "len"],
)
def test_only_builtins_that_reduce_their_own_results_are_seen_through(fn: Any, inner: Any) -> None:
    assert builtin_of(core.CallableWrapperCombineFn(fn)) is inner
    assert builtin_of(combiners.CountCombineFn()) is None


def test_only_a_combine_fn_with_setup_or_teardown_owns_resources() -> None:
    assert owns_resources(Opened())
    assert not owns_resources(Spread())


class SetUpFirst(beam.CombineFn):  # type: ignore[misc]
    """A sum that wants to be set up, as one with a connection would."""

    ready = False

    def setup(self) -> None:
        self.ready = True

    def create_accumulator(self) -> int:
        assert self.ready, "not set up"
        return 0

    def add_input(self, accumulator: int, element: int) -> int:
        return accumulator + element

    def merge_accumulators(self, accumulators: Any) -> int:
        return sum(accumulators)

    def extract_output(self, accumulator: int) -> int:
        return accumulator


@pytest.mark.parametrize("lifted", [True, False])
def test_a_combiner_with_a_fanout_is_set_up_before_it_is_used(lifted: bool) -> None:
    """Beam's wrapper for hot keys borrows `setup` as an attribute; its class has none."""
    once = beam.WindowInto(
        window.GlobalWindows(), trigger=trigger.AfterCount(3),
        accumulation_mode=trigger.AccumulationMode.DISCARDING,
    )

    def build(p: beam.Pipeline) -> None:
        pairs = p | beam.Create([("a", 1), ("a", 2), ("a", 3)])
        pairs = pairs if lifted else pairs | once
        summed = pairs | beam.CombinePerKey(SetUpFirst()).with_hot_key_fanout(1)
        _ = summed | collect()

    assert gathered(build, "--allow_unsafe_triggers") == [("a", 6)]
