"""Reports that travel together: what comes out is what went in, in parts that are small."""

from __future__ import annotations

import os

import pytest

from headrace.worker.exchange.packed_reports import PART_BYTES, packed, unpacked
from headrace.worker.exchange.super_tuples import REPORT_CHANNEL, SuperTuple, to_batch


@pytest.mark.parametrize("sizes", [[], [[0]], [[5], [70_000, 3]], [[10]] * 50])
def test_reports_come_out_as_they_went_in(sizes: list[list[int]]) -> None:
    sent = [[(at, os.urandom(size)) for at, size in enumerate(batch)] for batch in sizes]
    batches = [
        to_batch([SuperTuple(0, 2, REPORT_CHANNEL, 4, seq, 1, data) for seq, data in batch])
        for batch in sent
    ]
    parts = [part for batch in packed(batches) for part in batch.column(0).to_pylist()]
    assert all(0 < len(part) <= PART_BYTES for part in parts)
    assert unpacked(parts) == [pair for batch in sent for pair in batch]
