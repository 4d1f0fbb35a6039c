"""DoFns that only fold come to the same fields on columns as element by element."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.metrics import Metrics, MetricsFilter
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.window import FixedWindows, GlobalWindows, TimestampedValue
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.compiler.lower.one_step import lower
from headrace.errors import ColumnsDifferError
from headrace.plan.lowered_steps import Folding
from headrace.plan.shapes import INT, Shape, TupleShape, nullable
from headrace.testing import LocalRunner
from headrace.worker.batched import fold_step
from headrace.worker.batched.fold_step import FoldStep
from headrace.worker.batched.step_nodes import step_node
from headrace.worker.batched.steps import step_of
from headrace.worker.columns.values import ColumnValues, of_objects
from tests.worker.lowering import on_columns

PAIR = TupleShape((INT, INT))


class Keeper:
    """Answers questions about numbers."""

    def __init__(self, least: int) -> None:
        self._least = least

    def is_small(self, number: int) -> bool:
        low, high = self._least, self._least + 10
        return low <= number < high


class Folds(beam.DoFn):  # type: ignore[misc]
    """All kinds of folds."""

    def __init__(self) -> None:
        self.count = self.total = self.wrong = self.far = self.even = self.small = 0
        self.least, self.most, self.last = 1 << 70, -5, 0
        self._keeper = Keeper(3)

    def process(self, x: Any) -> None:
        a, b = x
        self.count += 1
        self.total = self.total + a
        self.wrong += b == -1
        self.far -= a
        self.far += 2 * b
        if a % 2 == 0:
            self.even += 1
            self.total += b
        elif b:
            self.even -= 1
        self.least = min(self.least, a)
        self.most = max(b, self.most)
        if a > self.last:
            self.last = a
        self.note(*x)

    def note(self, a: int, b: int) -> None:
        if b < 0:
            return
        if self._keeper.is_small(a):
            self.small += 1


class Divides(beam.DoFn):  # type: ignore[misc]
    def __init__(self) -> None:
        self.total = self.seen = 0

    def process(self, x: Any) -> None:
        self.seen += 1
        self.total += x[0] // x[1]


def folding_of(dofn: Any, shape: Shape = PAIR) -> Folding:
    made = lower(dofn, shape)
    assert isinstance(made, Folding), made
    return made


def fold(dofn: Any, elements: list[Any], shape: Shape = PAIR, *, verified: bool = False) -> int:
    """Fold elements as a batch of columns; give how many calls of the function that took."""
    calls = [0]
    process = type(dofn).process

    def counted(x: Any) -> Any:
        calls[0] += 1
        return process(dofn, x)

    op, edge = SimpleNamespace(scoped_process_state=nullcontext()), SimpleNamespace(
        frozen_type=True, takes_columns=False, results=None
    )
    folding = folding_of(dofn, shape)
    dofn.process = counted
    step = step_of(dofn, (), {})
    assert step is not None
    rows = step_node(step, op, "step", edge)  # type: ignore[arg-type]
    node = FoldStep(folding, dofn, rows, op, "step", verified=verified)
    made = of_objects(elements, shape)
    assert made is not None
    try:
        node.columns(
            ColumnValues(shape, made.leaves, len(elements)), GlobalWindows.windowed_value(None)
        )
    finally:
        del dofn.process
    return calls[0]


def fields(dofn: Any) -> dict[str, Any]:
    """The numbers of a DoFn, with their types."""
    found = {n: v for n, v in vars(dofn).items() if not n.startswith("_")}
    return {n: (type(v), v) for n, v in found.items()}


LONG = st.integers(-(2**63), 2**63 - 1) | st.integers(-20, 20)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.lists(st.tuples(LONG, LONG), min_size=1, max_size=20), st.booleans())
def test_fields_come_to_what_they_come_to_one_by_one(elements: Any, verified: bool) -> None:
    one, other = Folds(), Folds()
    for _ in range(2):
        for element in elements:
            one.process(element)
        fold(other, elements, verified=verified)
    assert fields(one) == fields(other)


def test_sums_grow_beyond_64_bits_without_a_call() -> None:
    dofn = Folds()
    assert fold(dofn, [(2**62 + 1, 1)] * 9) == 0
    assert dofn.total == 9 * (2**62 + 1) and dofn.last == 2**62 + 1


def test_the_fields_and_what_they_add_are_told() -> None:
    assert str(folding_of(Divides())) == "seen: sum of 1, total: sum of (x[0] // x[1])"


def test_who_fails_leaves_the_fields_as_they_are_one_by_one() -> None:
    one, other = Divides(), Divides()
    elements = [(6, 2), (6, 3), (1, 0), (5, 5)]
    with pytest.raises(ZeroDivisionError):
        for element in elements:
            one.process(element)
    with pytest.raises(ZeroDivisionError):
        fold(other, elements)
    assert fields(one) == fields(other) == {"total": (int, 5), "seen": (int, 3)}


@pytest.mark.parametrize("begun", [0.5, None, True])
def test_a_field_that_is_no_whole_number_is_left_to_the_function(begun: Any) -> None:
    one, other = Divides(), Divides()
    one.total = other.total = begun
    elements = [(6, 2), (6, 3)]
    if begun is None:
        with pytest.raises(TypeError):
            fold(other, elements)
        return
    for element in elements:
        one.process(element)
    assert fold(other, elements) == 2
    assert fields(one) == fields(other)


def test_none_among_what_is_added_is_left_to_the_function() -> None:
    class Adds(beam.DoFn):  # type: ignore[misc]
        def __init__(self) -> None:
            self.total = 0

        def process(self, x: Any) -> None:
            self.total += x

    dofn = Adds()
    fold(dofn, [1, 2], nullable(INT))
    with pytest.raises(TypeError):
        fold(dofn, [3, None, 4], nullable(INT))
    assert dofn.total == 6


# What is no fold ---------------------------------------------------------------------------------


class LooksAtItself(Folds):
    def process(self, x: Any) -> None:
        self.count += 1
        self.total += x[0] * self.count


class Doubles(Folds):
    def process(self, x: Any) -> None:
        self.total = 2 * self.total + x[0]


class LooksInHelper(Folds):
    def process(self, x: Any) -> None:
        self.count += 1
        self.total += self.weight()

    def weight(self) -> int:
        return self.count


class Remembers(Folds):
    def process(self, x: Any) -> None:
        self.last = x


class Prints(Folds):
    def process(self, x: Any) -> None:
        self.count += 1
        print(x)


class Changes(Folds):
    """What it adds is another number in each bundle."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = 1

    def start_bundle(self) -> None:
        self.weight += 1

    def process(self, x: Any) -> None:
        self.total += self.weight


