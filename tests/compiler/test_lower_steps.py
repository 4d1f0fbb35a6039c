"""Shapes and expressions of whole pipelines, as the plan has them and as explain tells them."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam.transforms.window import FixedWindows

from headrace.compiler.compile import compile_pipeline
from headrace.lab.workloads.hibench.fixwindow import FirstAndCount
from headrace.plan.explain import COLUMNS, explain
from headrace.plan.supersteps import Plan


class Bid(NamedTuple):
    auction: int
    price: int


def bid_of(line: str) -> Bid:
    auction, price = line.split(",")
    return Bid(int(auction), int(price))


def compiled(steps: Callable[[Any], Any]) -> Plan:
    pipeline = beam.Pipeline()
    steps(pipeline)
    return compile_pipeline(pipeline.to_runner_api(), shards=2)


def columns_of(plan: Plan) -> list[str]:
    """What explain says of the steps that follow Create."""
    lines = explain(plan, columns=True).partition(COLUMNS)[2].splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith("  Create/Map(decode)"))
    return lines[start + 3 :]


def test_what_group_by_makes_of_fields_is_known() -> None:
    plan = compiled(
        lambda p: p
        | beam.Create(["1,20", "2,30"])
        | "Bids" >> beam.Map(bid_of)
        | "Group" >> beam.GroupBy("auction", odd=lambda b: b.price % 2)
        .aggregate_field("price", sum, "total")
        .aggregate_field(lambda b: b.price * 2, beam.combiners.MeanCombineFn(), "mean")
        | "Chosen" >> beam.Select("odd", most=lambda r: r.total + 1)
    )
    lines = columns_of(plan)[3:]
    told = [line.strip() for line in lines if line.startswith("    ")]
    assert told == [
        "on columns  (Key(x.auction, (x.price % 2)), [x.price, (x.price * 2)])",
        "gives       (Key(auction: int, odd: int), [int, int])",
        "on columns  2 combines side by side",
        "gives       (Row(auction: int, odd: int), (int, float))",
        "on columns  Result(x[0].auction, x[0].odd, x[1][0], x[1][1])",
        "gives       Result(auction: int, odd: int, total: int, mean: float)",
        "on columns  Row(x.odd, (x.total + 1))",
        "gives       Row(odd: int, most: int)",
    ]


def test_rows_of_named_tuples_keep_their_types_into_a_group_by() -> None:
    plan = compiled(
        lambda p: p
        | beam.Create(["1,20", "2,30"])
        | "Bids" >> beam.Map(bid_of)
        | "Rows" >> beam.Map(lambda b: beam.Row(of=b.auction, half=b.price / 2))
        | "Group" >> beam.GroupBy("of").aggregate_field("half", max, "most")
    )
    assert columns_of(plan)[5] == "    gives       Row(of: int, half: float)"
    assert columns_of(plan)[-1] == "    gives       Result(of: int, most: float)"


def test_combines_of_which_one_is_not_known_are_left_to_objects() -> None:
    several = beam.combiners.TupleCombineFn(sum, beam.combiners.ToListCombineFn())
    plan = compiled(
        lambda p: p
        | beam.Create(["1,20", "2,30"])
        | "Bids" >> beam.Map(bid_of)
        | "Pairs" >> beam.Map(lambda b: (b.auction, (b.price, b.price)))
        | "All" >> beam.CombinePerKey(several)
    )
    first, *rest = columns_of(plan)[-2:]
    assert first.startswith("    on objects  because it ")
    assert rest == ["    gives       (int, (int, object))"]


def test_shapes_follow_the_expressions_from_step_to_step() -> None:
    plan = compiled(
        lambda p: p
        | beam.Create(["1,20", "2,30"])
        | "Bids" >> beam.Map(bid_of)
        | "Dear" >> beam.Filter(lambda b: b.price > 25)
        | "Pairs" >> beam.Map(lambda b: (b.auction, b.price * 89 // 100))
        | "Windows" >> beam.WindowInto(FixedWindows(10))
        | "Sum" >> beam.CombinePerKey(sum)
        | "Texts" >> beam.MapTuple(lambda k, v: f"{k}={v}")
        | "Shown" >> beam.Map(print)
    )
    part = "split_part(x, ',', -1, 2, {})".format
    assert columns_of(plan) == [
        "  Bids",
        f"    on columns  Bid(int({part(0)}), int({part(1)}))",
        "    gives       Bid(auction: int, price: int)",
        "  Dear",
        "    on columns  element if (x.price > 25)",
        "    gives       Bid(auction: int, price: int)",
        "  Pairs",
        "    on columns  (x.auction, ((x.price * 89) // 100))",
        "    gives       (int, int)",
        "  Windows",
        "    gives       (int, int)",
        "  Sum",
        "    gives       (int, int)",
        "  Texts",
        "    on columns  ((format(x[0], '') + '=') + format(x[1], ''))",
        "    gives       str",
        "  Shown",
        "    on objects  because it calls print",
        "    gives       not known",
    ]


def test_an_annotation_is_a_promise_where_nothing_else_is_known() -> None:
    def price(b: Bid) -> Any:
        return b.price

    plan = compiled(
        lambda p: p | beam.Create([object]) | "Any" >> beam.Map(lambda x: x()) | beam.Map(price)
    )
    assert columns_of(plan) == [
        "  Any",
        "    on objects  because it gets elements of which no type is known",
        "    gives       not known",
        "  Map(price)",
        "    on columns  x.price",
        "    gives       int",
    ]


def test_a_stage_names_its_lowered_steps_and_survives_pickling() -> None:
    plan = compiled(lambda p: p | beam.Create([1, 2]) | "Twice" >> beam.Map(lambda x: x * 2))
    lowered = [found for stage in plan.stages() for _, found in stage.lowered]
    assert "(x * 2)" in [str(found) for found in lowered]
    again = pickle.loads(pickle.dumps(plan))
    assert [found for stage in again.stages() for _, found in stage.lowered] == lowered
    assert hash(lowered[0]) == hash(pickle.loads(pickle.dumps(lowered[0])))


def test_a_step_with_a_side_input_or_several_outputs_stays_on_objects() -> None:
    pipeline = beam.Pipeline()
    numbers = pipeline | beam.Create([1, 2])
    side = beam.pvalue.AsList(numbers)
    _ = numbers | "Side" >> beam.Map(lambda x, y: x, side)
    _ = numbers | "Two" >> beam.FlatMap(lambda x: [x]).with_outputs("a", main="b")
    plan = compile_pipeline(pipeline.to_runner_api(), shards=2)
    reasons = {o.operator_id: o.not_lowered for o in plan.operators}
    assert reasons["Side"] == "has side inputs"  # type: ignore[index]
    assert [why for name, why in reasons.items() if name.startswith("Two")] == [
        "has several outputs"
    ]


def test_the_parts_of_a_combine_know_its_folds() -> None:
    plan = compiled(
        lambda p: p
        | beam.Create(["1,20", "2,30"])
        | "Bids" >> beam.Map(bid_of)
        | "Pairs" >> beam.Map(lambda b: (b.auction, b.price))
        | "First" >> beam.CombinePerKey(FirstAndCount())
        | "Row" >> beam.MapTuple(lambda k, found: (k, *found))
    )
    told = [(t.rpartition("/")[2], str(c)) for s in plan.stages() for t, c in s.combines]
    assert [text for _, text in told] == ["min of x, sum of 1; gives (x[0], x[1])"] * 3
    assert columns_of(plan)[-6:] == [
        "  First",
        "    on columns  min of x, sum of 1; gives (x[0], x[1])",
        "    gives       (int, (int, int))",
        "  Row",
        "    on columns  (x[0], x[1][0], x[1][1])",
        "    gives       (int, int, int)",
    ]
    assert pickle.loads(pickle.dumps(plan)) == plan
