"""Which groupings need no exchange, on real Beam pipelines: the key's way is told by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import apache_beam as beam
import pytest

from headrace.compiler.analyse import analyse
from headrace.compiler.elide import elidable_groupings
from headrace.compiler.ingest import ingest
from headrace.compiler.one_channel import one_channel
from tests.compiler import snippets


def elided(
    build: Callable[[beam.PCollection], object], *, ordered: bool = False
) -> dict[str, str]:
    pipeline = beam.Pipeline()
    build(pipeline | "pairs" >> beam.Create([("a", 1)]))
    graph = analyse(ingest(pipeline.to_runner_api()))
    found = elidable_groupings(graph, one_channel(graph) if ordered else None)
    return {str(name): why for name, why in found.items()}


def first(pairs: beam.PCollection) -> beam.PCollection:
    return pairs | "first" >> beam.CombinePerKey(sum)


def second(pairs: beam.PCollection) -> beam.PCollection:
    return pairs | "second" >> beam.GroupByKey()


def test_a_grouping_right_after_a_grouping_is_elided() -> None:
    assert elided(lambda p: second(first(p))) == {
        "second": "grouped by the same key (string_utf8) in first, and handed on unchanged since"
    }


class CountsAll(beam.DoFn):  # type: ignore[misc]
    """Hands the key on, and depends on all elements before."""

    def setup(self) -> None:
        self._count = 0

    def process(self, pair: tuple[str, int]) -> Iterator[tuple[str, int]]:
        self._count += 1
        yield pair[0], self._count


HANDS_ON = [
    beam.Map(lambda kv: (kv[0], kv[1] + 1)).with_output_types(tuple[str, int]),
    beam.MapTuple(lambda k, v: (k, v)).with_output_types(tuple[str, int]),
    beam.Filter(lambda kv: kv[1] > 0),
    beam.WindowInto(beam.window.FixedWindows(5)),
    beam.ParDo(snippets.KeyByUnpacking()).with_output_types(tuple[str, int]),
]


@pytest.mark.parametrize("between", HANDS_ON, ids=lambda t: t.label)
def test_operators_that_hand_the_key_on_do_not_matter(between: Any) -> None:
    assert set(elided(lambda p: second(first(p) | between))) == {"second"}


CHANGES = [
    beam.Map(lambda kv: (kv[0].lower(), kv[1])).with_output_types(tuple[str, int]),
    beam.Map(lambda kv: (str(kv[1]), kv[1])).with_output_types(tuple[str, int]),
    beam.ParDo(snippets.KeySwapped()).with_output_types(tuple[str, int]),
    beam.Reshuffle(),
    # The same key in another encoding sits on another shard.
    beam.Map(lambda kv: (kv[0], kv[1])).with_output_types(tuple[object, int]),
]


@pytest.mark.parametrize("between", CHANGES, ids=lambda t: t.label)
def test_operators_that_may_change_or_move_the_key_keep_the_exchange(between: Any) -> None:
    assert elided(lambda p: second(first(p) | "between" >> between)) == {}


def test_a_grouping_inside_a_redistribution_is_never_elided() -> None:
    found = elided(lambda p: first(p) | "again" >> beam.Reshuffle() | beam.GroupByKey())
    assert found == {}


def test_nothing_is_elided_without_a_grouping_before() -> None:
    assert elided(second) == {}


def test_state_by_the_same_key_is_elided_and_counts_as_a_grouping() -> None:
    def build(pairs: beam.PCollection) -> object:
        kept = first(pairs) | "state" >> beam.ParDo(snippets.Stateful()).with_output_types(
            tuple[str, int]
        )
        return second(kept)

    assert set(elided(build)) == {"state", "second"}


def test_branches_of_one_grouping_may_meet_again() -> None:
    def build(pairs: beam.PCollection) -> object:
        sums = first(pairs)
        low = sums | "low" >> beam.Filter(lambda kv: kv[1] < 3)
        high = sums | "high" >> beam.Filter(lambda kv: kv[1] >= 3)
        return second((low, high) | "meet" >> beam.Flatten())

    assert set(elided(build)) == {"second"}
    # In order they are merged by their numbers, whatever their keys.
    assert elided(build, ordered=True) == {}


def test_an_ordered_run_elides_what_nothing_moves() -> None:
    between = beam.Map(lambda kv: (kv[0], kv[1] + 1)).with_output_types(tuple[str, int])
    assert set(elided(lambda p: second(first(p) | between), ordered=True)) == {"second"}


def test_behind_one_channel_elements_are_dealt_out_and_not_in_place() -> None:
    def build(pairs: beam.PCollection) -> object:
        counted = beam.ParDo(CountsAll()).with_output_types(tuple[str, int])
        after = beam.Map(lambda kv: (kv[0], kv[1] + 1)).with_output_types(tuple[str, int])
        return second(first(pairs) | "counted" >> counted | "after" >> after)

    assert set(elided(build)) == {"second"}
    assert elided(build, ordered=True) == {}


def test_branches_from_two_groupings_of_one_depth_may_meet() -> None:
    def build(pairs: beam.PCollection) -> object:
        other = pairs | "other" >> beam.CombinePerKey(max)
        return second((first(pairs), other) | "meet" >> beam.Flatten())

    found = elided(build)
    assert set(found) == {"second"}
    assert "first and other" in found["second"]


def test_a_branch_that_was_never_grouped_keeps_the_exchange() -> None:
    assert elided(lambda p: second((first(p), p) | "meet" >> beam.Flatten())) == {}


def test_branches_of_unequal_depth_keep_the_exchange() -> None:
    def build(pairs: beam.PCollection) -> object:
        late = (
            first(pairs)
            | "shift"
            >> beam.Map(lambda kv: (kv[0] + "x", kv[1])).with_output_types(tuple[str, int])
            | "late" >> beam.CombinePerKey(max)
        )
        early = pairs | "early" >> beam.CombinePerKey(min)
        return second((late, early) | "meet" >> beam.Flatten())

    assert elided(build) == {}


def test_a_side_input_on_the_way_keeps_the_exchange() -> None:
    def build(pairs: beam.PCollection) -> object:
        view = beam.pvalue.AsIter(pairs)
        with_side = beam.Map(lambda kv, s: (kv[0], 1), view).with_output_types(tuple[str, int])
        return second(first(pairs) | "side" >> with_side)

    assert elided(build) == {}


def test_a_side_input_that_may_be_fused_behind_the_grouping_keeps_the_exchange() -> None:
    def build(pairs: beam.PCollection) -> object:
        view = beam.pvalue.AsIter(pairs)
        return second(first(pairs)) | "side" >> beam.Map(lambda kv, s: kv, view)

    assert elided(build) == {}
