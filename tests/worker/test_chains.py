"""Whole pipelines of simple steps give what Beam's local runner gives, step by step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import apache_beam as beam
import pytest
from apache_beam import pvalue
from apache_beam.coders.coders import GlobalWindowCoder
from apache_beam.metrics import Metrics, monitoring_infos
from apache_beam.metrics.metric import MetricsFilter
from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiMetrics
from apache_beam.transforms import window
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue

from tests.worker.harness import (
    collect,
    gathered,
    gathered_by_beam,
    in_millis,
    in_order,
    on_beam,
    on_headrace,
)

NUMBERS = list(range(10))


class Twice(beam.DoFn):  # type: ignore[misc]
    def process(self, element: int) -> Iterator[int]:
        yield element
        yield element


class Nothing(beam.DoFn):  # type: ignore[misc]
    def process(self, element: int) -> None:
        return None


class OddsAsList(beam.DoFn):  # type: ignore[misc]
    def process(self, element: int) -> list[int] | None:
        return [element] if element % 2 else None


class Offset(beam.DoFn):  # type: ignore[misc]
    def process(self, element: int, by: int = 100) -> Iterator[int]:
        yield element + by


class Lifecycle(beam.DoFn):  # type: ignore[misc]
    """Puts out what it held at the end of the bundle."""

    def setup(self) -> None:
        self._base = 1_000

    def start_bundle(self) -> None:
        self._sum = self._base

    def process(self, element: int) -> None:
        self._sum += element

    def finish_bundle(self) -> Iterator[Any]:
        yield WindowedValue(self._sum, 0, [window.GlobalWindow()])


def default_argument(x: int, by: int = 7) -> int:
    return x * by


def unread_tag(x: int) -> Iterator[Any]:
    yield x
    yield pvalue.TaggedOutput("unread", -x)


STEPS: dict[str, tuple[Any, list[int]]] = {
    "map": (beam.Map(lambda x: x * 2), [x * 2 for x in NUMBERS]),
    "map of a builtin": (beam.Map(abs), NUMBERS),
    "map with a default": (beam.Map(default_argument), [x * 7 for x in NUMBERS]),
    "map with an argument": (beam.Map(default_argument, 3), [x * 3 for x in NUMBERS]),
    "map with a keyword": (beam.Map(default_argument, by=2), [x * 2 for x in NUMBERS]),
    "filter": (beam.Filter(lambda x: x % 3 == 0), [0, 3, 6, 9]),
    "filter by truth": (beam.Filter(lambda x: x), list(range(1, 10))),
    "filter with an argument": (beam.Filter(lambda x, low: x > low, 7), [8, 9]),
    "filter that keeps none": (beam.Filter(lambda x: False), []),
    "flat map to a list": (beam.FlatMap(lambda x: [x] * (x % 3)), [1, 2, 2, 4, 5, 5, 7, 8, 8]),
    "flat map to a range": (beam.FlatMap(lambda x: range(x % 3)), [0, 0, 1, 0, 0, 1, 0, 0, 1]),
    "flat map to a set": (beam.FlatMap(lambda x: {x}), NUMBERS),
    "flat map to a generator": (beam.FlatMap(lambda x: (y for y in [x, x])), sorted(NUMBERS * 2)),
    "flat map to none": (beam.FlatMap(lambda x: None), []),
    "flat map to an empty list": (beam.FlatMap(lambda x: []), []),
    "generator": (beam.ParDo(Twice()), sorted(NUMBERS * 2)),
    "dofn of none": (beam.ParDo(Nothing()), []),
    "dofn of lists": (beam.ParDo(OddsAsList()), [1, 3, 5, 7, 9]),
    "dofn with a default": (beam.ParDo(Offset()), [x + 100 for x in NUMBERS]),
    "dofn with an argument": (beam.ParDo(Offset(), 5), [x + 5 for x in NUMBERS]),
    "unread tag": (beam.FlatMap(unread_tag), NUMBERS),
    "unread tag of a map": (
        beam.Map(lambda x: pvalue.TaggedOutput("unread", x) if x else x), [0],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", STEPS)
def test_a_simple_step_gives_what_is_expected(name: str) -> None:
    step, expected = STEPS[name]

    def build(p: beam.Pipeline) -> None:
        p | beam.Create(NUMBERS) | "Step" >> step | collect()

    assert sorted(on_headrace(build)[0].get("out", [])) == sorted(expected)


def test_many_steps_in_a_row_and_side_by_side_agree_with_beam() -> None:
    def build(p: beam.Pipeline) -> None:
        made = p | beam.Create(NUMBERS)
        for name, (step, _) in STEPS.items():
            chained = made | name >> step | f"Next {name}" >> beam.Map(lambda x: x + 1)
            chained | f"Odd {name}" >> beam.Filter(lambda x: x % 2) | collect(name)
            chained | f"Again {name}" >> beam.ParDo(Twice()) | collect(f"{name} again")

    ours, theirs = on_headrace(build)[0], on_beam(build)[0]
    assert {name: in_order(found) for name, found in ours.items()} == {
        name: in_order(found) for name, found in theirs.items()
    }
    assert ours["map again"].count(19) == 2


def test_a_map_of_tuples_spreads_them_over_the_arguments() -> None:
    def build(p: beam.Pipeline) -> None:
        pairs = p | beam.Create([(1, 2), (3, 4)])
        pairs | "Add" >> beam.MapTuple(lambda a, b: a + b) | collect("add")
        pairs | "More" >> beam.MapTuple(lambda a, b, c=0: a + b + c, 10) | collect("more")
        pairs | "Flat" >> beam.FlatMapTuple(lambda a, b: [a, b]) | collect("flat")
        pairs | "Keep" >> beam.Filter(lambda pair: pair[0] == 1) | collect("keep")

    found = {name: sorted(values) for name, values in on_headrace(build)[0].items()}
    assert found == {"add": [3, 7], "more": [13, 17], "flat": [1, 2, 3, 4], "keep": [(1, 2)]}


def test_setup_and_bundles_of_a_simple_dofn_run_around_its_elements() -> None:
    def build(p: beam.Pipeline) -> None:
        p | beam.Create(NUMBERS, reshuffle=False) | beam.ParDo(Lifecycle()) | collect()

    assert gathered(build, shards=1) == [1_045]


def stamped(x: int) -> Any:
    return window.TimestampedValue(x, x * 10)


def stamped_and_tagged(x: int) -> Iterator[Any]:
    yield window.TimestampedValue(x, x)
    yield pvalue.TaggedOutput("unread", window.TimestampedValue(x, -1))
    yield x + 100


def windowed(x: int) -> Any:
    return WindowedValue(
        x, Timestamp(x), (window.IntervalWindow(0, 50), window.IntervalWindow(50, 100))
    )


@pytest.mark.parametrize(
    "step",
    [
        beam.Map(stamped),
        beam.FlatMap(stamped_and_tagged),
        beam.FlatMap(lambda x: [stamped(x), x]),
        beam.Map(lambda x: stamped(x) if x % 2 else x),
    ],
    ids=["map", "generator", "list", "mixed"],
)
@pytest.mark.parametrize(
    "fn",
    [
        window.GlobalWindows(), window.FixedWindows(20), window.SlidingWindows(20, 10),
        window.SlidingWindows(20, 8),
    ],
    ids=["global", "fixed", "sliding", "sliding by eight"],
)  # fmt: skip
def test_results_with_a_time_move_to_the_windows_beam_gives_them(step: Any, fn: Any) -> None:
    def build(p: beam.Pipeline) -> None:
        made = p | beam.Create([0, 1, 2, 5]) | "At" >> beam.Map(stamped)
        made | beam.WindowInto(fn) | "Step" >> step | collect(times=True)

    found = gathered(build)
    assert found == gathered_by_beam(build)
    assert len(found) >= 4


def test_results_with_windows_stay_in_them() -> None:
    def build(p: beam.Pipeline) -> None:
        made = p | beam.Create([1, 60]) | beam.WindowInto(window.FixedWindows(50))
        made | "Step" >> beam.Map(windowed) | collect(times=True)

    found = gathered(build)
    assert [(x, time, (w.start, w.end)) for x, time, w, _ in found] == [
        (1, 1, (0, 50)), (1, 1, (50, 100)), (60, 60, (0, 50)), (60, 60, (50, 100)),
    ]  # fmt: skip
    assert found == gathered_by_beam(build)


def text(x: int) -> Any:
    return "abc"


def dictionary(x: int) -> Any:
    return {"a": x}


class Returning(beam.DoFn):  # type: ignore[misc]
    """A DoFn whose `process` returns what a function gives."""

    def __init__(self, function: Any) -> None:
        self._function = function

    def process(self, element: int) -> Any:
        return self._function(element)


@pytest.mark.parametrize("function", [text, dictionary, lambda x: b"abc"], ids=["str", "dict", "b"])
def test_a_dofn_that_returns_a_text_or_dict_is_refused_in_beams_words(function: Any) -> None:
    def build(p: beam.Pipeline) -> None:
        p | beam.Create([1]) | "Step" >> beam.ParDo(Returning(function)) | collect()

    failures = []
    for run in (on_headrace, on_beam):
        with pytest.raises(Exception, match="from a ParDo or FlatMap is not allowed") as caught:
            run(build)
        failures.append(str(caught.value))
    (said,) = [line for line in failures[1].splitlines() if "is not allowed" in line][:1]
    assert said in failures[0]


@pytest.mark.parametrize("function", [text, dictionary, lambda x: b"abc"], ids=["str", "dict", "b"])
def test_a_text_or_dict_from_a_flat_map_is_taken_apart_as_on_beam(function: Any) -> None:
    def build(p: beam.Pipeline) -> None:
        p | beam.Create([1]) | "Step" >> beam.FlatMap(function) | collect()

    assert gathered(build) == in_order(list(function(1))) == gathered_by_beam(build)


class Odd(Exception):
    """An error that cannot be built from one text."""

    def __init__(self, left: int, right: int) -> None:
        super().__init__(left, right)


def fail(x: int) -> Any:
    if x == 7:
        message = "seven"
        raise LookupError(message)
    return [x]


def fail_in_the_middle(x: int) -> Iterator[int]:
    yield from fail(x)


def fail_oddly(x: int) -> Any:
    raise Odd(1, 2)


def stop(x: int) -> Any:
    raise StopIteration


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (beam.Map(fail), "LookupError: seven [while running 'Step']"),
        (beam.Filter(fail), "LookupError: seven [while running 'Step']"),
        (beam.FlatMap(fail), "LookupError: seven [while running 'Step']"),
        (beam.FlatMap(fail_in_the_middle), "LookupError: seven [while running 'Step']"),
        (beam.Map(fail_oddly), "RuntimeError: tests.worker.test_chains.Odd: (1, 2) [while running"),
        (beam.Map(stop), "StopIteration"),
        (beam.Filter(stop), "StopIteration"),
        (beam.FlatMap(stop), "StopIteration"),
    ],
    ids=["map", "filter", "flat map", "generator", "odd class", "stop", "stop in filter",
         "stop in flat map"],
)  # fmt: skip
def test_a_failure_in_a_simple_step_names_type_message_and_step(step: Any, words: str) -> None:
    def build(p: beam.Pipeline) -> None:
        p | beam.Create(NUMBERS) | "Step" >> step | collect()

    with pytest.raises(Exception, match="Step") as caught:
        on_headrace(build)
    told = f"{type(caught.value).__name__}: {caught.value}"
    assert words in told


class SmallTimes(window.NonMergingWindowFn):  # type: ignore[misc]
    """One window, but no time after a hundred seconds."""

    def assign(self, context: Any) -> Any:
        if context.timestamp > 100:
            message = "too late"
            raise LookupError(message)
        return [window.GlobalWindow()]

    def get_window_coder(self) -> Any:
        return GlobalWindowCoder()


def test_a_failure_of_the_windows_of_a_new_time_names_the_step_that_gave_it() -> None:
    def build(p: beam.Pipeline) -> None:
        windowed = p | beam.Create([1, 2]) | beam.WindowInto(SmallTimes())
        later = windowed | "Later" >> beam.Map(lambda x: window.TimestampedValue(x, 1_000))
        _ = later | beam.Map(str) | collect()

    for run in (on_headrace, on_beam):
        with pytest.raises(Exception, match=r"too late \[while running 'Later'\]"):
            run(build)


def counting(name: str) -> Any:
    def count(x: int) -> Iterable[int]:
        Metrics.counter("test", "calls").inc()
        Metrics.distribution("test", "sizes").update(x)
        return [x] * 2

    return name >> beam.FlatMap(count)


def test_user_counters_belong_to_the_step_that_counted() -> None:
    def build(p: beam.Pipeline) -> None:
        made = p | beam.Create([1, 2, 3]) | counting("First") | counting("Second")
        made | "Third" >> beam.Filter(bool) | counting("Fourth") | collect()

    result = on_headrace(build)[1]
    found = result.metrics().query(MetricsFilter().with_namespace("test"))
    calls = {c.key.step: c.committed for c in found["counters"]}
    assert calls == {"First": 3, "Second": 6, "Fourth": 12}
    sizes = {
        d.key.step: (d.committed.count, d.committed.sum, d.committed.min, d.committed.max)
        for d in found["distributions"]
    }
    assert sizes == {"First": (3, 6, 1, 3), "Second": (6, 12, 1, 3), "Fourth": (12, 24, 1, 3)}


def element_counts(infos: FnApiMetrics) -> dict[str, int]:
    """How many elements each collection got, by its name."""
    found: dict[str, int] = {}
    for info in infos:
        if info.urn == "beam:metric:element_count:v1":
            name = info.labels["PCOLLECTION"]
            found[name] = found.get(name, 0) + monitoring_infos.extract_counter_value(info)
    return found


def test_every_collection_counts_as_many_elements_as_on_beam() -> None:
    def build(p: beam.Pipeline) -> None:
        made = p | beam.Create(NUMBERS) | "A" >> beam.ParDo(Twice())
        kept = made | "B" >> beam.Filter(lambda x: x > 3) | "C" >> beam.Map(lambda x: (x % 2, x))
        kept | "D" >> beam.CombinePerKey(sum) | collect("sums")
        kept | beam.GroupByKey() | "E" >> beam.FlatMap(lambda g: list(g[1])) | collect("all")
        made | "F" >> beam.WindowInto(window.SlidingWindows(10, 5)) | "G" >> beam.Map(str) | (
            collect("windows", times=True)
        )

    ours = on_headrace(build, shards=1)[1]._monitoring_infos_by_stage
    theirs = on_beam(build)[1]._monitoring_infos_by_stage
    mine = element_counts([info for infos in ours.values() for info in infos])
    beams = element_counts([info for infos in theirs.values() for info in infos])
    shared = mine.keys() & beams.keys()
    assert len(shared) >= 10
    assert {name: mine[name] for name in shared} == {name: beams[name] for name in shared}
    assert 20 in mine.values()  # what A put out
    assert 12 in mine.values()  # what B kept


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (window.SlidingWindows(20, 10), window.FixedWindows(5)),
        (window.SlidingWindows(20, 10), window.SlidingWindows(30, 10)),
        (window.SlidingWindows(20, 10), window.GlobalWindows()),
        (window.SlidingWindows(20, 5), window.Sessions(3)),
        (window.FixedWindows(7), window.SlidingWindows(10, 3)),
    ],
    ids=["fixed", "sliding", "global", "sessions", "from fixed"],
)
def test_elements_in_several_windows_are_windowed_again_as_on_beam(first: Any, second: Any) -> None:
    def build(p: beam.Pipeline) -> None:
        made = p | beam.Create([-11, 0, 3, 19, 20]) | beam.Map(stamped)
        both = made | "One" >> beam.WindowInto(first) | "Two" >> beam.WindowInto(second)
        both | collect("elements", times=True)
        groups = both | beam.WithKeys(0) | beam.GroupByKey()
        groups | beam.MapTuple(lambda k, v: sorted(v)) | collect("groups", times=True)

    ours, theirs = on_headrace(build)[0], on_beam(build)[0]
    for label in ("elements", "groups"):
        assert in_order(in_millis(ours[label])) == in_order(in_millis(theirs[label]))
    assert ours["groups"]


class Place(NamedTuple):
    x: int
    name: str


class HandOn(beam.DoFn):  # type: ignore[misc]
    def process(self, element: Any) -> Iterator[Any]:
        yield element


class HandOnThenEmpty(beam.DoFn):  # type: ignore[misc]
    """Forbidden, but seen: changes what it has put out."""

    def process(self, element: Any) -> Iterator[Any]:
        yield element
        if isinstance(element, list):
            element.clear()
        box = [element]
        yield box
        box.clear()


def test_values_handed_on_from_step_to_step_keep_their_times_and_come_once() -> None:
    places = [Place(n, str(n)) for n in range(5_000)]

    def build(p: beam.Pipeline) -> None:
        found = p | beam.Create(places) | beam.Map(lambda e: window.TimestampedValue(e, e.x))
        for number in range(4):
            found = found | f"On {number}" >> beam.ParDo(HandOn())
        found | "Left" >> beam.ParDo(HandOn()) | collect("left")
        found | "Right" >> beam.ParDo(HandOn()) | collect("right", times=True)

    ours, theirs = on_headrace(build)[0], on_beam(build)[0]
    assert in_order(ours["left"]) == in_order(places)
    assert in_order(in_millis(ours["right"])) == in_order(in_millis(theirs["right"]))


def test_what_may_change_is_handed_on_at_once_even_after_steps_that_hand_on_what_cannot() -> None:
    def build(p: beam.Pipeline) -> None:
        made = p | beam.Create(NUMBERS) | beam.ParDo(HandOn())
        made | "Boxes" >> beam.ParDo(HandOnThenEmpty()) | "A" >> beam.Map(repr) | collect("boxes")
        lists = made | "Lists" >> beam.Map(lambda n: [n]) | "On" >> beam.ParDo(HandOn())
        lists | "Empty" >> beam.ParDo(HandOnThenEmpty()) | "B" >> beam.Map(repr) | collect("lists")

    ours, theirs = on_headrace(build)[0], on_beam(build)[0]
    assert in_order(ours["boxes"]) == in_order(theirs["boxes"])
    assert in_order(ours["lists"]) == in_order(theirs["lists"])
    assert "[9]" in ours["boxes"] and "[9]" in ours["lists"]
