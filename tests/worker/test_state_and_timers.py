"""State cells and timers of real stateful DoFns behave as on Beam's local runner."""

# ruff: noqa: B008 (Beam is told of state and timers by calls in default arguments)

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import pytest
from apache_beam import coders
from apache_beam.transforms import userstate, window
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.window import FixedWindows, SlidingWindows, TimestampedValue
from apache_beam.utils.timestamp import Timestamp

from headrace.worker.batched.route import Rebatcher
from tests.worker.harness import (
    collect,
    gathered,
    gathered_by_beam,
    in_millis,
    in_order,
    on_beam,
    on_headrace,
)

BOTH = (gathered, gathered_by_beam)
INT = coders.VarIntCoder()
PAIRS = [(key, value) for value in (3, 1, 2, 3) for key in ("a", "b", "c")]


class BagDoFn(beam.DoFn):  # type: ignore[misc]
    """Adds, reads back, and clears at four."""

    CELL = userstate.BagStateSpec("bag", INT)

    def process(self, element: Any, cell: Any = beam.DoFn.StateParam(CELL)) -> Iterator[Any]:
        before = sorted(cell.read())
        cell.add(element[1])
        yield element[0], len(before), sum(before), sum(cell.read())
        if len(before) == 3:
            cell.clear()
            cell.add(100)
            yield element[0], sorted(cell.read())


class SetDoFn(beam.DoFn):  # type: ignore[misc]
    """Keeps each value once."""

    CELL = userstate.SetStateSpec("set", INT)

    def process(self, element: Any, cell: Any = beam.DoFn.StateParam(CELL)) -> Iterator[Any]:
        known = element[1] in set(cell.read())
        cell.add(element[1])
        cell.add(element[1])
        yield element[0], known, len(list(cell.read()))


class CombiningDoFn(beam.DoFn):  # type: ignore[misc]
    """Sums in state."""

    CELL = userstate.CombiningValueStateSpec("sum", combine_fn=sum)

    def process(self, element: Any, cell: Any = beam.DoFn.StateParam(CELL)) -> Iterator[Any]:
        cell.add(element[1])
        cell.add(1)
        yield element[0], cell.read() > 0
        if cell.read() > 11:
            yield element[0], cell.read()
            cell.clear()
            yield element[0], cell.read()


class WriteDoFn(beam.DoFn):  # type: ignore[misc]
    """Counts in a cell that holds one value."""

    CELL = userstate.ReadModifyWriteStateSpec("one", INT)

    def process(self, element: Any, cell: Any = beam.DoFn.StateParam(CELL)) -> Iterator[Any]:
        count = cell.read() or 0
        cell.write(count + 1)
        yield element[0], count, cell.read()
        if count == 2:
            cell.clear()
            yield element[0], cell.read()


class OrderedDoFn(beam.DoFn):  # type: ignore[misc]
    """Reads and clears ranges of an ordered list."""

    CELL = userstate.OrderedListStateSpec("list", INT)

    def process(self, element: Any, cell: Any = beam.DoFn.StateParam(CELL)) -> Iterator[Any]:
        for second in (30, 10, 20):
            cell.add((Timestamp(second), second + element[1]))
        held = [int(time) for time, _ in cell.read()]  # Beam leaves open who is first of equals
        yield element[0], held == sorted(held), len(held)
        near = cell.read_range(Timestamp(10), Timestamp(30))
        yield element[0], sorted({int(time) for time, _ in near})
        cell.clear_range(Timestamp(15), Timestamp(25))
        yield element[0], sorted({int(time) for time, _ in cell.read()})


@pytest.mark.parametrize(
    "fn", [BagDoFn(), SetDoFn(), CombiningDoFn(), WriteDoFn(), OrderedDoFn()],
    ids=lambda fn: type(fn).__name__,
)  # fmt: skip
@pytest.mark.parametrize("bundle", [0, 1], ids=["one bundle", "bundles of one"])
def test_a_cell_holds_what_it_holds_on_beam(fn: Any, bundle: int) -> None:
    def build(p: beam.Pipeline) -> None:
        # One element per key and bundle arrives in the same order on both runners.
        p | beam.Create(PAIRS, reshuffle=False) | beam.ParDo(fn) | collect()

    ours = gathered(build, f"--max_bundle_elements={bundle}")
    assert ours == gathered_by_beam(build)
    assert len(ours) >= len(PAIRS)


