"""Functions that ask for window, time and pane run on batches, and see what Beam shows them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.internal.util import ArgumentPlaceholder
from apache_beam.transforms import window
from apache_beam.transforms.window import GlobalWindow, IntervalWindow, TimestampedValue
from apache_beam.utils import windowed_value
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import PANE_INFO_UNKNOWN, PaneInfo, PaneInfoTiming
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.worker.batched.batches import Columns
from headrace.worker.batched.moments import moment_of
from headrace.worker.batched.operations import SimpleDo
from headrace.worker.batched.steps import Results, step_of
from tests.worker.harness import collect, in_millis, in_order, on_beam
from tests.worker.harness import on_headrace as on_ours

WINDOW, TIME, PANE = beam.DoFn.WindowParam, beam.DoFn.TimestampParam, beam.DoFn.PaneInfoParam


def told(value: Any, *more: Any) -> tuple[Any, ...]:
    return (value, *map(repr, more))


class AsksForAll(beam.DoFn):  # type: ignore[misc]
    """Asks in another order than Beam lists them, with an argument of its own in between."""

    def process(
        self, element: Any, pane: Any = PANE, times: int = 2, window: Any = WINDOW, at: Any = TIME
    ) -> Iterator[Any]:
        for i in range(times):
            yield told((element, i), pane, window, at.micros // 1_000)


class AsksWithDefault(beam.DoFn):  # type: ignore[misc]
    """Has a default of its own; Beam wants such arguments behind those that it fills in."""

    def process(
        self, element: Any, window: Any = WINDOW, at: Any = TIME, times: int = 2
    ) -> Iterator[Any]:
        yield told(element, window, at.micros // 1_000, times)


class Lists(beam.DoFn):  # type: ignore[misc]
    """Gives a list that it may change, or nothing."""

    def process(self, element: Any, at: Any = TIME) -> Any:
        return [[element, repr(at)]] if element % 3 else None


class Moves(beam.DoFn):  # type: ignore[misc]
    """Gives outputs with a time of their own, and some with another tag."""

    def process(self, element: Any, at: Any = TIME, window: Any = WINDOW) -> Iterator[Any]:
        yield TimestampedValue((element, repr(window)), at + 3)
        if element % 2:
            yield beam.pvalue.TaggedOutput("odd", (element, repr(at)))


def moving(values: Any) -> Any:
    found = values | beam.ParDo(Moves()).with_outputs("odd", main="even")
    return (found.even, found.odd | "of odd" >> beam.Map(lambda x: x)) | beam.Flatten()


def rounded(x: Any, at: Any) -> Any:
    return x, at.micros // 1_000


ASKING: dict[str, Callable[[Any], Any]] = {
    "map of a window": lambda c: c | beam.Map(lambda x, w=WINDOW: told(x, w)),
    "map of a time": lambda c: c | beam.Map(lambda x, t=TIME: rounded(x, t)),
    "map of a pane": lambda c: c | beam.Map(lambda x, p=PANE: told(x, p)),
    "map that gives a time": lambda c: c | beam.Map(lambda x, t=TIME: (x, t.micros, t)),
    "map with an argument": lambda c: c | beam.Map(lambda x, y, w=WINDOW: told(x, y, w), 5),
    "map with a keyword": lambda c: c | beam.Map(lambda x, w=WINDOW, y=0: told(x, w, y), y=5),
    "map of two": lambda c: c | beam.Map(lambda x, w=WINDOW, p=PANE: told(x, w, p)),
    "filter by window": lambda c: c | beam.Filter(lambda x, w=WINDOW: (w.end.micros + x) % 7 < 4),
    "filter by time": lambda c: c | beam.Filter(lambda _, t=TIME: t.micros % 2_000_000 == 0),
    "flat map": lambda c: c | beam.FlatMap(lambda x, w=WINDOW, t=TIME: [told(x, w), rounded(x, t)]),
    "map of tuples": lambda c: c | beam.Map(lambda x: (x, 1)) | beam.MapTuple(
        lambda a, b, w=WINDOW: told(a, b, w)
    ),
    "flat map of tuples": lambda c: c | beam.Map(lambda x: (x, 1)) | beam.FlatMapTuple(
        lambda a, b, t=TIME: [told(a, b), rounded(a, t)]
    ),
    "all, and an argument": lambda c: c | beam.ParDo(AsksForAll(), 1),
    "all, and a default": lambda c: c | beam.ParDo(AsksWithDefault()),
    "lists": lambda c: c | beam.ParDo(Lists()),
    "outputs with times and tags": moving,
    "one after the other": lambda c: c
    | "one" >> beam.Map(lambda x, w=WINDOW: (x, repr(w)))
    | "two" >> beam.Filter(lambda x, t=TIME: t.micros % 3 or x[0])
    | "three" >> beam.Map(lambda x, p=PANE: (x[0], repr(p))),
}

WINDOWINGS: dict[str, Any] = {
    "global": window.GlobalWindows(),
    "fixed": window.FixedWindows(10),
    "sliding": window.SlidingWindows(10, 5),
    "sliding unevenly": window.SlidingWindows(10, 4),
}


def seen(build: Callable[[beam.Pipeline], Any], run: Any) -> list[Any]:
    return in_order(in_millis(run(build)[0].get("out", [])))


@pytest.mark.parametrize("windowing", WINDOWINGS)
@pytest.mark.parametrize("name", ASKING)
def test_a_function_is_called_as_beam_calls_it(name: str, windowing: str) -> None:
    def build(p: beam.Pipeline) -> None:
        stamped = (
            p
            | beam.Create([0])
            | beam.FlatMap(lambda _: [TimestampedValue(i, i * 1.25) for i in range(30)])
            | beam.WindowInto(WINDOWINGS[windowing])
        )
        _ = ASKING[name](stamped) | collect(times=True)

    expected = seen(build, on_beam)
    assert expected
    assert seen(build, on_ours) == expected


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(-40_000, 40_000)), min_size=1, max_size=12),
    st.lists(st.sampled_from(["one window", "one time", "one pane", "kept"]), max_size=4),
    st.sampled_from(sorted(WINDOWINGS)),
    st.booleans(),
)
def test_any_chain_of_asking_functions_is_called_as_beam_calls_it(
    rows: list[tuple[int, int]], steps: list[str], windowing: str, grouped: bool
) -> None:
    """With a grouping before, elements have panes; window after window they are one batch."""

    def build(p: beam.Pipeline) -> None:
        found = (
            p
            | beam.Create([0])
            | beam.FlatMap(
                lambda _: [TimestampedValue((k, m), Timestamp(micros=m * 1_000)) for k, m in rows]
            )
            | beam.WindowInto(WINDOWINGS[windowing])
        )
        if grouped:
            found |= beam.GroupByKey() | beam.MapTuple(lambda k, v: (k, sum(v)))
        for i, step in enumerate(steps):
            match step:
                case "one window":
                    asking = beam.Map(lambda x, w=WINDOW: (x[0], x[1] + w.end.micros // 1_000))
                case "one time":
                    asking = beam.FlatMap(
                        lambda x, t=TIME: [x, (x[0] + 1, t.micros // 1_000)] if x[0] % 2 else [x]
                    )
                case "one pane":
                    asking = beam.Map(lambda x, p=PANE: (x[0], x[1] + p.timing + p.index))
                case _:
                    asking = beam.Filter(lambda x, w=WINDOW, t=TIME: t <= w.end and x[1] % 5)
            found |= f"{i}" >> asking
        _ = found | collect(times=True)

    assert seen(build, on_ours) == seen(build, on_beam)


class LooksAside(beam.DoFn):  # type: ignore[misc]
    """Asks for window and time among side inputs, one of them by name."""

    def process(
        self, element: Any, rates: Any, window: Any = WINDOW, at: Any = TIME, names: Any = None
    ) -> Iterator[Any]:
        names = sorted(names)
        yield told((element, rates.get(element % 5), names), window, at.micros // 1_000)


def _dict(c: Any) -> Any:
    return beam.pvalue.AsDict(c | "pairs" >> beam.Map(lambda x: (x % 5, x // 5)))


def _sum(c: Any) -> Any:
    return beam.pvalue.AsSingleton(
        c | "sum" >> beam.CombineGlobally(sum).without_defaults(), default_value=-1
    )


#: Functions of (main, side): the side has numbers, five of them in each window that has any.
ASIDE: dict[str, Callable[[Any, Any], Any]] = {
    "flat map of a dict": lambda c, s: c | beam.FlatMap(
        lambda x, rates: [(x, rates.get(x % 5)), x], _dict(s)
    ),
    "map of a list": lambda c, s: c | beam.Map(
        lambda x, y, found: (x, y, sorted(found)), 7, beam.pvalue.AsList(s)
    ),
    "map of an iterable by name": lambda c, s: c | beam.Map(
        lambda x, found: (x, sum(found)), found=beam.pvalue.AsIter(s)
    ),
    "filter by one": lambda c, s: c | beam.Filter(lambda x, most: x % 3 < most % 4, _sum(s)),
    "two": lambda c, s: c | beam.Map(
        lambda x, most, found, w=WINDOW: told((x, most, sorted(found)), w),
        _sum(s), beam.pvalue.AsList(s),
    ),
    "a DoFn": lambda c, s: c | beam.ParDo(LooksAside(), _dict(s), names=beam.pvalue.AsList(s)),
    "map of tuples": lambda c, s: c | beam.Map(lambda x: (x, 1)) | beam.MapTuple(
        lambda a, b, most=None: (a, b, most), _sum(s)
    ),
}


class Aside(beam.PTransform):  # type: ignore[misc]
    """One of these, under a name of its own."""

    def __init__(self, name: str, side: Any) -> None:
        super().__init__(name)
        self._name = name
        self._side = side

    def expand(self, main: Any) -> Any:
        return ASIDE[self._name](main, self._side)


@pytest.mark.parametrize(
    ("main", "side", "options"),
    [
        ("global", "global", ["--streaming"]), ("fixed", "fixed", ["--streaming"]),
        ("sliding", "fixed", ["--streaming"]), ("fixed", "sliding", []), ("sliding", "global", []),
    ],
)
def test_a_function_is_given_its_side_inputs_as_beam_gives_them(
    main: str, side: str, options: list[str]
) -> None:
    def build(p: beam.Pipeline) -> None:
        start = p | beam.Create([0])
        stamped = start | "main" >> beam.FlatMap(
            lambda _: [TimestampedValue(i, i * 1.25) for i in range(30)]
        ) | "main windows" >> beam.WindowInto(WINDOWINGS[main])
        aside = start | "side" >> beam.FlatMap(
            lambda _: [TimestampedValue(i, i * 2) for i in range(5)]
        ) | "side windows" >> beam.WindowInto(WINDOWINGS[side])
        for name in ASIDE:
            _ = stamped | Aside(name, aside) | collect(name, times=True)

    expected, _ = on_beam(build)
    found, _ = on_ours(build, *options)
    assert set(expected) == set(ASIDE)
    for name in ASIDE:
        assert in_order(in_millis(found[name])) == in_order(in_millis(expected[name])), name


def test_a_side_input_is_asked_once_for_each_window_of_a_batch() -> None:
    """By hand: two windows, one of which comes back."""
    asked: list[Any] = []

    class Side:
        def is_globally_windowed(self) -> bool:
            return False

        def __getitem__(self, at: Any) -> Any:
            asked.append(at)
            return len(asked)

    looks = beam.Map(lambda x, view: (x, view)).fn
    step = step_of(looks, (ArgumentPlaceholder(),), {}, None, [Side()])
    assert step is not None
    assert step.begin is not None
    first, second = (SPANS[0],), (SPANS[1],)
    meta = Columns([1, 2, 3, 4], [first, second, second, first], [PANES] * 4)
    values, _ = step.begin(list("abcd"), meta)
    assert asked == []  # what a view raises is raised where an element needs it
    assert [step.function(v) for v in values] == [("a", 1), ("b", 2), ("c", 2), ("d", 1)]
    assert asked == SPANS


def test_the_step_of_a_view_that_cannot_be_given_is_named() -> None:
    def build(p: beam.Pipeline) -> None:
        one = beam.pvalue.AsSingleton(p | "two" >> beam.Create([1, 2]))
        _ = p | beam.Create([1]) | "looks" >> beam.Map(lambda x, y: x + y, one)

    with pytest.raises(Exception, match="while running 'looks'"):
        on_ours(build)


def test_functions_that_ask_are_steps_of_batched_chains() -> None:
    """Else nothing here would tell our calls from Beam's."""
    for ask in (
        beam.Map(lambda x, w=WINDOW: (x, w)), beam.Filter(lambda _, t=TIME: t),
        beam.FlatMap(lambda x, p=PANE: [(x, p)]), beam.ParDo(AsksForAll()),
        beam.MapTuple(lambda a, b, w=WINDOW: (a, b, w)),
    ):
        step = step_of(ask.fn, ask.args, ask.kwargs)
        assert step is not None
        assert step.begin is not None
    assert step_of(beam.Map(lambda x: x).fn, (), {}).begin is None  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "transform",
    [
        beam.Map(lambda x, k=beam.DoFn.KeyParam: (x, k)),
        beam.Map(lambda x, v=beam.DoFn.WindowedValueParam: (x, v)),
        beam.Map(lambda x, v=beam.DoFn.BundleFinalizerParam: (x, v)),
        beam.FlatMap(lambda w=WINDOW, x=beam.DoFn.ElementParam: [(x, w)]),
        beam.Map(lambda x, w: (x, w), WINDOW),
    ],
    ids=["key", "whole value", "finaliser", "element elsewhere", "window as an argument"],
)
def test_what_asks_for_more_is_left_to_beam(transform: Any) -> None:
    assert step_of(transform.fn, transform.args, transform.kwargs) is None


