"""Steps over ranges give on columns what Python gives: outputs, order, times, failures."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.window import GlobalWindows, TimestampedValue
from apache_beam.utils.timestamp import Timestamp
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.compiler.lower.one_step import lower
from headrace.plan.lowered_steps import Ranged
from headrace.plan.shapes import INT, TEXT, Shape, TupleShape
from headrace.testing import LocalRunner
from headrace.worker.batched import range_step, ranges
from headrace.worker.batched.batches import Meta
from headrace.worker.batched.column_batches import row_meta
from headrace.worker.batched.range_step import RangeStep
from headrace.worker.batched.step_nodes import step_node
from headrace.worker.batched.steps import step_of
from headrace.worker.columns.values import ColumnValues
from headrace.worker.grouping import column_tables
from tests.worker.lowering import on_columns

TRIPLE = TupleShape((INT, INT, INT))
SCALE = 3


class Edge:
    """Where outputs go: keeps each with its time, and how many came as columns."""

    takes_columns = True
    frozen_type = False

    def __init__(self) -> None:
        self.found: list[tuple[Any, int]] = []
        self.on_columns = 0
        self.batches: list[int] = []

    def columns(self, values: ColumnValues, meta: Meta) -> None:
        self.on_columns += len(values)
        self.batches.append(len(values))
        self.results(values.objects(), row_meta(meta))

    def results(self, values: list[Any], meta: Meta) -> None:
        for place, value in enumerate(values):
            time = meta.timestamp_micros if hasattr(meta, "with_value") else meta.times[place]
            if isinstance(value, TimestampedValue):
                self.found.append((value.value, value.timestamp.micros))
            else:
                self.found.append((value, time))

    def single(self, value: Any, meta: Meta) -> None:
        self.results([value], meta)


def ranged_of(dofn: Any, shape: Shape) -> Ranged:
    made = lower(dofn, shape)
    assert isinstance(made, Ranged), made
    return made


def run(dofn: Any, shape: Shape, elements: list[Any], meta: Meta, *, verified: bool = False) -> (
    tuple[Edge, Exception | None]
):
    edge, op = Edge(), SimpleNamespace(scoped_process_state=nullcontext())
    step = step_of(dofn, (), {})
    assert step is not None
    rows = step_node(step, op, "step", edge)  # type: ignore[arg-type]
    node = RangeStep(
        ranged_of(dofn, shape), step, rows, op, "step", edge,  # type: ignore[arg-type]
        verified=verified,
    )
    try:
        node(elements, meta)
    except Exception as error:  # noqa: BLE001 (what the user's function raises)
        return edge, error
    return edge, None


def by_python(dofn: Any, elements: list[Any]) -> tuple[list[tuple[Any, int]], type | None]:
    """What each element gives, until one fails; a time of 0 is the element's own."""
    found: list[tuple[Any, int]] = []
    try:
        for element in elements:
            for output in dofn.process(element):
                stamped = isinstance(output, TimestampedValue)
                found.append((output.value, output.timestamp.micros) if stamped else (output, 0))
    except Exception as error:  # noqa: BLE001
        return found, type(error)
    return found, None


# Functions: all of a triple of ints -----------------------------------------------------------


class Plain(beam.DoFn):  # type: ignore[misc]
    def process(self, x: Any) -> Any:
        return range(*x)


class Looped(beam.DoFn):  # type: ignore[misc]
    def __init__(self) -> None:
        self._factor = 1 << 40

    def process(self, x: Any) -> Any:
        """Skips some, and has names of its own."""
        first, factor = x[0], self._factor
        for i in range(first, x[1], x[2]):
            far = i * factor
            if i % 3 != 1:
                yield far, first, i == 4


class Failing(beam.DoFn):  # type: ignore[misc]
    def process(self, x: Any) -> Any:
        for i in range(x[0], x[1], x[2]):
            yield 100 // (i - 2), None


class Delegating(beam.DoFn):  # type: ignore[misc]
    def process(self, x: Any) -> Any:
        yield from (i - 1 for i in range(*x))