class ChangesUnseen(Changes):
    def start_bundle(self) -> None:
        setattr(self, "wei" + "ght", 5)


class HandsOut(Changes):
    def start_bundle(self) -> None:
        helper(self)


def helper(dofn: Any) -> None:
    dofn.weight = 3


class ChangesWhatItHolds(Folds):
    def finish_bundle(self) -> None:
        self._keeper._least = 8

    def process(self, x: Any) -> None:
        if self._keeper.is_small(x[0]):
            self.small += 1


class Gives(Folds):
    def process(self, x: Any) -> Any:
        self.count += 1
        return [x]


class Guarded(Folds):
    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)


@pytest.mark.parametrize(
    "dofn",
    [
        LooksAtItself, Doubles, LooksInHelper, Remembers, Prints, Changes, ChangesUnseen, HandsOut,
        ChangesWhatItHolds, Gives, Guarded,
    ],
)  # fmt: skip
def test_what_is_no_fold_stays_with_objects(dofn: Any) -> None:
    assert not isinstance(lower(dofn(), PAIR), Folding)


# Whole pipelines ---------------------------------------------------------------------------------


class Base(beam.DoFn):  # type: ignore[misc]
    def setup(self) -> None:
        self.bundles = 0

    def start_bundle(self) -> None:
        self.count = self.total = 0

    def finish_bundle(self) -> None:
        for name in ("count", "total"):
            Metrics.counter("folds", name).inc(getattr(self, name))


class Counts(Base):
    def process(self, x: int, window: Any = beam.DoFn.WindowParam) -> None:
        self.count += 1
        self.total += x * (window.end.micros // 1_000_000)


def run(*flags: str) -> tuple[dict[str, int], dict[str, Any]]:
    pipeline = beam.Pipeline(LocalRunner(), PipelineOptions(["--shards=2", *flags]))
    _ = (
        pipeline
        | beam.Create([(0, 400), (400, 1_000)], reshuffle=False)
        | beam.Reshuffle()
        | beam.FlatMap(lambda x: (TimestampedValue(i, i) for i in range(*x)))
        | beam.WindowInto(FixedWindows(60))
        | beam.ParDo(Counts())
    )
    result = pipeline.run()
    result.wait_until_finish()
    found = result.metrics().query(MetricsFilter().with_namespace("folds"))["counters"]
    counts = {
        i.labels["PCOLLECTION"]: i.payload
        for i in result.monitoring_infos()
        if i.urn == "beam:metric:element_count:v1"
    }
    return {c.key.metric.name: c.committed for c in found}, counts


@on_columns
def test_a_tally_of_windows_is_the_same_in_every_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    folded: list[int] = []
    total = fold_step.total

    def counted(data: Any) -> int:
        folded.append(len(data))
        return total(data)

    monkeypatch.setattr(fold_step, "total", counted)
    found = run()
    assert found[0] == {"count": 1_000, "total": sum(i * (i // 60 * 60 + 60) for i in range(1_000))}
    assert sum(folded) == 2 * 1_000
    assert found == run("--columns=off") == run("--verify_columns")


def test_a_wrong_fold_is_found_by_verifying(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fold_step, "total", lambda data: len(data) + 1)
    with pytest.raises(ColumnsDifferError, match="field count"):
        run("--verify_columns")