PANES = PaneInfo(False, False, PaneInfoTiming.LATE, 3, 2)
SPANS = [IntervalWindow(0, 10), IntervalWindow(5, 15)]


def test_an_element_of_several_windows_is_given_window_by_window() -> None:
    """By hand: the pane is then unknown, the order number goes with each of them."""
    step = step_of(beam.Map(lambda x, w=WINDOW: (x, w)).fn, (), {})
    assert step is not None
    assert step.begin is not None
    meta = Columns([1, 2, 3], [tuple(SPANS), (SPANS[0],), ()], [PANES] * 3, [7, 8, 9])
    values, found = step.begin(["a", "b", "c"], meta)
    assert values == ["a", "a", "b"]
    assert found == Columns(
        [1, 1, 2], [(SPANS[0],), (SPANS[1],), (SPANS[0],)],
        [PANE_INFO_UNKNOWN, PANE_INFO_UNKNOWN, PANES], [7, 7, 8],
    )
    assert [step.function(v) for v in values] == [("a", SPANS[0]), ("a", SPANS[1]), ("b", SPANS[0])]


def test_who_does_not_look_at_the_window_gets_an_element_once() -> None:
    step = step_of(beam.Map(lambda x, t=TIME: (x, t)).fn, (), {})
    assert step is not None
    assert step.begin is not None
    meta = windowed_value.create(None, 5, tuple(SPANS), PANES)
    assert step.begin(["a", "b"], meta) == (["a", "b"], meta)
    assert [step.function(v) for v in "ab"] == [(v, Timestamp(micros=5)) for v in "ab"]


