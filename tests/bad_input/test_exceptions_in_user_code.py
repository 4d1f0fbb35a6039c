"""An exception in user code arrives as it would from Beam's local runner, wherever it is raised."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
import pytest
from apache_beam import coders
from apache_beam.transforms import window
from apache_beam.transforms.userstate import (
    BagStateSpec,
    CombiningValueStateSpec,
    TimerSpec,
    on_timer,
)

from tests.bad_input.harness import (
    Build,
    assert_session_still_works,
    failure_at,
    failure_on_beam,
    failure_on_spark,
    shown,
    spark_pipeline,
)
from tests.places import SLOW, Place

pytestmark = [pytest.mark.timeout(60, func_only=True)]


class Fault(Exception):
    """What the user's code below raises."""


def trip_over_the_stone(place: str) -> None:
    message = f"a stone in {place}"
    raise Fault(message)


class Stony(beam.DoFn):  # type: ignore[misc]
    """Fails in one method of its life."""

    def __init__(self, place: str) -> None:
        self._place = place

    def _pass(self, place: str) -> None:
        if place == self._place:
            trip_over_the_stone(place)

    def setup(self) -> None:
        self._pass("setup")

    def start_bundle(self) -> None:
        self._pass("start_bundle")

    def process(self, element: int) -> Iterator[int]:
        self._pass("process")
        yield element
        self._pass("process, after a yield")

    def finish_bundle(self) -> None:
        self._pass("finish_bundle")

    def teardown(self) -> None:
        self._pass("teardown")


class StonyCombine(beam.CombineFn):  # type: ignore[misc]
    """A sum that fails in one of its methods."""

    def __init__(self, place: str) -> None:
        self._place = place

    def _pass(self, place: str) -> None:
        if place == self._place:
            trip_over_the_stone(place)

    def setup(self) -> None:
        self._pass("combine setup")

    def create_accumulator(self) -> int:
        self._pass("create_accumulator")
        return 0

    def add_input(self, total: int, element: int) -> int:
        self._pass("add_input")
        return total + element

    def merge_accumulators(self, totals: Iterable[int]) -> int:
        self._pass("merge_accumulators")
        return sum(totals)

    def compact(self, total: int) -> int:
        self._pass("compact")
        return total

    def extract_output(self, total: int) -> int:
        self._pass("extract_output")
        return total


ALARM = TimerSpec("alarm", beam.TimeDomain.WATERMARK)
TOTAL = CombiningValueStateSpec("total", coders.VarIntCoder(), StonyCombine("extract_output"))
ALARM_PARAM = beam.DoFn.TimerParam(ALARM)
TOTAL_PARAM = beam.DoFn.StateParam(TOTAL)


class StonyTimer(beam.DoFn):  # type: ignore[misc]
    def process(self, element: Any, alarm: Any = ALARM_PARAM) -> None:
        del element
        alarm.set(5)

    @on_timer(ALARM)  # type: ignore[untyped-decorator]
    def ring(self) -> None:
        trip_over_the_stone("timer")


class StonyState(beam.DoFn):  # type: ignore[misc]
    def process(self, element: Any, total: Any = TOTAL_PARAM) -> None:
        total.add(element[1])
        total.read()


class StonyEncoding(coders.Coder):  # type: ignore[misc]
    def encode(self, value: Any) -> bytes:
        del value
        trip_over_the_stone("encode")
        return b""

    def decode(self, encoded: bytes) -> Any:
        return encoded

    def is_deterministic(self) -> bool:
        return True


class StonyDecoding(StonyEncoding):
    def encode(self, value: Any) -> bytes:
        del value
        return b"x"

    def decode(self, encoded: bytes) -> Any:
        del encoded
        trip_over_the_stone("decode")


class Unwritable:
    """Its coder cannot encode."""


class Unreadable:
    """Its coder cannot decode."""


coders.registry.register_coder(Unwritable, StonyEncoding)
coders.registry.register_coder(Unreadable, StonyDecoding)

CELL = BagStateSpec("cell", StonyEncoding())
CELL_PARAM = beam.DoFn.StateParam(CELL)


class StonyCell(beam.DoFn):  # type: ignore[misc]
    def process(self, element: Any, cell: Any = CELL_PARAM) -> None:
        cell.add(element)


class StonyAssign(window.NonMergingWindowFn):  # type: ignore[misc]
    def assign(self, context: Any) -> list[Any]:
        del context
        trip_over_the_stone("assign")
        return []

    def get_window_coder(self) -> coders.Coder:
        return coders.coders.IntervalWindowCoder()


class StonyMerge(window.WindowFn):  # type: ignore[misc]
    def assign(self, context: Any) -> list[Any]:
        del context
        return [window.IntervalWindow(0, 10)]

    def merge(self, context: Any) -> None:
        del context
        trip_over_the_stone("merge")

    def get_window_coder(self) -> coders.Coder:
        return coders.coders.IntervalWindowCoder()


def par_do(place: str) -> Build:
    return lambda p: p | beam.Create([1, 2]) | "Group/Step" >> beam.ParDo(Stony(place))