class Raising(beam.DoFn):  # type: ignore[misc]
    def process(self, x: Any) -> Any:
        for i in range(x[1]):
            if i == 9:
                msg = "nine"
                raise LookupError(msg)
            yield i


#: Of these a range may lie anywhere.
ANYWHERE: list[Any] = [
    Plain(), Looped(), Failing(), Delegating(),
    *[beam.FlatMap(f).fn for f in (
        lambda x: [x[2] // i for i in range(*x)],
        lambda x: (x[2] % i for i in range(*x)),
        lambda x: (float(i) for i in range(*x)),
        lambda x: (TimestampedValue(i, i) for i in range(*x)),
        lambda x: (TimestampedValue((i, x[0]), i / 7) for i in range(*x) if i),
        lambda x: (TimestampedValue(i, i * 10**12) for i in range(*x)),
    )],
]  # fmt: skip
#: These begin at another number than their element says.
NEARBY: list[Any] = [
    Raising(),
    *[beam.FlatMap(f).fn for f in (
        lambda x: range(x[1]),
        lambda x: [i * SCALE for i in range(x[0], x[1]) if i & 1 if i > x[2]],
        lambda x: [(i, x) for i in range(x[0])],
        lambda x: (i**3 * (1 << 58) for i in range(x[1])),
    )],
]  # fmt: skip
FUNCTIONS = [*ANYWHERE, *NEARBY]


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (ranges, range_step):
        monkeypatch.setattr(module, "COLUMN_ROWS", 7)
        monkeypatch.setattr(module, "LEAST_ROWS", 1)


NEAR = st.integers(-20, 40)
ENDS = st.sampled_from([2**63 - 1, 2**63 - 5, -(2**63), 2**62, 0])
TRIPLES = st.tuples(NEAR, NEAR, st.integers(-4, 4))
FAR = st.builds(
    lambda end, size, step: (end - size * step, end, step), ENDS, st.integers(0, 9),
    st.integers(1, 3),
).filter(lambda t: -(2**63) <= t[0] < 2**63)


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("dofn", FUNCTIONS, ids=range(len(FUNCTIONS)))
@settings(max_examples=60, deadline=None, derandomize=True)
@given(data=st.data())
def test_outputs_times_and_failures_are_those_of_python(dofn: Any, data: Any) -> None:
    triples = TRIPLES | FAR if dofn in ANYWHERE else TRIPLES
    elements = data.draw(st.lists(triples, min_size=1, max_size=4))
    wanted, failure = by_python(dofn, elements)
    edge, error = run(dofn, TRIPLE, elements, GlobalWindows.windowed_value(None, Timestamp(0)))
    if failure is None:
        assert error is None
        assert [(v, t) for v, t in edge.found] == wanted
        assert [type(v) for v, _ in edge.found] == [type(v) for v, _ in wanted]
    else:
        assert type(error) is failure
        # Who failed may have been asked in a batch: what he gave before may not have gone on.
        assert edge.found == wanted[: len(edge.found)]


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("dofn", FUNCTIONS, ids=range(len(FUNCTIONS)))
def test_computed_in_both_ways_they_are_the_same(dofn: Any) -> None:
    elements = [(3, 20, 1), (0, 0, 1), (8, 3, -1), (10, 12, 1)]
    run(dofn, TRIPLE, elements, GlobalWindows.windowed_value(None), verified=True)


@pytest.mark.usefixtures("small_chunks")
def test_rows_before_the_one_that_fails_go_on_first() -> None:
    edge, error = run(
        Failing(), TRIPLE, [(3, 6, 1), (-40, 40, 1)], GlobalWindows.windowed_value(None)
    )
    assert isinstance(error, ZeroDivisionError)
    assert [v for v, _ in edge.found] == [(100 // (i - 2), None) for i in [3, 4, 5, *range(-40, 2)]]


@pytest.mark.usefixtures("small_chunks")
def test_a_list_whose_last_item_fails_gives_nothing() -> None:
    dofn = beam.FlatMap(lambda x: [100 // (x[1] - 1 - i) for i in range(*x)]).fn
    edge, error = run(dofn, TRIPLE, [(0, 30, 1)], GlobalWindows.windowed_value(None))
    assert isinstance(error, ZeroDivisionError) and edge.found == []


def test_where_ints_outgrow_64_bits_the_function_goes_on() -> None:
    dofn = beam.FlatMap(lambda x: (i * (1 << 60) for i in range(*x))).fn
    edge, error = run(dofn, TRIPLE, [(-3, 400, 1)], GlobalWindows.windowed_value(None))
    assert error is None
    assert [v for v, _ in edge.found] == [i << 60 for i in range(-3, 400)]
    assert edge.on_columns == 7  # a product of 2**62 or more is not trusted


def test_a_huge_range_is_made_in_parts_and_stops_where_it_is_stopped() -> None:
    class Enough(Exception):
        pass

    class Few(Edge):
        def columns(self, values: ColumnValues, meta: Meta) -> None:
            self.on_columns += len(values)
            if self.on_columns > 300_000:
                raise Enough

    dofn = beam.FlatMap(lambda x: ((i, i + 1) for i in range(*x))).fn
    edge, op = Few(), SimpleNamespace(scoped_process_state=nullcontext())
    step = step_of(dofn, (), {})
    assert step is not None
    node = RangeStep(
        ranged_of(dofn, TRIPLE), step, step_node(step, op, "", edge), op, "", edge  # type: ignore[arg-type]
    )
    tracemalloc.start()
    with pytest.raises(Enough):
        node([(0, 10**18, 1)], GlobalWindows.windowed_value(None))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 16 << 20


def test_outputs_keep_the_time_of_their_element() -> None:
    dofn = beam.FlatMap(lambda x: (i for i in range(x[0]) if i % 2)).fn
    from headrace.worker.batched.batches import GLOBAL, Columns

    pane = GlobalWindows.windowed_value(None).pane_info
    meta = Columns([5, 6, 7], [GLOBAL] * 3, [pane] * 3)
    edge, _ = run(dofn, TRIPLE, [(300, 0, 1), (4, 0, 1), (40_000, 0, 1)], meta)
    assert [t for _, t in edge.found] == [5] * 150 + [6] * 2 + [7] * 20_000
    assert edge.on_columns == len(edge.found)


def test_texts_and_none_beside_the_numbers_are_those_of_the_element() -> None:
    dofn = beam.FlatMap(lambda x: ((x[0], i, x[1]) for i in range(x[1]))).fn
    shape = TupleShape((TEXT, INT))
    edge, _ = run(dofn, shape, [("a", 300), ("b", 2)], GlobalWindows.windowed_value(None))
    assert [v for v, _ in edge.found] == [("a", i, 300) for i in range(300)] + [
        ("b", 0, 2), ("b", 1, 2)
    ]  # fmt: skip


# What is not a range of this kind --------------------------------------------------------------


def breaks(x: Any) -> Iterator[int]:
    for i in range(x[0]):
        if i == 3:
            break
        yield i


def adds_up(x: Any) -> Iterator[int]:
    total = 0
    for i in range(x[0]):
        total += i
        yield total


def yields_twice(x: Any) -> Iterator[int]:
    for i in range(x[0]):
        yield i
        yield i


def ends_with_more(x: Any) -> Iterator[int]:
    for i in range(x[0]):
        yield i + 1
    yield -1


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (breaks, "leaves its loop early"),
        (adds_up, "uses total, which may not be bound"),
        (yields_twice, "yields twice"),
        (ends_with_more, "a for loop"),
        (lambda x: (i for i in range(x[0]) for _ in range(2)), "a generator expression"),
        (lambda x: ((TimestampedValue(i, 0), i) for i in range(x[0])), "TimestampedValue"),
        (lambda x: range(x[0] / 2), "something else than ints"),
    ],
)
def test_other_loops_are_left_to_objects(function: Callable[..., Any], reason: str) -> None:
    made = lower(beam.FlatMap(function).fn, TRIPLE)
    assert not isinstance(made, Ranged) and reason in made.reason  # type: ignore[union-attr]


# Whole pipelines ---------------------------------------------------------------------------------

SEEN: list[Any] = []


class Seen(beam.DoFn):  # type: ignore[misc]
    def process(
        self, x: Any, t: Any = beam.DoFn.TimestampParam, w: Any = beam.DoFn.WindowParam
    ) -> None:
        SEEN.append((x, t.micros, w))


def pipeline(expand: Any, *flags: str) -> tuple[list[Any], dict[str, int]]:
    SEEN.clear()
    made = beam.Pipeline(LocalRunner(), PipelineOptions(["--shards=2", *flags]))
    _ = (
        made
        | beam.Create([(0, 400), (400, 1_000), (7, 7)], reshuffle=False)
        | beam.Reshuffle()
        | "Expand" >> expand
        | "Windows" >> beam.WindowInto(beam.window.FixedWindows(60))
        | "Half" >> beam.Map(lambda i: (i % 2, i))
        | "Seen" >> beam.ParDo(Seen())
    )
    result = made.run()
    result.wait_until_finish()
    infos = {}
    for info in result.monitoring_infos():
        if info.urn == "beam:metric:element_count:v1":
            infos[info.labels["PCOLLECTION"]] = info.payload
    return sorted(SEEN, key=repr), infos


class NotKnown(beam.DoFn):  # type: ignore[misc]
    """Gives a range, and nobody can read that from its text."""

    def process(self, x: Any) -> Any:
        return {"it": range}["it"](*x)


@on_columns
@pytest.mark.parametrize(
    "expand",
    [
        beam.ParDo(Plain()).with_output_types(int),
        beam.ParDo(NotKnown()).with_output_types(int),
        beam.FlatMap(lambda x: (TimestampedValue(i, i / 10) for i in range(*x))),
    ],
    ids=["range", "not known", "stamped"],
)
def test_a_pipeline_gives_the_same_and_counts_the_same(
    expand: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []

    def counted(parts: Any) -> Any:
        made.append(sum(map(len, parts)))
        return chunk_of(parts)

    chunk_of = ranges.chunk_of
    monkeypatch.setattr(ranges, "chunk_of", counted)
    monkeypatch.setattr(range_step, "chunk_of", counted)
    on = pipeline(expand)
    assert sum(made) == 1_000
    assert on == pipeline(expand, "--columns=off") == pipeline(expand, "--verify_columns")


@on_columns
def test_groups_of_columns_are_made_objects_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column_tables, "SPREAD_ROWS", 100)
    SEEN.clear()
    made = beam.Pipeline(LocalRunner(), PipelineOptions(["--shards=2"]))
    _ = (
        made
        | beam.Create([(0, 4_000), (4_000, 9_000)], reshuffle=False)
        | beam.FlatMap(lambda x: ((i % 7, i) for i in range(*x)))
        | beam.GroupByKey()
        | beam.Map(lambda group: (group[0], list(group[1])))
        | beam.ParDo(Seen())
    )
    made.run().wait_until_finish()
    found = {key: sorted(values) for (key, values), _, _ in SEEN}
    assert found == {key: list(range(key, 9_000, 7)) for key in range(7)}


def test_an_ordered_run_makes_no_columns() -> None:
    made = beam.Pipeline(LocalRunner(), PipelineOptions(["--shards=2", "--ordering=total"]))
    SEEN.clear()
    _ = (
        made
        | beam.Create([(0, 400), (400, 1_000)], reshuffle=False)
        | "Expand" >> beam.ParDo(Plain()).with_output_types(int)
        | "Same" >> beam.Map(lambda i: i + 0)
        | "Seen" >> beam.ParDo(Seen())
    )
    made.run().wait_until_finish()
    assert [x for x, _, _ in SEEN] == list(range(1_000))