def test_a_batch_that_shares_its_window_is_not_taken_apart() -> None:
    step = step_of(beam.Map(lambda x, w=WINDOW: (x, w)).fn, (), {})
    assert step is not None
    assert step.begin is not None
    assert step.results is Results.ONE
    values, meta = ["a", "b"], windowed_value.create(None, 5, (GlobalWindow(),), PANES)
    found = step.begin(values, meta)
    assert found[0] is values
    assert found[1] is meta


@given(st.integers(-(2**62), 2**62))
def test_a_moment_is_what_beams_constructor_makes(micros: int) -> None:
    made, known = moment_of(micros), Timestamp(micros=micros)
    assert type(made) is Timestamp
    assert vars(made) == vars(known)
    assert (made, repr(made), hash(made), made.micros) == (known, repr(known), hash(known), micros)


def test_the_step_of_a_failing_function_is_named() -> None:
    def build(p: beam.Pipeline) -> None:
        _ = p | beam.Create([1]) | "divides" >> beam.Map(lambda x, t=TIME: x // 0 + t.micros)

    with pytest.raises(Exception, match="while running 'divides'"):
        on_ours(build)


def test_a_stage_holds_such_a_step_as_simple(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    before = SimpleDo.__init__

    def noted(self: Any, *args: Any, **kwargs: Any) -> None:
        before(self, *args, **kwargs)
        made.append(self)

    monkeypatch.setattr(SimpleDo, "__init__", noted)

    def build(p: beam.Pipeline) -> None:
        one = beam.pvalue.AsSingleton(p | "one" >> beam.Create([1]))
        asked = p | beam.Create([1]) | "asks" >> beam.Map(lambda x, w=WINDOW: (x, w))
        _ = asked | "looks" >> beam.Map(lambda x, y: (x, y), one)

    on_ours(build)
    for name in ("asks", "looks"):
        assert any(name in op.name_context.logging_name() for op in made)
