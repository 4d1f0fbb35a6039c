"""Batches of columns become objects once, in parts, with the times and windows they had."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from apache_beam.transforms.window import GlobalWindows

from headrace.plan.shapes import INT
from headrace.worker.batched.batches import BATCH_VALUES, GLOBAL, Columns
from headrace.worker.batched.column_batches import (
    Started,
    TimeColumns,
    as_rows,
    chosen,
    each_in_one_window,
    first_element,
    part_of,
    row_meta,
)
from headrace.worker.columns.values import ColumnValues, of_objects
from headrace.worker.exchange.writers import Fanout, LocalWriter

KNOWN: dict[int, Any] = {0: ("w0",), 10: ("w10", "w5")}
#: Of panes, and of these windows, only who they are is asked.
PANE: Any = "pane"
TWO: Any = ("a", "b")


def numbers(count: int) -> ColumnValues:
    made = of_objects(list(range(count)), INT)
    assert made is not None
    return made


def timed(count: int) -> TimeColumns:
    starts = np.array([0, 10] * count)[:count]
    return TimeColumns(np.arange(count) * 7, Started(starts, KNOWN), PANE)


def test_rows_have_their_own_times_and_windows() -> None:
    meta = row_meta(timed(3))
    assert meta == Columns([0, 7, 14], [KNOWN[0], KNOWN[10], KNOWN[0]], [PANE] * 3)


def test_windows_that_all_share_stand_with_every_row() -> None:
    meta = row_meta(TimeColumns(np.array([1, 2]), GLOBAL, PANE))
    assert meta.windows == [GLOBAL, GLOBAL]


def test_a_batch_of_columns_becomes_batches_of_the_usual_size() -> None:
    count = 2 * BATCH_VALUES + 5
    parts = list(as_rows(numbers(count), timed(count)))
    assert [len(values) for values, _ in parts] == [BATCH_VALUES, BATCH_VALUES, 5]
    assert [v for values, _ in parts for v in values] == list(range(count))
    assert [t for _, meta in parts for t in meta.times] == [7 * i for i in range(count)]


def test_a_meta_for_all_stays_as_it_is() -> None:
    meta = GlobalWindows.windowed_value(None)
    assert row_meta(meta) is part_of(meta, 0, 1) is chosen(meta, np.array([0])) is meta
    assert first_element(numbers(2), meta).value == 0


def test_parts_and_choices_keep_what_belongs_to_a_row() -> None:
    assert row_meta(part_of(timed(4), 1, 3)).times == [7, 14]
    picked = row_meta(chosen(timed(4), np.array([3, 0])))
    assert (picked.times, picked.windows) == ([21, 0], [("w10", "w5"), ("w0",)])
    assert row_meta(chosen(timed(4), np.array([True, False, False, True]))).times == [0, 21]


def test_the_first_element_has_the_windows_of_its_row() -> None:
    first: Any = first_element(numbers(3), part_of(timed(4), 1, 4))
    assert (first.value, first.timestamp_micros, first.windows) == (0, 7, ("w10", "w5"))


@pytest.mark.parametrize(
    ("meta", "single"),
    [
        (timed(1), True),
        (timed(2), False),
        (TimeColumns(np.array([0]), GLOBAL, PANE), True),
        (TimeColumns(np.array([0]), TWO, PANE), False),
        (GlobalWindows.windowed_value(None), True),
    ],
)
def test_rows_in_several_windows_are_known(meta: Any, single: bool) -> None:
    assert each_in_one_window(meta) is single


class Rows:
    """A writer that takes objects alone."""

    takes_columns = False

    def __init__(self) -> None:
        self.got: list[Any] = []

    def process(self, element: Any) -> None:
        self.got.append(element)

    def write(self, values: list[Any], meta: Any) -> None:
        del meta
        self.got += values

    def flush(self) -> None:
        """Nothing is held."""


class Whole(Rows):
    """A writer that takes columns too."""

    takes_columns = True

    def write_columns(self, values: ColumnValues, meta: Any) -> None:
        del meta
        self.got.append(values)


def test_a_fanout_gives_columns_to_those_who_take_them_and_objects_to_the_others() -> None:
    rows, whole = Rows(), Whole()
    fanout = Fanout([rows, whole])
    values = numbers(3)
    assert fanout.takes_columns
    fanout.write_columns(values, timed(3))
    assert (rows.got, whole.got) == ([0, 1, 2], [values])
    assert not Fanout([rows]).takes_columns


def test_columns_go_to_a_neighbour_after_the_elements_that_came_before() -> None:
    pushed: list[Any] = []
    writer = LocalWriter(
        lambda values, _: pushed.extend(values), lambda values, _: pushed.append(values)
    )
    values = numbers(2)
    writer.process(GlobalWindows.windowed_value("first"))
    writer.write_columns(values, timed(2))
    assert pushed == ["first", values]
    assert writer.takes_columns
    assert not LocalWriter(lambda values, _: None).takes_columns
