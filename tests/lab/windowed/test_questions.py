"""Windowed aggregation and join: pipelines, oracles, native versions."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis
from hypothesis import strategies as st

from headrace.errors import OptionError
from headrace.lab.native.windowed_closing import closing_events
from headrace.lab.oracle import windowed as oracle
from headrace.lab.workload import Row, Workload
from headrace.lab.workloads import windowed
from headrace.lab.workloads.windowed.aggregation import SumAndCount, build_by_arrival, sums
from headrace.lab.workloads.windowed.join import breaches
from headrace.lab.workloads.windowed.model import Event
from headrace.lab.workloads.windowed.settings import Settings
from tests.lab.local_runs import (
    generated_rows,
    native_rows,
    oracle_rows,
    rows_on_beam,
    streamed_rows,
)

AGGREGATION, AGGREGATION_BY_ARRIVAL, JOIN, JOIN_BY_ARRIVAL = windowed.WORKLOADS
S = 1_000_000
# Windows of 8 s every 4 s: 20 s is in [16, 24) and [20, 28), 19.999 s in [12, 20) and [16, 24).
EVENTS = [
    Event(20 * S, 1, 10, 0),
    Event(20 * S - 1_000, 1, 5, 1),
    Event(27 * S, 1, 11, 1),
    Event(21 * S, 2, 7, 0),
]
AVERAGES = [
    (1, 12_000, 5.0, 1),
    (1, 16_000, 7.5, 2),
    (1, 20_000, 10.5, 2),
    (1, 24_000, 11.0, 1),
    (2, 16_000, 7.0, 1),
    (2, 20_000, 7.0, 1),
]
PAIRS = [(1, 16_000, 10, 5), (1, 20_000, 11, 1)]


def run(workload: Workload, settings: Settings, events: list[Event] = EVENTS) -> list[Row]:
    """Run the pipeline over events."""
    return rows_on_beam(workload, settings, events, [event.time for event in events])


def logged(events: list[Event], folder: Path) -> str:
    """Write the columns that the oracle reads."""
    columns = {
        "nanos": pa.array([event.time * 1_000 for event in events], pa.int64()),
        "key": pa.array([event.key for event in events], pa.int64()),
        "value": pa.array([event.value for event in events], pa.int64()),
        "stream": pa.array([event.stream for event in events], pa.int64()),
    }
    pq.write_table(pa.table(columns), folder / "log.parquet")
    return str(folder / "*.parquet")


def naive(events: list[Event], size: int, slide: int) -> tuple[Counter[Row], Counter[Row]]:
    """Answer both questions by looking at every window; seconds."""
    groups: dict[tuple[int, int], list[Event]] = defaultdict(list)
    for event in events:
        start = event.time // S - size - slide
        for begin in range(max(0, start) // slide * slide - 10 * slide, event.time // S + 1, slide):
            if begin * S <= event.time < (begin + size) * S:
                groups[event.key, begin * 1_000].append(event)
    averages = Counter(
        (key, begin, sum(e.value for e in group) / len(group), len(group))
        for (key, begin), group in groups.items()
    )
    pairs = Counter(
        (key, begin, max(a.value, b.value), abs(a.value - b.value))
        for (key, begin), group in groups.items()
        for a in group
        for b in group
        if (a.stream, b.stream) == (0, 1)
    )
    return averages, pairs


def test_averages_are_given_for_every_sliding_window() -> None:
    assert Counter(run(AGGREGATION, Settings())) == Counter(AVERAGES)


def test_windows_tumble_where_the_slide_is_their_length() -> None:
    settings = Settings(window_size_sec=8, slide_sec=8)
    assert sorted(run(AGGREGATION, settings)) == [
        (1, 16_000, 7.5, 2),
        (1, 24_000, 11.0, 1),
        (2, 16_000, 7.0, 1),
    ]


def test_every_pair_of_both_streams_is_compared() -> None:
    assert Counter(run(JOIN, Settings())) == Counter(PAIRS)


def test_equal_values_differ_by_nothing_and_pairs_come_as_often_as_they_meet() -> None:
    tumbling = Settings(window_size_sec=8, slide_sec=8)
    events = [Event(S, 3, 4, 0), Event(S, 3, 4, 0), Event(2 * S, 3, 4, 1), Event(2 * S, 3, 9, 1)]
    assert Counter(run(JOIN, tumbling, events)) == Counter({(3, 0, 4, 0): 2, (3, 0, 9, 5): 2})


def test_the_oracle_answers_hand_made_events(tmp_path: Path) -> None:
    log = logged(EVENTS, tmp_path)
    assert Counter(oracle.aggregation(log, Settings())) == Counter(AVERAGES)
    assert Counter(oracle.join(log, Settings())) == Counter(PAIRS)


@hypothesis(deadline=None, max_examples=25)
@given(
    st.lists(
        st.builds(
            Event,
            st.integers(100 * S, 130 * S),
            st.integers(0, 2),
            st.integers(1, 9),
            st.integers(0, 1),
        ),
        min_size=1,
        max_size=30,
    ),
    st.integers(1, 9),
    st.integers(1, 9),
)
def test_the_oracle_agrees_with_a_look_at_every_window(
    tmp_path_factory: pytest.TempPathFactory, events: list[Event], one: int, other: int
) -> None:
    size, slide = max(one, other), min(one, other)
    log = logged(events, tmp_path_factory.mktemp("log"))
    told = Settings(window_size_sec=size, slide_sec=slide)
    averages, pairs = naive(events, size, slide)
    assert Counter(oracle.aggregation(log, told)) == averages
    assert Counter(oracle.join(log, told)) == pairs


@given(st.lists(st.lists(st.integers(1, 100))))
def test_partial_sums_may_be_merged_in_any_cut(parts: list[list[int]]) -> None:
    combine = SumAndCount()
    made = []
    for part in parts:
        accumulator = combine.create_accumulator()
        for value in part:
            accumulator = combine.add_input(accumulator, value)
        made.append(accumulator)
    values = [value for part in parts for value in part]
    assert combine.extract_output(combine.merge_accumulators(made)) == (sum(values), len(values))


@pytest.mark.parametrize("group", [1, 64])
@pytest.mark.parametrize("workload", windowed.WORKLOADS, ids=lambda workload: workload.name)
def test_generated_events_give_the_oracles_answer(
    workload: Workload, group: int, tmp_path: Path
) -> None:
    settings = Settings(events=5_000, rate=200, seed=11, out_of_order=group, partners=200)
    rows = generated_rows(workload, settings)
    assert workload.rule(rows) == workload.rule(oracle_rows(workload, settings, tmp_path))
    assert len(rows) > 100


def test_sums_follow_from_the_fullest_result_of_each_window() -> None:
    rows = [(1, 0, 2.0, 3), (1, 0, 3.0, 4), (1, 4_000, 10.0, 1), (2, 0, 1.0, 1)]
    assert sums(rows) == Counter({(1, 5, 22): 1, (2, 1, 1): 1})
    assert sums(rows[1:]) == sums(rows)
    assert sums(rows[:-1]) != sums(rows)


def test_rows_of_arrival_that_cannot_be_right_are_found() -> None:
    right = [(1, 3_000, 9, 0), (1, 3_000, 9, 8)]
    wrong = [(1, 3_000, 9, 9), (1, 3_000, 9, -1), (1, 3_001, 9, 1), (-1, 3_000, 9, 1)]
    assert breaches(right) == Counter()
    assert breaches([*right, *wrong]) == Counter(wrong)


def test_windows_of_arrival_need_a_slide_that_divides_their_length() -> None:
    with pytest.raises(OptionError, match="slide_sec=3 is outside its domain: a divisor"):
        build_by_arrival(Settings(window_size_sec=8, slide_sec=3))


@pytest.mark.spark
def test_spark_gives_the_oracles_answers(tmp_path: Path, spark: Any) -> None:
    settings = Settings(events=2_000, rate=100, out_of_order=20, partners=200)
    for workload in (AGGREGATION, JOIN, JOIN_BY_ARRIVAL):
        folder = tmp_path / workload.name
        folder.mkdir()
        expected = workload.rule(oracle_rows(workload, settings, folder))
        assert workload.rule(native_rows(workload, settings, folder, spark)) == expected


@pytest.mark.spark
@pytest.mark.parametrize("workload", [AGGREGATION, JOIN], ids=lambda workload: workload.name)
def test_sparks_stream_gives_the_oracles_answer_once_it_is_closed(
    workload: Workload, tmp_path: Path, spark: Any
) -> None:
    settings = Settings(events=1_000, rate=50, out_of_order=20, partners=200)
    expected = workload.rule(oracle_rows(workload, settings, tmp_path))
    made = workload.generator(settings)
    closing = closing_events(made.schema, 1_000, made.watermark(1_000) // 1_000 + 1)
    pq.write_table(closing, tmp_path / "c.parquet")
    rows, batches = streamed_rows(workload, settings, tmp_path, spark)
    assert workload.rule(rows) == expected
    assert batches == 3
