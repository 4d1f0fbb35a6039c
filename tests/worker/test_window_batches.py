"""Windows with few keys leave in one batch: the same groups, times, windows, in the same order."""

from __future__ import annotations

from typing import Any

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.window import FixedWindows, IntervalWindow, TimestampedValue
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import PaneInfo, PaneInfoTiming, WindowedValue
from hypothesis import given
from hypothesis import strategies as st

from headrace.plan.shapes import INT, TupleShape
from headrace.testing import LocalRunner
from headrace.worker.batched import column_batches
from headrace.worker.batched.batches import Columns, Meta
from headrace.worker.batched.column_batches import as_rows, columns_in_millis
from headrace.worker.columns.values import ColumnValues, of_objects
from headrace.worker.exchange.keyed_columns import Span
from headrace.worker.grouping import window_batches
from headrace.worker.grouping.window_batches import push_columns

PANES = [PaneInfo(True, True, PaneInfoTiming.ON_TIME, n, n) for n in range(2)]
#: For each window: its keys, and which pane it has.
_FOUND = st.lists(
    st.tuples(st.lists(st.integers(0, 9), min_size=1, max_size=9), st.sampled_from([0, 0, 0, 1])),
    max_size=12,
)


class Taken:
    """A step that takes columns, and writes down each element."""

    takes_columns = True

    def __init__(self) -> None:
        self.elements: list[Any] = []
        self.calls = self.shared = 0

    def __call__(self, values: list[Any], meta: Meta) -> None:
        raise AssertionError(values, meta)

    def columns(self, values: ColumnValues, meta: Meta) -> None:
        self.calls += 1
        for part, its in as_rows(values, columns_in_millis(meta)):
            self.shared += not isinstance(its, Columns)
            for at, (key, accumulators) in enumerate(part):
                self.elements.append((key, list(accumulators), *_of(its, at)))


def _of(meta: Meta, at: int) -> tuple[Any, Any, Any]:
    if isinstance(meta, Columns):
        return meta.times[at], meta.windows[at], meta.panes[at]
    return meta.timestamp_micros, meta.windows, meta.pane_info


@given(found=_FOUND, few=st.integers(0, 9), most=st.integers(1, 20), run=st.integers(1, 40))
def test_groups_are_what_they_are_window_by_window(
    found: list[tuple[list[int], int]], few: int, most: int, run: int
) -> None:
    panes: dict[Span, Meta] = {}
    batches: list[tuple[Span, ColumnValues]] = []
    expected = []
    for number, (keys, pane) in enumerate(found):
        span = (number * 1_000_500 - 2_000_000, number * 1_000_500 - 1_000_000)
        window = IntervalWindow(Timestamp(micros=span[0]), Timestamp(micros=span[1]))
        panes[span] = WindowedValue(None, window.max_timestamp(), (window,), PANES[pane])
        pairs = of_objects([(key, key * number) for key in keys], TupleShape((INT, INT)))
        assert pairs is not None
        batches.append((span, pairs))
        micros = window.max_timestamp().micros
        cut = abs(micros) // 1_000 * 1_000 * (1 if micros >= 0 else -1)
        expected += [(key, [key * number], cut, (window,), PANES[pane]) for key in keys]
    taken = Taken()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(window_batches, "FEW_ROWS", few)
        patch.setattr(window_batches, "COLUMN_ROWS", most)
        patch.setattr(column_batches, "RUN_ROWS", run)
        push_columns(batches, panes.__getitem__, taken)
    assert taken.elements == expected


def test_many_small_windows_are_few_calls() -> None:
    pairs = of_objects([(1, 2)], TupleShape((INT, INT)))
    assert pairs is not None
    taken = Taken()
    spans = [(n, n + 1) for n in range(0, 5_000_000, 1_000)]

    def pane(span: Span) -> Meta:
        window = IntervalWindow(Timestamp(micros=span[0]), Timestamp(micros=span[1]))
        return WindowedValue(None, window.max_timestamp(), (window,), PANES[0])

    push_columns([(span, pairs) for span in spans], pane, taken)
    assert taken.calls == 1
    assert len(taken.elements) == len(spans)


def test_steps_of_objects_are_given_windows_one_by_one() -> None:
    pairs = of_objects([(key, key) for key in range(100)], TupleShape((INT, INT)))
    assert pairs is not None
    taken = Taken()
    spans = [(n, n + 1) for n in range(0, 20_000, 1_000)]
    metas = {
        span: WindowedValue(None, Timestamp(micros=span[0]), (span,), PANES[0]) for span in spans
    }
    push_columns([(span, pairs) for span in spans], metas.__getitem__, taken)
    assert taken.calls == 1
    assert taken.shared == len(spans)


def test_what_is_grouped_again_keeps_its_windows() -> None:
    """Counts of windows, counted again: the second grouping tells windows of one batch apart."""
    with beam.Pipeline(runner=LocalRunner()) as p:
        found = (
            p
            | beam.Create([7]).with_output_types(int)
            | beam.FlatMap(lambda n: range(n * 100)).with_output_types(int)
            | beam.Map(lambda n: TimestampedValue((n % 7, 1), n)).with_output_types(tuple[int, int])
            | beam.WindowInto(FixedWindows(10))
            | beam.CombinePerKey(sum)
            | beam.Map(lambda pair: (pair[1], 1)).with_output_types(tuple[int, int])
            | "Again" >> beam.CombinePerKey(sum)
            | beam.Map(lambda pair, window=beam.DoFn.WindowParam: (window.start, *pair))
        )
        # Ten seconds have three keys twice and four keys once.
        begins = map(Timestamp, range(0, 700, 10))
        right = [(begin, *pair) for begin in begins for pair in [(2, 3), (1, 4)]]
        assert_that(found, equal_to(right))
