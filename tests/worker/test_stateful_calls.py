"""Stateful DoFns on batches see what Beam's own invoker would show them."""

# ruff: noqa: B008 (Beam is told of state and timers by calls in default arguments)

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import pytest
from apache_beam import coders
from apache_beam.pvalue import TaggedOutput
from apache_beam.runners.worker import bundle_processor
from apache_beam.transforms import userstate, window
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.window import GlobalWindow, TimestampedValue
from apache_beam.utils import windowed_value
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.worker.batched.operations import SimpleDo
from headrace.worker.batched.stateful import StateContext, StatefulCall, is_faithful, stateful_call
from headrace.worker.sideinputs.side_inputs import SideInputs
from headrace.worker.userstate.cells import MemoryCells
from tests.worker.harness import collect, gathered, gathered_by_beam, in_millis, in_order, on_beam
from tests.worker.harness import on_headrace as on_ours

ANY = coders.FastPrimitivesCoder()
TEXT = coders.StrUtf8Coder()
VALUE = userstate.ReadModifyWriteStateSpec("value", ANY)
COUNT = userstate.CombiningValueStateSpec("count", combine_fn=sum)
BAG = userstate.BagStateSpec("bag", ANY)
DUE = userstate.TimerSpec("due", TimeDomain.WATERMARK)
PAIRS = [(f"k{i % 5}", i) for i in range(60)]


# -- one value


def contexts() -> list[Any]:
    return [
        kind(MemoryCells(SideInputs()), "step", TEXT, coders.coders.GlobalWindowCoder())
        for kind in (StateContext, bundle_processor.FnApiUserStateContext)
    ]


values = st.one_of(
    st.none(), st.integers(0, 5), st.lists(st.integers(0, 5), max_size=2),
    st.tuples(st.integers(0, 5), st.text("ab", max_size=2)),
)
moves = st.one_of(
    st.tuples(st.just("write"), values), st.sampled_from([
        ("read", None), ("clear", None), ("change what was read", None),
        ("change what was written", None), ("end", None),
    ]),
)


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["a", "b"]), moves), max_size=30))
def test_a_value_is_kept_as_beam_keeps_it(script: list[tuple[str, tuple[str, Any]]]) -> None:
    """Also what user code does not do on purpose: to change a list that it has read or written."""
    told: list[list[Any]] = []
    for context in contexts():
        seen: list[Any] = []
        told.append(seen)
        written: dict[str, Any] = {}
        for key, (move, value) in script:
            cell = context.get_state(VALUE, key, GlobalWindow())
            match move:
                case "read":
                    seen.append(cell.read())
                case "write":
                    written[key] = list(value) if isinstance(value, list) else value
                    cell.write(written[key])
                case "clear":
                    cell.clear()
                case "change what was read":
                    found = cell.read()
                    if isinstance(found, list):
                        found.append(7)
                case "change what was written":
                    if isinstance(written.get(key), list):
                        written[key].append(8)
                case "end":
                    context.commit()
                    context.reset()
                    written.clear()
            seen.append(repr(cell.read()) if move != "end" else None)
    assert told[0] == told[1]


# -- what process asks for


class Asks(beam.DoFn):  # type: ignore[misc]
    """Asks for everything, in no order of use."""

    def process(
        self,
        element: Any,
        window: Any = beam.DoFn.WindowParam,
        bag: Any = beam.DoFn.StateParam(BAG),
        key: Any = beam.DoFn.KeyParam,
        time: Any = beam.DoFn.TimestampParam,
        value: Any = beam.DoFn.StateParam(VALUE),
        pane: Any = beam.DoFn.PaneInfoParam,
        due: Any = beam.DoFn.TimerParam(DUE),
    ) -> Iterator[Any]:
        bag.add(element[1])
        value.write((value.read() or 0) + 1)
        due.set(window.max_timestamp())
        yield key, value.read(), sorted(bag.read()), time.micros, repr(window), repr(pane)

    @userstate.on_timer(DUE)  # type: ignore[untyped-decorator]
    def at_end(
        self,
        key: Any = beam.DoFn.KeyParam,
        value: Any = beam.DoFn.StateParam(VALUE),
        bag: Any = beam.DoFn.StateParam(BAG),
    ) -> Iterator[Any]:
        yield "end", key, value.read(), len(list(bag.read()))


class Counts(beam.DoFn):  # type: ignore[misc]
    """Numbers the elements of a key."""

    def process(self, element: Any, value: Any = beam.DoFn.StateParam(VALUE)) -> Any:
        value.write((value.read() or 0) + 1)
        return [(repr(element[0]), value.read())]


@pytest.mark.parametrize(
    "windowing",
    [window.GlobalWindows(), window.FixedWindows(10), window.SlidingWindows(10, 5)],
    ids=["global", "fixed", "sliding"],
)
def test_every_argument_is_what_beam_gives(windowing: Any) -> None:
    def build(p: beam.Pipeline) -> None:
        _ = (
            p
            | beam.Create([("k", 1)])
            | beam.FlatMap(lambda _: [TimestampedValue(pair, pair[1]) for pair in PAIRS])
            | beam.WindowInto(windowing)
            | beam.ParDo(Asks())
            | collect(times=True)
        )

    ours, theirs = on_ours(build)[0], on_beam(build)[0]
    assert in_order(in_millis(ours["out"])) == in_order(in_millis(theirs["out"]))
    assert any(row[0][0] == "end" for row in ours["out"])