def keyed(transform: Any) -> Build:
    return lambda p: p | beam.Create([("a", 1), ("b", 2)]) | "Group/Step" >> transform


def combine(place: str) -> Build:
    return keyed(beam.CombinePerKey(StonyCombine(place)))


def passing(kind: type) -> Build:
    """A pipeline that sends elements of a class over an exchange."""
    return lambda p: (
        p
        | beam.Create([1, 2])
        | "Group/Step" >> beam.Map(lambda _: kind()).with_output_types(kind)
        | beam.Reshuffle()
        | "Reader" >> beam.Map(lambda _: None)
    )


#: Where Beam itself names the step, so do we, in the same words.
NAMED: dict[str, Build] = {
    "setup": par_do("setup"),
    "start_bundle": par_do("start_bundle"),
    "process": par_do("process"),
    "process, after a yield": par_do("process, after a yield"),
    "finish_bundle": par_do("finish_bundle"),
    "timer": keyed(beam.ParDo(StonyTimer())),
    "extract_output": keyed(beam.ParDo(StonyState())),  # a read of combining state
    "assign": lambda p: (
        p | beam.Create([("a", 1)]) | "Group/Step" >> beam.WindowInto(StonyAssign())
        | beam.GroupByKey()
    ),
}  # fmt: skip

#: Where Beam lets the exception pass without a step, or names one of its own making.
UNNAMED: dict[str, Build] = {
    "combine setup": combine("combine setup"),
    "create_accumulator": combine("create_accumulator"),
    "add_input": combine("add_input"),
    "merge_accumulators": combine("merge_accumulators"),
    "compact": combine("compact"),
    "extract_output": combine("extract_output"),
    "encode": passing(Unwritable),
    "encode, to a state cell": keyed(beam.ParDo(StonyCell())),
    "decode": passing(Unreadable),
    "merge": lambda p: (
        p | beam.Create([("a", 1)]) | beam.WindowInto(StonyMerge())
        | "Group/Step" >> beam.GroupByKey()
    ),
}  # fmt: skip


def everywhere(places: Iterable[str], *on_spark: str) -> list[Any]:
    """Give each place of a fault in one process, and some on Spark; HEADRACE_SLOW=1: all."""
    names = list(places)
    assert set(on_spark) <= set(names)
    return [
        *(pytest.param(name, Place.PROCESS, id=f"{name}-process") for name in names),
        *(
            pytest.param(name, Place.SPARK, marks=pytest.mark.spark, id=f"{name}-spark")
            for name in (names if SLOW else on_spark)
        ),
    ]


def check_arrival(failure: BaseException, place: str) -> None:
    assert type(failure) is Fault
    assert f"a stone in {place}" in str(failure)
    assert "in trip_over_the_stone" in shown(failure)
    # The worker's traceback is shown once; a wall of repeated text hides it.
    assert shown(failure).count("--- traceback on the worker ---") == 1


@pytest.mark.parametrize(("place", "where"), everywhere(NAMED, "setup", "process", "timer"))
def test_an_exception_arrives_with_its_type_its_step_and_its_traceback(
    place: str, where: Place
) -> None:
    failure = failure_at(where, NAMED[place])
    check_arrival(failure, place)
    assert str(failure) == f"a stone in {place} [while running 'Group/Step']"
    local = failure_on_beam(NAMED[place])
    assert (type(failure), str(failure)) == (type(local), str(local))
    if where is Place.SPARK:
        assert_session_still_works()


@pytest.mark.parametrize(
    ("place", "where"), everywhere(UNNAMED, "merge_accumulators", "encode", "decode")
)
def test_an_exception_outside_a_step_arrives_with_its_type_and_its_traceback(
    place: str, where: Place
) -> None:
    failure = failure_at(where, UNNAMED[place])
    check_arrival(failure, place.partition(",")[0])
    if where is Place.SPARK:
        assert_session_still_works()


@pytest.mark.parametrize(
    ("place", "where"),
    everywhere(["combine setup", "merge_accumulators", "encode", "merge"], "encode"),
)
def test_an_exception_outside_a_step_names_the_stage(place: str, where: Place) -> None:
    assert "Group/Step" in shown(failure_at(where, UNNAMED[place]))


@pytest.mark.spark
def test_a_failing_teardown_is_logged_and_spoils_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Beam's local runner goes on too: by then the output is whole."""
    with spark_pipeline() as p:
        par_do("teardown")(p)
    assert "teardown failed in stage" in caplog.text
    assert "in trip_over_the_stone" in caplog.text
    assert_session_still_works()


class StonyTwice(Stony):
    def teardown(self) -> None:
        message = "a second stone"
        raise RuntimeError(message)


@pytest.mark.spark
def test_a_failing_teardown_does_not_hide_the_first_failure() -> None:
    failure = failure_on_spark(
        lambda p: p | beam.Create([1]) | "Step" >> beam.ParDo(StonyTwice("process"))
    )
    check_arrival(failure, "process")
