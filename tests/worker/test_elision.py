"""A grouping whose exchange the compiler left out gives what it gives with the exchange."""

from __future__ import annotations

import apache_beam as beam
import pytest

from headrace.plan.supersteps import ChannelKind
from tests.worker.harness import collect, on_headrace

PAIRS = [(n % 23, n) for n in range(400)]


def regroup(p: beam.Pipeline) -> None:
    """Group, hand the key on unchanged, group again."""
    first = p | beam.Create(PAIRS).with_output_types(tuple[int, int]) | "First" >> beam.GroupByKey()
    sums = first | "Sum" >> beam.MapTuple(lambda k, vs: (k, sum(vs))).with_output_types(
        tuple[int, int]
    )
    again = sums | "Again" >> beam.GroupByKey()
    again | beam.MapTuple(lambda k, vs: (k, list(vs))) | collect()


@pytest.mark.parametrize("shards", [1, 2, 3, 7])
def test_a_grouping_without_its_exchange_finds_every_key_once(shards: int) -> None:
    collected, result = on_headrace(regroup, shards=shards)
    in_place = [c for c in result.plan.channels if c.group_by_target]
    assert [c.kind for c in in_place] == [ChannelKind.LOCAL]  # it really was left out
    by_hand = [(key, [sum(n for n in range(400) if n % 23 == key)]) for key in range(23)]
    assert sorted(collected["out"]) == by_hand