def test_cells_of_two_windows_and_of_two_steps_are_apart() -> None:
    def build(p: beam.Pipeline) -> None:
        made = p | beam.Create([("k", 1), ("k", 2), ("k", 11)])
        stamped = made | beam.Map(lambda e: window.TimestampedValue(e, e[1]))
        windowed = stamped | beam.WindowInto(window.FixedWindows(10))
        windowed | "One" >> beam.ParDo(WriteDoFn()) | collect("one")
        windowed | "Two" >> beam.ParDo(WriteDoFn()) | collect("two")

    found = on_headrace(build)[0]
    for label in ("one", "two"):
        assert sorted(found[label]) == [("k", 0, 1), ("k", 0, 1), ("k", 1, 2)]


class Keeping(beam.DoFn):  # type: ignore[misc]
    """Writes a list to its cell and adds to the list afterwards."""

    CELL = userstate.BagStateSpec("lists", coders.FastPrimitivesCoder())

    def process(self, element: Any, cell: Any = beam.DoFn.StateParam(CELL)) -> list[Any]:
        before = [list(held) for held in cell.read()]
        held = [element[1]]
        cell.add(held)
        return [before]

    def finish_bundle(self) -> None:
        """Nothing: the bundle's end is where Beam hands the cell's content over."""


def test_what_a_bundle_wrote_to_a_cell_is_read_by_the_next() -> None:
    def build(p: beam.Pipeline) -> None:
        p | beam.Create([("k", 1), ("k", 2)], reshuffle=False) | beam.ParDo(Keeping()) | collect()

    assert gathered(build, "--max_bundle_elements=1", shards=1) in ([[[1]], []], [[[2]], []])


class Alarm(beam.DoFn):  # type: ignore[misc]
    """Sets timers as the element says and reports each as it fires."""

    EVENT = userstate.TimerSpec("event", TimeDomain.WATERMARK)
    OTHER = userstate.TimerSpec("other", TimeDomain.WATERMARK)
    REAL = userstate.TimerSpec("real", TimeDomain.REAL_TIME)
    COUNT = userstate.CombiningValueStateSpec("fired", combine_fn=sum)

    def process(
        self,
        element: Any,
        event: Any = beam.DoFn.TimerParam(EVENT),
        other: Any = beam.DoFn.TimerParam(OTHER),
        real: Any = beam.DoFn.TimerParam(REAL),
    ) -> None:
        for order, *args in element[1]:
            match order:
                case "event":
                    event.set(args[0])
                case "clear":
                    event.clear()
                case "tag":
                    event.set(args[0], dynamic_timer_tag=args[1])
                case "clear tag":
                    event.clear(dynamic_timer_tag=args[0])
                case "other":
                    other.set(args[0])
                case "real":
                    real.set(args[0])

    @userstate.on_timer(EVENT)  # type: ignore[untyped-decorator]
    def on_event(
        self,
        key: Any = beam.DoFn.KeyParam,
        time: Any = beam.DoFn.TimestampParam,
        tag: Any = beam.DoFn.DynamicTimerTagParam,
        count: Any = beam.DoFn.StateParam(COUNT),
    ) -> Iterator[Any]:
        count.add(1)
        yield key, count.read(), "event", int(time), tag

    @userstate.on_timer(OTHER)  # type: ignore[untyped-decorator]
    def on_other(
        self,
        key: Any = beam.DoFn.KeyParam,
        time: Any = beam.DoFn.TimestampParam,
        event: Any = beam.DoFn.TimerParam(EVENT),
        other: Any = beam.DoFn.TimerParam(OTHER),
        count: Any = beam.DoFn.StateParam(COUNT),
    ) -> Iterator[Any]:
        count.add(1)
        yield key, count.read(), "other", int(time), ""
        if count.read() < 4:
            other.set(time + 10)
            event.set(time + 5)

    @userstate.on_timer(REAL)  # type: ignore[untyped-decorator]
    def on_real(
        self,
        key: Any = beam.DoFn.KeyParam,
        count: Any = beam.DoFn.StateParam(COUNT),
    ) -> Iterator[Any]:
        count.add(1)
        yield key, count.read(), "real", 0, ""


ORDERS: dict[str, tuple[list[Any], list[tuple[int, str, int, str]]]] = {
    "one fires at its time": ([("event", 10)], [(1, "event", 10, "")]),
    "a later setting moves it": ([("event", 10), ("event", 20)], [(1, "event", 20, "")]),
    "an earlier setting moves it": ([("event", 20), ("event", 10)], [(1, "event", 10, "")]),
    "moved, it fires in its new place": ([("event", 10), ("tag", 20, "x"), ("event", 30)],
                                         [(1, "event", 20, "x"), (2, "event", 30, "")]),
    "cleared, it does not fire": ([("event", 10), ("clear",)], []),
    "cleared and set again, it fires": ([("event", 9), ("clear",), ("event", 8)],
                                        [(1, "event", 8, "")]),
    "tags are timers of their own": ([("tag", 10, "x"), ("tag", 20, "y"), ("event", 15)],
                                     [(1, "event", 10, "x"), (2, "event", 15, ""),
                                      (3, "event", 20, "y")]),
    "clearing a tag spares the others": ([("tag", 10, "x"), ("tag", 20, "y"), ("clear tag", "x")],
                                         [(1, "event", 20, "y")]),
    "timers set by timers fire too": ([("other", 0)],
                                      [(1, "other", 0, ""), (2, "event", 5, ""),
                                       (3, "other", 10, ""), (4, "event", 15, ""),
                                       (5, "other", 20, "")]),
}  # fmt: skip


