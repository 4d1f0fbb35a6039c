"""Types that Beam knows of collections and coders lose: explain tells them, answers stay."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms import combiners

from headrace.compiler.compile import compile_pipeline
from headrace.compiler.lower.shapes import shape_of_hint
from headrace.compiler.proto.element_types import note_element_types, refined
from headrace.plan.shapes import INT, OTHER, TEXT, TupleShape
from headrace.testing import LocalRunner


class Bid(NamedTuple):
    """Of a class that nobody has registered a coder for."""

    auction: int
    price: int
    name: str


@dataclasses.dataclass
class Offer:
    auction: int
    price: int


SEEN: list[Any] = []


def note(value: Any) -> None:
    SEEN.append(value)


def by_field(bids: Any) -> Any:
    return bids | beam.GroupBy("auction").aggregate_field("price", sum, "total")


#: What the last step of these gives.
TOLD: dict[str, tuple[Any, Callable[[Any], Any], str]] = {
    "named tuple": (Bid, lambda it: it, "Bid(auction: int, price: int, name: str)"),
    "dataclass": (Offer, lambda it: it, "Offer(auction: int, price: int)"),
    "select": (Bid, lambda it: it | beam.Select("name", "price"), "Row(name: str, price: int)"),
    "row": (Bid, lambda it: it | beam.Map(lambda b: beam.Row(a=b.auction)), "Row(a: int)"),
    "aggregated": (Bid, by_field, "Result(auction: int, total: int)"),
    "of a pair": (
        tuple[str, Bid], lambda it: it, "(str, Bid(auction: int, price: int, name: str))",
    ),
    "count": (
        Offer,
        lambda it: it | beam.GroupBy("auction").aggregate_field(
            "price", combiners.CountCombineFn(), "n"
        ),
        "Result(auction: int, n: int)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TOLD)
def test_what_a_hint_says_of_a_collection_is_known_behind_it(name: str) -> None:
    hint, steps, expected = TOLD[name]
    pipeline = beam.Pipeline()
    steps(pipeline | beam.Create([None]).with_output_types(hint)) | "Last" >> beam.Map(lambda x: x)
    note_element_types(pipeline)
    plan = compile_pipeline(pipeline.to_runner_api(), shards=2)
    (last,) = (o for o in plan.operators if o.operator_id == "Last")
    assert str(last.gives) == expected


@pytest.mark.parametrize("mode", ["--columns=on", "--columns=off", "--verify_columns"])
@pytest.mark.parametrize(
    ("bids", "wanted"),
    [
        ([Bid(1, 2, "a"), Bid(1, 3, "b")], [(1, 5, int)]),
        ([Bid(1, 2.5, "a"), Bid(1, 3, "b")], [(1, 5.5, float)]),  # type: ignore[arg-type]
        ([Bid(1, True, "a"), Bid(1, 2**63, "b")], [(1, 2**63 + 1, int)]),
    ],
    ids=["true", "float", "wide"],
)
def test_a_hint_that_is_false_changes_no_answer(
    bids: list[Bid], wanted: list[Any], mode: str
) -> None:
    SEEN.clear()
    with beam.Pipeline(LocalRunner(), PipelineOptions(["--shards=2", mode])) as p:
        by_field(p | beam.Create(bids).with_output_types(Bid)) | "Note" >> beam.Map(note)
    assert [(key, total, type(total)) for key, total in SEEN] == wanted


def test_a_coder_is_believed_before_a_hint() -> None:
    told = shape_of_hint(tuple[str, Bid])
    assert refined(TupleShape((TEXT, OTHER)), told) == told
    assert refined(TupleShape((INT, OTHER)), told) == TupleShape((INT, told.items[1]))  # type: ignore[union-attr]
    assert refined(INT, TEXT) == INT and refined(None, TEXT) == TEXT and refined(INT, None) == INT