def test_keys_that_only_python_takes_for_equal_have_state_of_their_own() -> None:
    def build(p: beam.Pipeline) -> None:
        keys = [1, 1.0, True, "1", b"1", (1, 2), (1.0, 2), (True, 2), None, 1, 1.0, True]
        _ = (
            p
            | beam.Create([(key, i) for i, key in enumerate(keys)])
            | beam.ParDo(Counts())
            | collect()
        )

    found = gathered(build, shards=1)
    once = {"'1'", "b'1'", "(1, 2)", "(1.0, 2)", "(True, 2)", "None"}
    assert found == in_order(
        [(key, 1) for key in once] + [(key, n) for key in ("1", "1.0", "True") for n in (1, 2)]
    )


@pytest.mark.parametrize(
    ("key", "faithful"),
    [(1, True), ("a", True), (b"a", True), (("a", 1), True), ((), True), (1.0, False),
     (True, False), (None, False), (("a", 1.0), False), ((("a",), 1), False), ([1], False)],
)
def test_faithful_keys(key: Any, faithful: bool) -> None:
    assert is_faithful(key) is faithful


@pytest.mark.parametrize("odd", [1, (1, 2, 3), None])
def test_an_element_that_is_no_pair_is_refused_as_beam_does(odd: Any) -> None:
    call = stateful_call(Counts(), (), {}, contexts()[0])
    assert call is not None
    call.begin([odd], windowed_value.create(odd, 0, (GlobalWindow(),)))
    with pytest.raises(ValueError, match="must be a KV tuple; instead, got"):
        call(odd)


# -- what can be called so, and what only Beam's invoker can call


class WithDefault(beam.DoFn):  # type: ignore[misc]
    """Has an argument of its own."""

    def process(
        self, element: Any, times: int = 2, value: Any = beam.DoFn.StateParam(VALUE)
    ) -> Any:
        del value
        return [element] * times


class Whole(beam.DoFn):  # type: ignore[misc]
    """Asks for the windowed value."""

    def process(
        self, element: Any, whole: Any = beam.DoFn.WindowedValueParam,
        value: Any = beam.DoFn.StateParam(VALUE),
    ) -> Any:
        del whole, value
        return [element]


@pytest.mark.parametrize(
    ("fn", "is_called"),
    [(Counts(), True), (Asks(), True), (WithDefault(), False), (Whole(), False)],
    ids=lambda x: type(x).__name__,
)
def test_which_dofns_are_called_directly(fn: Any, is_called: bool) -> None:
    context = contexts()[0]
    assert isinstance(stateful_call(fn, (), {}, context), StatefulCall) is is_called
    assert stateful_call(fn, ("side",), {}, context) is None


# -- several outputs


class Sorts(beam.DoFn):  # type: ignore[misc]
    """Gives to three outputs, one of which nobody reads, in all forms."""

    def process(self, element: Any, value: Any = beam.DoFn.StateParam(VALUE)) -> Iterator[Any]:
        key, number = element
        count = (value.read() or 0) + 1
        value.write(count)
        yield key, count
        if number % 2:
            yield TaggedOutput("odd", (key, number))
        if number % 3 == 0:
            yield TaggedOutput("third", TimestampedValue([key, number], number))
        if number % 5 == 0:
            yield TaggedOutput("unread", number)
            yield TaggedOutput("None", (key, -count))


def sort_out(element: Any) -> Iterator[Any]:
    key, number = element
    yield TaggedOutput("odd" if number % 2 else "third", element)
    if number % 7 == 0:
        yield key, number


@pytest.mark.parametrize("windowing", [window.GlobalWindows(), window.FixedWindows(10)])
@pytest.mark.parametrize("stateful", [True, False])
def test_several_outputs_get_what_is_theirs(windowing: Any, stateful: bool) -> None:
    def build(p: beam.Pipeline) -> None:
        step = beam.ParDo(Sorts()) if stateful else beam.FlatMap(sort_out)
        made = (
            p
            | beam.Create([("k", 1)])
            | beam.FlatMap(lambda _: [TimestampedValue(pair, pair[1]) for pair in PAIRS])
            | beam.WindowInto(windowing)
            | step.with_outputs("odd", "third", "unread", main="main")
        )
        _ = made.main | collect("main", times=True)
        _ = made.odd | "Change" >> beam.Map(lambda pair: (pair[1], pair[0])) | collect("odd")
        _ = made.third | "Text" >> beam.Map(repr) | collect("third", times=True)

    ours, theirs = on_ours(build)[0], on_beam(build)[0]
    assert in_order(ours["odd"]) == in_order(theirs["odd"])
    for label in ("main", "third"):
        assert in_order(in_millis(ours[label])) == in_order(in_millis(theirs[label])), label
    assert all(ours.values())


def test_both_kinds_of_step_run_on_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the tests above would hold Beam's invoker against itself."""
    one_by_one: list[str] = []
    beams = SimpleDo.process

    def process(op: Any, element: Any) -> Any:
        one_by_one.append(op.name_context.step_name)
        return beams(op, element)

    monkeypatch.setattr(SimpleDo, "process", process)

    def build(p: beam.Pipeline) -> None:
        made = p | beam.Create(PAIRS) | beam.ParDo(Sorts()).with_outputs("odd", main="main")
        _ = made.odd | "Odd" >> collect("odd")
        _ = made.main | "Main" >> collect("main")

    assert len(gathered(build, label="main")) > len(PAIRS)
    assert not one_by_one
    assert gathered(build, label="odd") == gathered_by_beam(build, label="odd")
