"""What travels through the exchange that stands for a Reshuffle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.transforms.core import RestrictionProvider

from tests.worker.harness import collect, gathered


class UpTo(RestrictionProvider):  # type: ignore[misc]
    def initial_restriction(self, element: int) -> OffsetRange:
        return OffsetRange(0, element)

    def create_tracker(self, restriction: OffsetRange) -> Any:
        return OffsetRestrictionTracker(restriction)

    def restriction_size(self, element: int, restriction: OffsetRange) -> int:
        return int(restriction.size())


TRACKER = beam.DoFn.RestrictionParam(UpTo())


class CountsAndAdds(beam.DoFn):  # type: ignore[misc]
    def process(
        self,
        element: int,
        more: int,
        tracker: Any = TRACKER,
    ) -> Any:
        at = tracker.current_restriction().start
        while tracker.try_claim(at):
            yield element, at + more
            at += 1


def test_a_splittable_dofn_may_have_a_side_input() -> None:
    def build(p: beam.Pipeline) -> None:
        more = p | "more" >> beam.Create([10])
        side = beam.pvalue.AsSingleton(more)
        counted = p | beam.Create([2, 3]) | beam.ParDo(CountsAndAdds(), side)
        _ = counted | collect()

    assert gathered(build) == [(2, 10), (2, 11), (3, 10), (3, 11), (3, 12)]


@pytest.mark.parametrize("shards", [1, 3])
def test_csv_files_are_read_with_their_header_as_a_side_input(tmp_path: Path, shards: int) -> None:
    (tmp_path / "a.csv").write_text("n,word\n1,one\n2,two\n", encoding="utf-8")

    def build(p: beam.Pipeline) -> None:
        rows = p | beam.io.ReadFromCsv(str(tmp_path / "*.csv"))
        _ = rows | beam.Map(lambda row: (int(row.n), str(row.word))) | collect()

    assert gathered(build, shards=shards) == [(1, "one"), (2, "two")]
