"""The judge of live workloads: every row that came is held against the oracle, and dated."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from headrace.lab.live.content import write_content
from headrace.lab.live.facts import BASE_MS, STREAMS
from headrace.lab.live.judging import judged, shown, table_of, write_sent
from headrace.lab.live.question import WorkloadQuestion, workload_question
from headrace.lab.live.sent import SentEvents, SentSettings
from headrace.lab.live.worth import Judged
from headrace.lab.workload import Row, find

RATE, SECONDS = 2_000, 5
EVENTS = RATE * SECONDS


@pytest.fixture(scope="module")
def contents(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("content")
    made = {}
    for stream in ("nexmark", "yahoo", "hibench", "two streams", "windowed"):
        path = folder / f"{stream}.arrow"
        write_content(stream, path, 10_000)
        made[stream] = str(path)
    return made


class Asked:
    """One question, its events, and the answer of its oracle."""

    def __init__(self, name: str, contents: dict[str, str], folder: Path) -> None:
        self.question: WorkloadQuestion = workload_question(name)
        stream = self.question.facts.stream
        self.sent = SentEvents(SentSettings(
            schedule=((float(SECONDS), float(RATE)),), stream=stream, content=contents[stream]
        ))
        self._folder = folder
        log = write_sent(self.sent, EVENTS, folder / "own")
        answer = find(self.question.workload.oracle)(log, self.question.settings)
        self.rows: list[Row] = [tuple(row) for row in answer]

    def judged(self, rows: Sequence[Row], left: float = 100.0) -> Judged:
        question = self.question
        table = table_of(question.workload.columns, rows)
        return judged(
            question.workload, question.facts, question.settings, self.sent, EVENTS,
            [(left, table)], self._folder / "log",
        )


QUESTIONS = (
    "nexmark:q1", "nexmark:q2", "nexmark:q3", "nexmark:q5", "nexmark:q7", "nexmark:q8",
    "nexmark:q11", "yahoo:campaigns", "hibench:wordcount", "hibench:fixwindow",
    "windowed:aggregation", "windowed:join",
)


@pytest.mark.parametrize("name", QUESTIONS)
def test_the_oracles_answer_is_right_and_a_lost_or_doubled_row_is_not(
    name: str, contents: dict[str, str], tmp_path: Path
) -> None:
    asked = Asked(name, contents, tmp_path)
    assert len(asked.rows) > 4
    right = asked.judged(asked.rows)
    assert len(right.missing) == len(right.surplus) == 0
    assert len(right.due) > 0
    assert float(right.due.min()) >= 0 and float(right.due.max()) <= SECONDS
    assert (right.left == 100.0).all()
    # A row at the beginning: those of the tail may be missing.
    first = min(asked.rows, key=lambda row: _date(asked, row))
    lost = [row for row in asked.rows if row != first]
    assert len(asked.judged(lost).missing) > 0
    assert first in asked.judged([*asked.rows, first]).surplus_rows or name == "nexmark:q11" or (
        name == "hibench:wordcount"
    )
    assert len(asked.judged([*asked.rows, first]).surplus) > 0


def _date(asked: Asked, row: Row) -> Any:
    """What a row says of its time; where it says nothing, any is lost in turn."""
    named = {column.name: value for column, value in zip(
        asked.question.workload.columns, row, strict=True)}
    for name in ("window_start", "date_time", "end", "time", "id"):
        if name in named:
            return named[name]
    return 0


def test_rows_of_the_tail_may_be_missing_but_not_wrong(
    contents: dict[str, str], tmp_path: Path
) -> None:
    asked = Asked("yahoo:campaigns", contents, tmp_path)
    last = max(row[1] for row in asked.rows)
    assert last == BASE_MS + 4_000  # ends with the events, and nothing newer has come
    early = [row for row in asked.rows if row[1] < last]
    assert len(asked.judged(early).missing) == 0
    wrong = [*early, next((name, start, n + 1) for name, start, n in asked.rows if start == last)]
    assert len(asked.judged(wrong).surplus) == 1
    # What ended a second before the tail is not in it.
    assert len(asked.judged([row for row in early if row[1] < last - 2_000]).missing) > 0


def test_the_date_of_a_window_is_its_end_and_of_a_record_its_own(
    contents: dict[str, str], tmp_path: Path
) -> None:
    windows = Asked("yahoo:campaigns", contents, tmp_path / "a")
    row = next(row for row in windows.rows if row[1] == BASE_MS + 2_000)
    assert windows.judged([row]).due.tolist() == [3.0]
    records = Asked("nexmark:q1", contents, tmp_path / "b")
    row = records.rows[-1]
    assert records.judged([row]).due.tolist() == [(row[3] - BASE_MS) / 1_000]
    joined = Asked("nexmark:q8", contents, tmp_path / "c")
    found = joined.judged(joined.rows)
    assert len(found.due) == len(joined.rows)
    assert len(set(found.due.tolist())) > 3


def test_equal_rows_are_told_apart_by_their_order(contents: dict[str, str], tmp_path: Path) -> None:
    asked = Asked("nexmark:q2", contents, tmp_path)
    question, columns = asked.question, asked.question.workload.columns
    few = asked.rows[:1] * 3
    # A log in which one row is right three times, at three dates.
    tables = [(at, table_of(columns, [row])) for at, row in zip((7.0, 5.0, 6.0), few, strict=True)]
    found = judged(
        question.workload, question.facts, question.settings, asked.sent, EVENTS, tables,
        tmp_path / "log",
    )
    times = asked.rows.count(few[0])
    assert len(found.due) == min(3, times)
    assert sorted(found.left.tolist()) == [5.0, 6.0, 7.0][: min(3, times)]
    assert sorted(found.surplus.tolist()) == [5.0, 6.0, 7.0][min(3, times) :]


def test_a_count_that_another_record_has_is_right_but_none_may_be_twice(
    contents: dict[str, str], tmp_path: Path
) -> None:
    asked = Asked("hibench:wordcount", contents, tmp_path)
    ip = asked.rows[0][0]
    own = [place for place, row in enumerate(asked.rows) if row[0] == ip][:2]
    rows = list(asked.rows)
    first, second = (rows[place] for place in own)
    rows[own[0]], rows[own[1]] = (ip, first[1], second[2]), (ip, second[1], first[2])
    assert len(asked.judged(rows).surplus) == 0
    rows[own[0]] = (ip, first[1], first[2])
    assert len(asked.judged(rows).surplus) == len(asked.judged(rows).missing) == 1


def test_what_has_no_date_is_still_judged(contents: dict[str, str], tmp_path: Path) -> None:
    asked = Asked("nexmark:q12", contents, tmp_path)
    found = asked.judged(asked.rows)
    assert len(found.missing) == len(found.surplus) == len(found.due) == 0
    assert len(asked.judged(asked.rows[1:]).missing) == 1
    assert asked.question.facts.undated


def test_no_rows_at_all_are_all_missing(contents: dict[str, str], tmp_path: Path) -> None:
    asked = Asked("windowed:aggregation", contents, tmp_path)
    question = asked.question
    found = judged(
        question.workload, question.facts, question.settings, asked.sent, EVENTS, [],
        tmp_path / "log",
    )
    assert len(found.missing) == len(found.expected) > 100
    assert isinstance(found.due, np.ndarray) and not len(found.due)


def test_columns_that_are_sent_are_those_of_the_log(
    contents: dict[str, str], tmp_path: Path
) -> None:
    asked = Asked("yahoo:campaigns", contents, tmp_path)
    assert isinstance(asked.sent.schema, pa.Schema)
    assert asked.sent.schema.names[3:] == list(STREAMS["yahoo"].columns)


def test_rows_are_shown_of_more_text_than_one_array_holds() -> None:
    chunk = pa.array([str(n % 10) * 2**20 for n in range(64)])
    rows = pa.table({"text": pa.chunked_array([chunk] * 33), "number": range(64 * 33)})
    last = len(rows) - 1
    assert shown(rows, np.array([0, last])) == (("0" * 2**20, 0), ("3" * 2**20, last))


def test_rows_are_judged_alike_in_one_part_and_in_many(
    contents: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Asked("nexmark:q1", contents, tmp_path)
    rows = [*asked.rows[3:], asked.rows[7], asked.rows[7], (1, 2, 3, 4, "x")]
    whole = asked.judged(rows)
    monkeypatch.setattr("headrace.lab.live.judging.AT_ONCE", 100)
    parted = asked.judged(rows)
    for name in ("due", "left", "expected", "missing", "surplus"):
        assert np.array_equal(getattr(parted, name), getattr(whole, name)), name
    assert parted.missing_rows == whole.missing_rows
    assert len(whole.missing) == 3
    assert len(whole.surplus) == 3
