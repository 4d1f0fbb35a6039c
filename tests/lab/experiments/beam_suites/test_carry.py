"""What functions leave in their process comes back, though a pickle lies between."""

from __future__ import annotations

import sys
from typing import Any

import apache_beam as beam
from apache_beam.internal import pickler

from headrace.lab.experiments.beam_suites.carry import carried_records
from headrace.lab.experiments.beam_suites.swap import runs_on


class KeepsRecords:
    all_records: list[Any]
    WEIGHT = 3

    def record(self, element: Any) -> None:
        KeepsRecords.all_records.append(element)


def recorder() -> Any:
    def record(element: Any) -> None:
        KeepsRecords.all_records.append(element)

    return record


def test_records_of_a_pickled_function_are_seen_in_the_class_in_their_order() -> None:
    with carried_records(sys.modules[__name__], [KeepsRecords]):
        KeepsRecords.all_records = []
        far = pickler.loads(pickler.dumps(recorder()))
        far("a")
        far(2)
        assert KeepsRecords.all_records == ["a", 2]
        far(3)
        KeepsRecords.all_records = []
        far(4)
        assert KeepsRecords.all_records == [4]
    assert isinstance(KeepsRecords, type)


def test_all_else_of_the_class_is_there_for_a_pickled_function() -> None:
    with carried_records(sys.modules[__name__], [KeepsRecords]):
        far = pickler.loads(pickler.dumps(lambda: KeepsRecords.WEIGHT))
        assert far() == 3


Generated = type("Generated", (), {})


def test_a_class_that_keeps_no_records_is_left_alone() -> None:
    with carried_records(sys.modules[__name__], [Generated]):
        assert isinstance(Generated, type)


def test_a_list_piped_into_a_transform_gets_its_result_from_another_process() -> None:
    with runs_on("processes"):
        assert sorted([1, 2] | beam.Map(lambda x: (x, "y"))) == [(1, "y"), (2, "y")]
