"""The lab's own questions: their events, their right answers, their pipelines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import OptionError
from headrace.lab.data.beam_source import Events
from headrace.lab.data.files import log
from headrace.lab.endpoints.frame_sinks import schema_of
from headrace.lab.probe.events import ProbeGenerator, ProbeSettings
from headrace.lab.probe.native import running
from headrace.lab.probe.pipelines.questions import QUESTIONS, question_of
from headrace.lab.spec import QUESTIONS as NAMES
from headrace.lab.verdict import judge
from headrace.lab.workload import Row, find
from headrace.testing import Collected, LocalRunner


def events_of(settings: ProbeSettings, numbers: Sequence[int]) -> list[tuple[int, int, int]]:
    """Give (milliseconds, key, number) of events, one by one."""
    found = []
    for number in numbers:
        ((event,), (micros,)) = ProbeGenerator(settings).elements(number, 1)
        found.append((micros // 1_000, event.key, number))
    return found


def filter_by_hand(settings: ProbeSettings, numbers: Sequence[int]) -> list[Row]:
    return [
        (31 * number + key, key, number)
        for _, key, number in events_of(settings, numbers)
        if (31 * number + key) % settings.one_in == 0
    ]


def count_by_hand(settings: ProbeSettings, numbers: Sequence[int], panes: int = 1) -> list[Row]:
    counts: Counter[tuple[int, int]] = Counter()
    lasts: dict[tuple[int, int], int] = {}
    size = settings.window_ms
    for millis, key, number in events_of(settings, numbers):
        newest = millis // size * size
        for start in range(newest - size * (panes - 1), newest + 1, size):
            counts[start, key] += 1
            lasts[start, key] = max(lasts.get((start, key), -1), number)
    return [(*place, counts[place], lasts[place]) for place in counts]


def state_by_hand(settings: ProbeSettings, numbers: Sequence[int]) -> list[Row]:
    counts: Counter[int] = Counter()
    totals: Counter[int] = Counter()
    found = []
    for _, key, number in events_of(settings, numbers):
        counts[key] += 1
        totals[key] += number
        if counts[key] % settings.every == 0:
            found.append((key, counts[key], totals[key], number))
    return found


BY_HAND: dict[str, Callable[[ProbeSettings, Sequence[int]], list[Row]]] = {
    "filter": filter_by_hand,
    "count": count_by_hand,
    "sliding": lambda settings, numbers: count_by_hand(settings, numbers, settings.panes),
    "state": state_by_hand,
}


@pytest.mark.parametrize("name", list(QUESTIONS))
@given(
    numbers=st.lists(st.integers(0, 599), unique=True).map(sorted),
    window_ms=st.sampled_from([1, 70, 1_000]), panes=st.integers(1, 5), n=st.integers(1, 7),
)
def test_the_answers_are_those_of_plain_loops(
    name: str, numbers: list[int], window_ms: int, panes: int, n: int
) -> None:
    settings = ProbeSettings(
        schedule=((1.0, 100.0), (0.5, 1_000.0)), keys=3, window_ms=window_ms, panes=panes,
        one_in=n, every=n,
    )
    found = QUESTIONS[name].right(settings, np.array(numbers, dtype=np.int64))
    assert judge(found, BY_HAND[name](settings, numbers)).right


def test_a_spec_knows_the_questions_by_name() -> None:
    assert tuple(QUESTIONS) == NAMES
    assert {question.workload.name for question in QUESTIONS.values()} == set(NAMES)
    with pytest.raises(OptionError, match="no question 'join'; there are filter, count"):
        question_of("join")


def test_an_event_happens_when_it_is_to_be_sent() -> None:
    events = ProbeGenerator(ProbeSettings(schedule=((1.0, 100.0), (0.5, 1_000.0))))
    assert events.events == 600
    # 100 events in the first second, then one every millisecond.
    found = [events.due(number) for number in (0, 50, 100, 350)]
    assert found == [0, 500_000, 1_000_000, 1_250_000]


def test_settings_of_a_question_that_are_none_are_refused() -> None:
    with pytest.raises(OptionError, match="panes = 0: it must be 1 or more"):
        ProbeSettings(schedule=((1.0, 1.0),), panes=0)


def over(name: str, settings: ProbeSettings, last: int) -> list[Row]:
    question = QUESTIONS[name]
    return question.over(settings, question.right(settings, np.arange(25)), last)


def test_only_windows_that_are_over_are_asked_for() -> None:
    settings = ProbeSettings(schedule=((3.0, 10.0),), keys=1)
    assert [row[2] for row in over("count", settings, 29)] == [10, 10]
    assert [row[2] for row in over("count", settings, 19)] == [10]  # at 1.9 s


def test_only_sliding_windows_that_are_over_are_asked_for() -> None:
    settings = ProbeSettings(schedule=((3.0, 10.0),), keys=1, panes=2)
    # Those that began 1 s before the first event, with it, ...
    assert [row[2] for row in over("sliding", settings, 29)] == [10, 20]
    assert [row[2] for row in over("sliding", settings, 19)] == [10]


def test_rows_that_leave_at_once_are_asked_for_up_to_the_last_event() -> None:
    settings = ProbeSettings(schedule=((3.0, 10.0),), keys=1, one_in=1, every=5)
    assert [row[-1] for row in over("filter", settings, 2)] == [0, 1, 2]
    assert over("state", settings, 13) == [(0, 5, 10, 4), (0, 10, 45, 9)]


@pytest.mark.parametrize("name", list(QUESTIONS))
@pytest.mark.parametrize("shards", [1, 3])
def test_a_pipeline_answers_as_the_oracle_does_from_its_log(
    name: str, shards: int, tmp_path: Path
) -> None:
    settings = ProbeSettings(
        schedule=((3.0, 1_000.0),), keys=7, window_ms=500, one_in=5, every=10, panes=3
    )
    workload = QUESTIONS[name].workload
    made = ProbeGenerator(settings)
    answer = find(workload.oracle)(str(log(made, tmp_path / "log")), settings)
    kept = Collected()
    options = beam.options.pipeline_options.PipelineOptions([f"--shards={shards}"])
    with beam.Pipeline(LocalRunner(), options) as pipeline:
        events = pipeline | Events(made, streaming=False)
        events | workload.build(settings) | kept.sink(schema_of(workload.columns))
    assert len(answer) > 30
    assert judge(kept.rows, answer).right
    assert judge(answer, QUESTIONS[name].right(settings, np.arange(3_000))).right


class _GroupState:
    """A key's state, as Spark hands it to a function."""

    def __init__(self) -> None:
        self._value: tuple[int, int] | None = None

    @property
    def exists(self) -> bool:
        return self._value is not None

    @property
    def get(self) -> tuple[int, int]:
        assert self._value is not None
        return self._value

    def update(self, value: tuple[int, int]) -> None:
        self._value = value


@given(st.lists(st.integers(1, 20), min_size=1, max_size=6), st.integers(1, 5), st.randoms())
def test_sparks_own_function_adds_up_whatever_the_order_inside_a_batch(
    sizes: list[int], every: int, shuffled: Any
) -> None:
    add_up, so_far, found, at = running(every), _GroupState(), [], 0
    for size in sizes:
        numbers = list(range(at, at + size))
        at += size
        shuffled.shuffle(numbers)
        frames = [pd.DataFrame({"number": numbers[:3]}), pd.DataFrame({"number": numbers[3:]})]
        for frame in add_up((0,), iter(frames), so_far):
            found += [tuple(row) for row in frame.itertuples(index=False)]
    # The first n numbers add up to n (n - 1) / 2.
    expected = [(0, n, n * (n - 1) // 2, n - 1) for n in range(every, at + 1, every)]
    assert found == expected
