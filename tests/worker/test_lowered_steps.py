"""Steps on columns give what the same steps give on objects: values, types, exceptions, counts."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.metrics import monitoring_infos
from apache_beam.options.pipeline_options import PipelineOptions

from headrace.errors import ColumnsDifferError, OptionError
from headrace.io import ReadFromSpark, WriteToSpark
from headrace.plan.expressions import Lowered
from headrace.plan.expressions import Operation as Op
from headrace.testing import LocalRunner, LocalSession, ScriptedStream
from headrace.worker.batched import lowered_step
from tests.worker.lowering import (
    compare,
    constant,
    field,
    host_of,
    in_tuple,
    keeps,
    maps,
    not_called,
    on_columns,
    shape_of,
    whole,
)

BIDS = "auction long not null, price long not null"
SHAPE = shape_of(BIDS)
AUCTION, PRICE = field(SHAPE, "auction"), field(SHAPE, "price")
ROWS = [(i % 7, i * 1_000) for i in range(5_000)]

#: What functions were called for, or saw; emptied before each test.
SEEN: list[Any] = []


@pytest.fixture(autouse=True)
def nothing_seen() -> None:
    SEEN.clear()


def run(
    steps: Any, *flags: str, rows: Any = ROWS, words: str = BIDS, schema: str | None = None,
    timestamp: str | None = None, **lowered: Lowered,
) -> list[tuple[Any, ...]]:
    """Run steps over rows; give what they put out."""
    return run_with_result(
        steps, *flags, rows=rows, words=words, schema=schema, timestamp=timestamp, **lowered
    )[0]


def run_with_result(
    steps: Any, *flags: str, rows: Any = ROWS, words: str = BIDS, schema: str | None = None,
    timestamp: str | None = None, **lowered: Lowered,
) -> tuple[list[tuple[Any, ...]], Any]:
    session = LocalSession()
    frame = session.createDataFrame(rows, words)
    found: list[tuple[Any, ...]] = []
    runner = LocalRunner(host=host_of(session, **lowered))
    pipeline = beam.Pipeline(runner, PipelineOptions(["--shards=2", *flags]))
    out = pipeline | ReadFromSpark(frame, timestamp=timestamp) | steps
    if schema is None:
        out | beam.Map(_note)
    else:
        out | WriteToSpark(
            function=lambda made: found.extend(map(tuple, made.collect())), schema=schema
        )
    result = pipeline.run()
    result.wait_until_finish()
    return found, result


def _note(value: Any) -> None:
    SEEN.append(value)


def in_euros(bid: Any) -> tuple[int, int]:
    SEEN.append("called")
    return bid.auction, bid.price * 89 // 100


EUROS = maps(
    SHAPE,
    in_tuple(
        AUCTION,
        whole(Op.FLOOR_DIVIDE, whole(Op.MULTIPLY, PRICE, constant(89)), constant(100)),
    ),
)


@not_called
@on_columns
def test_a_lowered_map_is_computed_without_a_call_of_its_function() -> None:
    found = run("Euros" >> beam.Map(in_euros), schema=BIDS, Euros=EUROS)
    assert found == [(auction, price * 89 // 100) for auction, price in ROWS]
    assert SEEN == []


def test_columns_off_calls_the_function_for_every_row() -> None:
    found = run("Euros" >> beam.Map(in_euros), "--columns=off", schema=BIDS, Euros=EUROS)
    assert found == [(auction, price * 89 // 100) for auction, price in ROWS]
    assert len(SEEN) == len(ROWS)


@not_called
@on_columns
def test_objects_behind_a_lowered_step_are_plain_tuples_of_ints() -> None:
    run("Euros" >> beam.Map(in_euros), Euros=EUROS)
    assert [(type(v), *map(type, v)) for v in SEEN] == [(tuple, int, int)] * len(ROWS)


@not_called
@on_columns
def test_a_row_that_overflows_goes_to_the_function_in_its_place() -> None:
    rows = [(1, 100), (2, 2**62), (3, 300)]
    run("Euros" >> beam.Map(in_euros), rows=rows, Euros=EUROS)
    # 2**62 * 89 needs 69 bits on the way, and its hundredth fits again: it is put into the column.
    assert SEEN == ["called", (1, 89), (2, 2**62 * 89 // 100), (3, 267)]


def test_a_result_that_is_no_column_makes_objects_of_the_batch() -> None:
    def times_four(bid: Any) -> tuple[int, int]:
        return bid.auction, bid.price * 4

    lowered = maps(SHAPE, in_tuple(AUCTION, whole(Op.MULTIPLY, PRICE, constant(4))))
    rows = [(1, 100), (2, 2**62), (3, 300)]
    run("Four" >> beam.Map(times_four), rows=rows, Four=lowered)
    assert SEEN == [(1, 400), (2, 2**64), (3, 1_200)]
    assert {type(value) for value in SEEN} == {tuple}


def shared(bid: Any) -> int:
    return bid.price // bid.auction  # type: ignore[no-any-return]


SHARED = maps(SHAPE, whole(Op.FLOOR_DIVIDE, PRICE, AUCTION))


@pytest.mark.parametrize("flags", [(), ("--columns=off",)])
def test_an_exception_is_the_users_own_and_names_step_and_line(flags: tuple[str, ...]) -> None:
    with pytest.raises(ZeroDivisionError, match=r"while running 'Shared") as caught:
        run("Shared" >> beam.Map(shared), *flags, rows=[(1, 5), (0, 7), (0, 8)], Shared=SHARED)
    told = "".join(traceback.format_exception(caught.value))
    assert "in shared" in told
    assert "return bid.price // bid.auction" in told


@on_columns
def test_elements_before_the_one_that_fails_have_had_their_effect() -> None:
    rows = [(1, 5), (2, 6), (0, 7), (1, 8)]
    with pytest.raises(ZeroDivisionError):
        run("Shared" >> beam.Map(shared), rows=rows, Shared=SHARED)
    assert SEEN == [5, 3]


def odd_auction(bid: Any) -> bool:
    return bid.auction % 2 == 1  # type: ignore[no-any-return]


ODD = keeps(SHAPE, compare(Op.EQUAL, whole(Op.REMAINDER, AUCTION, constant(2)), constant(1)))


@not_called
@on_columns
def test_a_lowered_filter_keeps_columns_for_the_next_step() -> None:
    steps = _chain("Odd" >> beam.Filter(odd_auction), "Euros" >> beam.Map(in_euros))
    found = run(steps, schema=BIDS, Odd=ODD, Euros=EUROS)
    assert found == [(a, price * 89 // 100) for a, price in ROWS if a % 2]
    assert SEEN == []


def is_large(bid: Any) -> bool:
    SEEN.append(bid.auction)
    return bid.price * 4 > 1_000  # type: ignore[no-any-return]


@not_called
@on_columns
def test_rows_that_a_filter_hands_back_are_kept_as_its_function_says() -> None:
    lowered = keeps(
        SHAPE, compare(Op.GREATER, whole(Op.MULTIPLY, PRICE, constant(4)), constant(1_000))
    )
    rows = [(1, 100), (2, 2**62), (3, 300), (4, -(2**62))]
    found = run("Large" >> beam.Filter(is_large), rows=rows, schema=BIDS, Large=lowered)
    assert found == [(2, 2**62), (3, 300)]
    assert SEEN == [2, 4]


def _chain(*steps: Any) -> Any:
    class Chain(beam.PTransform):  # type: ignore[misc]
        def expand(self, rows: Any) -> Any:
            for step in steps:
                rows = rows | step
            return rows

    return Chain()


class OneOrNone(beam.DoFn):  # type: ignore[misc]
    """Yields the price of an odd auction, divided by something that may be zero."""

    def process(self, bid: Any) -> Iterator[int]:
        if bid.auction % 2 == 1:
            yield bid.price // (bid.auction - 1)


@on_columns
def test_a_generator_of_at_most_one_output_runs_on_columns() -> None:
    lowered = Lowered(
        shape=SHAPE,
        gives=whole(Op.FLOOR_DIVIDE, PRICE, whole(Op.SUBTRACT, AUCTION, constant(1))),
        keeps=ODD.keeps,
    )
    rows = [(3, 100), (2, 1), (5, 400), (1, 9), (7, 1)]
    with pytest.raises(ZeroDivisionError, match="while running 'Odd"):
        run("Odd" >> beam.ParDo(OneOrNone()), rows=rows, Odd=lowered)
    assert SEEN == [50, 100]


def test_element_counts_are_those_of_objects() -> None:
    steps = _chain("Odd" >> beam.Filter(odd_auction), "Euros" >> beam.Map(in_euros))
    counts = [
        _element_counts(
            run_with_result(steps, *flags, schema=BIDS, Odd=ODD, Euros=EUROS)[1]
        )
        for flags in ((), ("--columns=off",))
    ]
    assert counts[0] == counts[1]
    assert sorted(counts[0].values())[-1] == len(ROWS)


def _element_counts(result: Any) -> dict[str, int]:
    return {
        info.labels["PCOLLECTION"]: monitoring_infos.extract_counter_value(info)
        for info in result.monitoring_infos()
        if info.urn == "beam:metric:element_count:v1"
    }


class CountBundles(beam.DoFn):  # type: ignore[misc]
    """Notes how many elements each bundle has."""

    def start_bundle(self) -> None:
        self._count = 0

    def process(self, value: Any) -> Iterator[Any]:
        self._count += 1
        yield value

    def finish_bundle(self) -> None:
        SEEN.append(self._count)


@pytest.mark.parametrize("flags", [(), ("--columns=off",)])
def test_bundles_are_cut_after_as_many_elements(flags: tuple[str, ...]) -> None:
    steps = _chain("Odd" >> beam.Filter(odd_auction), "Bundles" >> beam.ParDo(CountBundles()))
    run(steps, "--max_bundle_elements=1000", *flags, rows=ROWS[:3_500], schema=BIDS, Odd=ODD)
    odd = [sum(a % 2 for a, _ in ROWS[i : i + 1_000]) for i in range(0, 3_000, 1_000)]
    assert SEEN == [*odd, sum(a % 2 for a, _ in ROWS[3_000:3_500])]


def test_an_ordered_run_calls_the_function_and_gives_the_same_order() -> None:
    found = run("Euros" >> beam.Map(in_euros), "--ordered", schema=BIDS, Euros=EUROS)
    assert found == [(auction, price * 89 // 100) for auction, price in ROWS]
    assert SEEN.count("called") == len(ROWS)


def test_a_step_that_checks_its_traits_runs_on_objects() -> None:
    found = run(
        "Euros" >> beam.Map(in_euros), "--verify_traits", rows=ROWS[:50], schema=BIDS, Euros=EUROS
    )
    assert found == [(auction, price * 89 // 100) for auction, price in ROWS[:50]]
    assert SEEN.count("called") >= 50


def test_verify_columns_compares_and_lets_the_truth_pass() -> None:
    found = run(
        "Euros" >> beam.Map(in_euros), "--verify_columns", rows=[(1, 1), (2, 2**62)],
        schema=BIDS, Euros=EUROS,
    )
    assert found == [(1, 0), (2, 2**62 * 89 // 100)]
    assert SEEN  # it was called to be compared with


LIES = {
    "value": maps(SHAPE, in_tuple(AUCTION, whole(Op.ADD, PRICE, constant(1)))),
    "type": maps(SHAPE, in_tuple(AUCTION, compare(Op.EQUAL, PRICE, constant(1)))),
    "arity": maps(SHAPE, in_tuple(AUCTION, PRICE, PRICE)),
    "kept": Lowered(
        shape=SHAPE, gives=in_tuple(AUCTION, PRICE), keeps=compare(Op.LESS, PRICE, constant(0))
    ),
}


@on_columns
@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
def test_verify_columns_names_the_step_and_the_element_of_a_false_kernel(lie: Lowered) -> None:
    def pair(bid: Any) -> tuple[int, int]:
        return bid.auction, bid.price

    with pytest.raises(ColumnsDifferError, match=r"(?s)Pair.*auction=7, price=1\)"):
        run("Pair" >> beam.Map(pair), "--verify_columns", rows=[(7, 1)], schema=BIDS, Pair=lie)


@pytest.mark.not_verifying_columns("columns=off wins over the variable, not over the option")
def test_verifying_what_is_turned_off_is_refused() -> None:
    with pytest.raises(OptionError, match="--columns=off"):
        run("Euros" >> beam.Map(in_euros), "--columns=off", "--verify_columns", schema=BIDS)


@not_called
@on_columns
def test_one_collection_is_read_by_steps_with_and_without_columns() -> None:
    class Both(beam.PTransform):  # type: ignore[misc]
        def expand(self, rows: Any) -> Any:
            fast = rows | "Euros" >> beam.Map(in_euros)
            slow = rows | "Slow" >> beam.Map(lambda bid: (bid.auction, bid.price))
            return (fast, slow) | beam.Flatten()

    found = run(Both(), schema=BIDS, Euros=EUROS)
    expected = [(a, price * 89 // 100) for a, price in ROWS] + ROWS
    assert sorted(found) == sorted(expected)
    assert SEEN == []


@not_called
@on_columns
def test_a_stream_computes_on_columns_epoch_by_epoch() -> None:
    session = LocalSession()
    stream = ScriptedStream(BIDS, session=session).add(*ROWS[:10]).add((9, 2**62), (0, 100))
    found: list[tuple[Any, ...]] = []

    def take(frame: Any, epoch: int) -> None:
        found.extend((epoch, *row) for row in frame.collect())

    runner = LocalRunner(host=host_of(session, Euros=EUROS))
    options = PipelineOptions(["--available_now", "--streaming"])
    with beam.Pipeline(runner, options) as pipeline:
        rows = pipeline | ReadFromSpark(stream)
        rows | "Euros" >> beam.Map(in_euros) | WriteToSpark(function=take, schema=BIDS)
    assert sorted(row[1:] for row in found) == sorted(
        [(a, price * 89 // 100) for a, price in ROWS[:10]] + [(9, 2**62 * 89 // 100), (0, 89)]
    )
    assert len({epoch for epoch, *_ in found}) == 2
    assert SEEN == ["called"]


@on_columns
@pytest.mark.parametrize(
    "flags",
    [
        pytest.param(
            (), id="plain", marks=pytest.mark.not_verifying_columns("the mode ends such a run")
        ),
        pytest.param(("--verify_columns",), id="verified"),
    ],
)
def test_a_kernel_that_fails_costs_time_and_no_rows(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, flags: tuple[str, ...]
) -> None:
    def broken(_values: Any) -> Any:
        msg = "a fault of ours"
        raise IndexError(msg)

    monkeypatch.setattr(lowered_step, "kernel_of", lambda _lowered: broken)
    step = "Euros" >> beam.Map(in_euros)
    if flags:
        with pytest.raises(IndexError, match="a fault of ours"):
            run(step, *flags, schema=BIDS, Euros=EUROS)
        return
    found = run(step, schema=BIDS, Euros=EUROS)
    assert found == [(auction, price * 89 // 100) for auction, price in ROWS]
    assert len(SEEN) == len(ROWS)
    told = [r.getMessage() for r in caplog.records if "runs on objects from here on" in r.message]
    assert told and all("Euros" in text and "a fault of ours" in text for text in told)
