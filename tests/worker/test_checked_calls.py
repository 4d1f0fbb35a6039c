"""A claim that is false is found by the run that shows it, and true ones disturb nothing."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import pytest
from apache_beam import coders
from apache_beam.metrics import Metrics
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec
from apache_beam.transforms.window import TimestampedValue

import headrace
from headrace.errors import FalseTraitError
from headrace.testing import LocalRunner

PAIRS = [("a", 1), ("b", 2), ("a", 3)]


def run(step: Any, elements: Any = PAIRS, expected: Any = None) -> Any:
    options = PipelineOptions(["--verify_traits", "--shards=2"])
    with beam.Pipeline(runner=LocalRunner(), options=options) as p:
        made = p | beam.Create(elements) | "Step" >> step
        if expected is not None:
            assert_that(made, equal_to(expected))
    return p.result


@headrace.traits(selectivity="exactly_one")
def two(pair: Any) -> Any:
    return [pair, pair]


@headrace.traits(selectivity="at_most_one")
def three(pair: Any) -> Any:
    yield from (pair, pair, pair)


@headrace.traits(selectivity="exactly_one")
def none(pair: Any) -> Any:
    return []


@headrace.traits(forwards_key=True)
def swapped(pair: Any) -> Any:
    return pair[1], pair[0]


@headrace.traits(forwards_key=True)
def tagged(pair: Any) -> Any:
    yield beam.pvalue.TaggedOutput("else", (pair[0] + "x", 1))


@headrace.traits(forwards_key=True)
def stamped(pair: Any) -> Any:
    return TimestampedValue((pair[0].upper(), 1), 5)


@headrace.traits(deterministic=True, state="none")
def rolled(pair: Any) -> Any:
    return pair[0], random.random()


@headrace.traits(state="none")
class Counts(beam.DoFn):  # type: ignore[misc]
    def setup(self) -> None:
        self._seen = 0

    def process(self, element: Any) -> Iterator[Any]:
        self._seen += 1
        yield element


@headrace.traits(state="none")
class Collects(beam.DoFn):  # type: ignore[misc]
    def __init__(self) -> None:
        self._seen: dict[str, list[Any]] = {"seen": []}

    def process(self, element: Any) -> Iterator[Any]:
        self._seen["seen"].append(element)
        yield element


PLANTED = {
    "two outputs for one": (
        beam.FlatMap(two), "exactly one output .declared by its author., and gave 2",
    ),
    "three outputs for at most one": (beam.FlatMap(three), "at most one output .* and gave 3"),
    "no output for one": (beam.FlatMap(none), "exactly one output .* and gave 0"),
    "another key": (beam.Map(swapped), "hand keys on .* and gave a pair with another key"),
    "another key, tagged": (beam.FlatMap(tagged).with_outputs("else"), "hand keys on"),
    "another key, with a time": (beam.Map(stamped), "hand keys on"),
    "a dice": (beam.Map(rolled), "be deterministic .* and gave other outputs"),
    "a count": (beam.ParDo(Counts()), "keep nothing .* and changed its _seen"),
    "a list deep inside": (beam.ParDo(Collects()), "keep nothing .* and changed its _seen"),
}


@pytest.mark.parametrize("case", PLANTED)
def test_a_false_declaration_is_found(case: str) -> None:
    step, said = PLANTED[case]
    with pytest.raises(FalseTraitError, match=f"^Step.*: is taken to .*{said}"):
        run(step)


def test_without_the_option_a_declaration_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEADRACE_VERIFY_TRAITS", raising=False)
    with beam.Pipeline(runner=LocalRunner()) as p:
        made = p | beam.Create([("a", 1)]) | beam.FlatMap(two)
        assert_that(made, equal_to([("a", 1)] * 2))


TOTAL = beam.DoFn.StateParam(ReadModifyWriteStateSpec("total", coders.VarIntCoder()))


class Total(beam.DoFn):  # type: ignore[misc]
    def process(self, element: Any, total: Any = TOTAL) -> Iterator[Any]:
        total.write((total.read() or 0) + element[1])
        yield element[0], total.read()


class WithTime(beam.DoFn):  # type: ignore[misc]
    def process(
        self, at: Any = beam.DoFn.TimestampParam, element: Any = beam.DoFn.ElementParam
    ) -> Iterator[Any]:
        yield element[0], element[1], at.micros >= 0


class Plain:
    """Two that are made alike are not equal."""

    def __init__(self, number: int) -> None:
        self.number = number


class Counted(beam.DoFn):  # type: ignore[misc]
    def process(self, element: Any) -> Iterator[Any]:
        Metrics.counter("tests", "calls").inc()
        print("called")
        yield element


def test_true_claims_change_no_answer() -> None:
    run(beam.ParDo(Total()), expected=[("a", 1), ("b", 2), ("a", 4)])
    run(beam.ParDo(WithTime()), expected=[("a", 1, False), ("b", 2, False), ("a", 3, False)])
    run(beam.MapTuple(lambda k, v: (k, v + 1)), expected=[("a", 2), ("b", 3), ("a", 4)])
    run(beam.Map(lambda pair, more: (pair[0], more), more=5), expected=[("a", 5)] * 2 + [("b", 5)])
    run(beam.Filter(lambda pair: pair[1] > 1), expected=[("b", 2), ("a", 3)])
    run(beam.Map(len), expected=[2, 2, 2])
    numbers = "Number" >> beam.Map(lambda plain: plain.number)
    run(beam.Map(lambda pair: Plain(pair[1])) | numbers, expected=[1, 2, 3])
    run(beam.CombinePerKey(sum), expected=[("a", 4), ("b", 2)])
    run(beam.GroupByKey() | beam.MapTuple(lambda k, v: (k, sorted(v))),
        expected=[("a", [1, 3]), ("b", [2])])


def test_a_second_call_is_heard_of_by_nobody(capsys: pytest.CaptureFixture[str]) -> None:
    result = run(beam.ParDo(Counted()), expected=PAIRS)
    (calls,) = result.metrics().query(beam.metrics.MetricsFilter().with_name("calls"))["counters"]
    assert calls.committed == len(PAIRS)
    assert capsys.readouterr().out.count("called") == len(PAIRS)
