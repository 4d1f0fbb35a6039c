"""The lab's own question: its events, its right answer, and its pipeline."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import apache_beam as beam
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headrace.lab.data.beam_source import Events
from headrace.lab.data.files import log
from headrace.lab.endpoints.frame_drains import schema_of
from headrace.lab.probe.answer import closed, from_log, right_rows
from headrace.lab.probe.count import COUNT
from headrace.lab.probe.events import ProbeGenerator, ProbeSettings
from headrace.lab.verdict import judge
from headrace.lab.workload import Row
from headrace.testing import Collected, LocalRunner


def by_hand(settings: ProbeSettings, numbers: list[int]) -> list[Row]:
    """Count with a dictionary, event by event."""
    counts: Counter[tuple[int, int]] = Counter()
    lasts: dict[tuple[int, int], int] = {}
    for number in numbers:
        ((event,), (micros,)) = ProbeGenerator(settings).elements(number, 1)
        place = micros // 1_000 // settings.window_ms * settings.window_ms, event.key
        counts[place] += 1
        lasts[place] = max(lasts.get(place, -1), number)
    return [(*place, counts[place], lasts[place]) for place in counts]


@given(st.lists(st.integers(0, 599), unique=True), st.sampled_from([1, 70, 1_000]))
def test_the_answer_is_that_of_plain_counting(numbers: list[int], window_ms: int) -> None:
    settings = ProbeSettings(schedule=((1.0, 100.0), (0.5, 1_000.0)), keys=3, window_ms=window_ms)
    found = right_rows(settings, np.array(numbers, dtype=np.int64))
    assert judge(found, by_hand(settings, numbers)).right


def test_an_event_happens_when_it_is_to_be_sent() -> None:
    events = ProbeGenerator(ProbeSettings(schedule=((1.0, 100.0), (0.5, 1_000.0))))
    assert events.events == 600
    # 100 events in the first second, then one every millisecond.
    found = [events.due(number) for number in (0, 50, 100, 350)]
    assert found == [0, 500_000, 1_000_000, 1_250_000]


def test_only_windows_that_are_over_are_asked_for() -> None:
    settings = ProbeSettings(schedule=((3.0, 10.0),), keys=1)
    rows = right_rows(settings, np.arange(25))
    assert [row[2] for row in rows] == [10, 10, 5]
    assert [row[2] for row in closed(settings, rows, 24)] == [10, 10]
    assert [row[2] for row in closed(settings, rows, 19)] == [10]  # at 1.9 s


def test_the_pipeline_answers_as_the_oracle_does_from_its_log(tmp_path: Path) -> None:
    settings = ProbeSettings(schedule=((3.0, 1_000.0),), keys=7, window_ms=500)
    made = ProbeGenerator(settings)
    answer = from_log(str(log(made, tmp_path / "log")), settings)
    kept = Collected()
    with beam.Pipeline(LocalRunner()) as pipeline:
        events = pipeline | Events(made, streaming=False)
        events | COUNT.build(settings) | kept.sink(schema_of(COUNT.columns))
    found = kept.rows
    assert len(answer) == 6 * 7
    assert judge(found, answer).right
    assert judge(found, right_rows(settings, np.arange(3_000))).right
