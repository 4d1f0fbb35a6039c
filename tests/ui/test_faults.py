"""Eleven faults in streams that run: each is named within three epochs."""

from __future__ import annotations

import pytest

from tests.ui.faults import FAULTS, Fault, diagnosed, rows, running, state_of, well

NAMES = [fault.name for fault in FAULTS]


@pytest.mark.parametrize("fault", FAULTS, ids=NAMES)
def test_a_fault_is_named_within_three_epochs(fault: Fault) -> None:
    before, said, epochs = diagnosed(fault)
    assert before == []
    assert any(sentence.startswith(fault.says) for sentence in said), said
    assert epochs <= 3


def test_a_run_that_is_well_is_told_nothing() -> None:
    with running(well, ("--shards=4",)) as (bed, result):
        for batch in range(12):
            bed.stream.add(*rows(batch))
            result.settle()
            assert state_of(result.page_url)["findings"] == []