@pytest.mark.parametrize("name", ORDERS)
def test_timers_fire_in_the_order_of_their_times(name: str) -> None:
    orders, expected = ORDERS[name]

    def build(p: beam.Pipeline) -> None:
        p | beam.Create([("k", orders), ("l", orders)]) | beam.ParDo(Alarm()) | collect()

    wanted = [(key, *fired) for key in ("k", "l") for fired in expected]
    assert gathered(build) == wanted


@pytest.mark.parametrize("name", list(ORDERS)[:8])
def test_timers_fire_as_on_beam(name: str) -> None:
    def build(p: beam.Pipeline) -> None:
        p | beam.Create([("k", ORDERS[name][0])]) | beam.ParDo(Alarm()) | collect()

    # Beam's runner fires several timers of one key in the order of their setting, not of time.
    ours, theirs = ([(k, *fired) for k, _, *fired in run(build)] for run in BOTH)
    assert in_order(ours) == in_order(theirs)


def test_processing_time_comes_after_event_time_at_the_end_of_a_bounded_input() -> None:
    def build(p: beam.Pipeline) -> None:
        orders = [("real", 5), ("event", 1_000)]
        p | beam.Create([("k", orders)]) | beam.ParDo(Alarm()) | collect()

    assert gathered(build) == [("k", 1, "event", 1_000, ""), ("k", 2, "real", 0, "")]


class Rings(beam.DoFn):  # type: ignore[misc]
    """Sets a timer for each key; what it puts out it changes afterwards, where that can be done."""

    AT = userstate.TimerSpec("at", TimeDomain.WATERMARK)

    def process(self, element: Any, at: Any = beam.DoFn.TimerParam(AT)) -> None:
        at.set(element[1])

    @userstate.on_timer(AT)  # type: ignore[untyped-decorator]
    def ring(
        self, key: Any = beam.DoFn.KeyParam, time: Any = beam.DoFn.TimestampParam
    ) -> Iterator[Any]:
        changing = [key]
        yield changing
        changing.append("changed")
        yield key, int(time)


@pytest.mark.parametrize("streaming", [False, True], ids=["batch", "streaming"])
def test_what_timers_put_out_goes_on_in_batches_and_as_on_beam(
    streaming: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches: list[int] = []
    flush = Rebatcher.flush

    def noted(self: Any) -> None:
        batches.append(len(self._held))
        flush(self)

    def build(p: beam.Pipeline) -> None:
        _ = (
            p
            | beam.Create([0])
            | beam.FlatMap(
                lambda _: [TimestampedValue((f"k{i}", i % 7 + 1), i % 3) for i in range(40)]
            )
            | beam.WindowInto(FixedWindows(20))
            | beam.ParDo(Rings())
            | beam.Map(lambda x, w=beam.DoFn.WindowParam: (repr(x), w.end.micros // 1_000))
            | "anew" >> beam.WindowInto(SlidingWindows(6, 3))
            | "behind" >> beam.Map(lambda x: (x, 1))
            | collect(times=True)
        )

    expected = in_order(in_millis(on_beam(build)[0]["out"]))
    monkeypatch.setattr(Rebatcher, "flush", noted)
    options = ["--streaming"] if streaming else []
    found = on_headrace(build, *options, shards=1)[0]["out"]
    assert in_order(in_millis(found)) == expected
    assert max(batches) > 1


def test_outputs_of_many_timers_are_one_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of those that cannot change, that is; else they go on one by one."""
    batches: list[int] = []
    flush = Rebatcher.flush

    def noted(self: Any) -> None:
        batches.append(len(self._held))
        flush(self)

    monkeypatch.setattr(Rebatcher, "flush", noted)

    def build(p: beam.Pipeline) -> None:
        orders = [(f"k{i}", [("event", i)]) for i in range(1, 101)]
        _ = p | beam.Create(orders) | beam.ParDo(Alarm()) | beam.Map(lambda x: x[0]) | collect()

    assert len(on_headrace(build, shards=1)[0]["out"]) == 100
    assert 100 in batches
