"""What a pipeline may say that does not concern this runner, and errors sent aside."""

from __future__ import annotations

from typing import Any

import apache_beam as beam

from tests.worker.harness import collect, gathered, gathered_by_beam


class Noted(beam.PTransform):  # type: ignore[misc]
    def annotations(self) -> dict[str, Any]:
        return {"owner": "mill", "raw": b"bytes"}

    def expand(self, numbers: beam.PCollection) -> beam.PCollection:
        return numbers | beam.Map(lambda x: x + 1)


def test_resource_hints_and_annotations_change_nothing() -> None:
    def build(p: beam.Pipeline) -> None:
        numbers = p | beam.Create([1, 2, 3])
        hinted = numbers | beam.Map(lambda x: x * 2).with_resource_hints(
            min_ram="30GB", accelerator="type:t;count:1;install-driver"
        )
        hinted | Noted() | collect()

    assert gathered(build) == [3, 5, 7]


def test_exception_handling_sends_bad_elements_aside_as_on_beam() -> None:
    def build(p: beam.Pipeline) -> None:
        numbers = p | beam.Create([4, 0, 2, 0])
        good, bad = numbers | beam.Map(lambda x: 8 // x).with_exception_handling()
        good | "Good" >> beam.Map(lambda x: ("good", x)) | "A" >> collect()
        bad | "Bad" >> beam.Map(lambda pair: ("bad", pair[0])) | "B" >> collect()

    found = gathered(build)
    assert found == gathered_by_beam(build)
    assert sorted(found) == [("bad", 0), ("bad", 0), ("good", 2), ("good", 4)]
