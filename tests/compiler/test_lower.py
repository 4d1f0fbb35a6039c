"""What functions become as expressions, and what is refused with which words."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple, Optional

import apache_beam as beam
import pytest

from headrace.compiler.lower.one_step import NotLowered, lower, promised
from headrace.compiler.lower.shapes import shape_of_hint
from headrace.plan.expressions import Lowered
from headrace.plan.shapes import Shape, TupleShape

LIMIT = 100
DAY = 24 * 60 * 60
RATES = {"eur": 0.89, "usd": 1.0}
CHANGED = {"eur": 0.89}
CHANGED["usd"] = 1.0
if LIMIT:
    SOMETIMES = 3


class Bid(NamedTuple):
    auction: int
    price: int
    channel: str
    note: Optional[str]  # noqa: UP045 (as a user of an older Python writes it)
    weight: float


@dataclasses.dataclass(frozen=True)
class Priced:
    key: str
    price: float = 0.5


def shape_of(hint: Any) -> Shape:
    found = shape_of_hint(hint)
    assert found is not None
    return found


BID = shape_of(Bid)


def told(transform: Any, shape: Shape = BID) -> str:
    """The expression of a step, or why there is none."""
    made = lower(transform.fn, shape, transform.args, transform.kwargs)
    return f"not lowered: {made.reason}" if isinstance(made, NotLowered) else str(made)


def lowered(transform: Any, shape: Shape = BID) -> Lowered:
    made = lower(transform.fn, shape, transform.args, transform.kwargs)
    assert isinstance(made, Lowered), made
    return made


# What is lowered ----------------------------------------------------------------------------------


def test_a_lambda_over_fields_becomes_its_arithmetic() -> None:
    made = lowered(beam.Map(lambda b: (b.auction, b.price * 89 // 100)))
    assert str(made) == "(x.auction, ((x.price * 89) // 100))"
    assert str(made.result) == "(int, int)"
    assert made.reads == (0, 1)


def test_a_filter_keeps_the_element_and_says_when() -> None:
    made = lowered(beam.Filter(lambda b: b.price > LIMIT and b.note))
    assert made.gives is None and made.result == BID
    assert str(made) == "element if ((x.price > 100) and bool(x.note))"


def test_names_in_a_tuple_are_its_places() -> None:
    pair = shape_of(tuple[str, int])
    assert told(beam.MapTuple(lambda k, v: (v, k)), pair) == "(x[1], x[0])"
    assert told(beam.Map(lambda kv: kv[-1] % 7), pair) == "(x[1] % 7)"
    inner = shape_of(tuple[str, tuple[int, int]])
    assert told(beam.MapTuple(lambda k, v: (k, *v, *v)), inner) == (
        "(x[0], x[1][0], x[1][1], x[1][0], x[1][1])"
    )


def early(b: Any) -> Any:
    if b.note is None:
        return "none", 0
    size = len(b.note)
    if size > 3:
        size = 3
    return b.note[:3], size


def test_early_returns_and_assignments_in_branches_become_choices() -> None:
    made = lowered(beam.Map(early))
    assert str(made.result) == "(str, int)"
    assert str(made).startswith("(('none', 0) if x.note is None else ")


def some(b: Any) -> Iterator[Any]:
    if b.price > 10:
        yield b.auction


def test_a_generator_with_one_yield_gives_where_its_test_holds() -> None:
    assert told(beam.FlatMap(some)) == "x.auction if (x.price > 10)"
    assert told(beam.FlatMap(lambda b: [b.price] if b.price else [])) == "x.price if bool(x.price)"


def _line(text: str) -> int:
    with open(__file__, encoding="utf-8") as file:
        return next(n for n, line in enumerate(file, 1) if text in line)


class Scale(beam.DoFn):  # type: ignore[misc]
    def __init__(self, by: int) -> None:
        self.by = by

    def process(self, element: Any) -> Any:
        return [element._replace(price=self._scaled(element.price))]

    def _scaled(self, price: int) -> int:
        return price // self.by


def test_a_dofn_is_lowered_with_its_fields_and_methods() -> None:
    made = lowered(beam.ParDo(Scale(10)))
    assert str(made) == "Bid(x.auction, (x.price // 10), x.channel, x.note, x.weight)"
    assert made.result == BID


@dataclasses.dataclass(frozen=True, slots=True)
class Slotted:
    by: int

    def of(self, bid: Any) -> int:
        return bid.price // self.by  # type: ignore[no-any-return]


@dataclasses.dataclass(frozen=True, slots=True)
class Odd(Slotted):
    def __setstate__(self, state: Any) -> None:
        object.__setattr__(self, "by", 7)


def test_a_bound_method_is_lowered_with_the_slots_of_its_frozen_dataclass() -> None:
    assert told(beam.Map(Slotted(10).of)) == "(x.price // 10)"
    assert "not lowered: uses the method self.by" in told(beam.Map(Odd(10).of))


def helper(price: int, rate: float = 0.5) -> float:
    return price * rate


def test_helpers_partials_and_further_arguments_are_read_in_their_place() -> None:
    assert told(beam.Map(lambda b: helper(b.price))) == "(x.price * 0.5)"
    assert told(beam.Map(functools.partial(scaled, by=3))) == "(x.price * 3)"
    assert told(beam.Map(scaled, 4)) == "(x.price * 4)"


def scaled(b: Any, by: int) -> Any:
    return b.price * by


def test_constants_of_modules_and_closures_are_taken_in() -> None:
    rate = 7
    assert told(beam.Map(lambda b: b.price * rate + DAY)) == "((x.price * 7) + 86400)"
    assert told(beam.Map(lambda b: RATES[b.channel])) == "{'eur', 'usd'}[x.channel]"
    assert told(beam.Map(lambda b: RATES.get(b.channel, 2.0))) == (
        "{'eur', 'usd'}.get(x.channel, 2.0)"
    )


def test_what_raises_without_being_used_stays_in_the_expression() -> None:
    def unused(b: Any) -> Any:
        channel = b.price // b.auction
        channel = (1 // b.price, b.channel)[1]
        return channel

    assert told(beam.Map(unused)) == "[(x.price // x.auction), (1 // x.price); x.channel]"


def first_of(a: int, b: int) -> int:
    return a if a else b


def test_an_argument_that_a_helper_does_not_come_to_is_evaluated_all_the_same() -> None:
    assert told(beam.Map(lambda b: first_of(b.auction, 1 // b.price))) == (
        "[(1 // x.price); (x.auction if x.auction else (1 // x.price))]"
    )


def test_records_are_made_of_their_fields_with_defaults() -> None:
    made = lowered(beam.Map(lambda b: Priced(b.channel)))
    assert str(made.result) == "Priced(key: str, price: float)"
    rows = lowered(beam.Map(lambda b: beam.Row(a=b.auction, w=math.floor(b.weight))))
    assert str(rows.result) == "Row(a: int, w: int)"


def _selecting(*fields: Any, **named: Any) -> Any:
    """The step that `beam.Select` makes."""
    made: list[Any] = []

    class Visitor(beam.pipeline.PipelineVisitor):  # type: ignore[misc]
        def visit_transform(self, node: Any) -> None:
            if isinstance(node.transform, beam.ParDo):
                made.append(node.transform)

    pipeline = beam.Pipeline()
    rows = pipeline | beam.Impulse() | "Bids" >> beam.Map(lambda _: None).with_output_types(Bid)
    rows | beam.Select(*fields, **named)
    pipeline.visit(Visitor())
    return made[-1]


def test_a_select_is_the_row_of_its_functions() -> None:
    made = lowered(_selecting("auction", twice=lambda b: b.price * 2))
    assert str(made) == "Row(x.auction, (x.price * 2))"
    assert str(made.result) == "Row(auction: int, twice: int)"
    assert "calls print" in told(_selecting("auction", shown=print))


def test_functions_of_python_are_steps_too() -> None:
    text = shape_of(str)
    assert told(beam.Map(len), text) == "len(x)"
    assert told(beam.Map(lambda b: getattr(b, "price") + 1)) == "(x.price + 1)"  # noqa: B009
    assert "calls getattr" in told(beam.Map(lambda b: getattr(b, "price", 1)))
    assert told(beam.Map(str.upper), text) == "str.upper(x)"
    assert told(beam.Map(int), text) == "int(x)"


def in_millis(moment: Any) -> int:
    return int(moment.micros // 1_000)


def test_a_window_is_known_by_its_start_and_end() -> None:
    pair = shape_of(tuple[str, int])
    asks = beam.Map(lambda kv, w=beam.DoFn.WindowParam: (kv[0], in_millis(w.start), w.end.micros))
    made = lowered(asks, pair)
    assert str(made) == "(x[0], int((window.start.micros // 1000)), window.end.micros)"
    assert made.window and str(made.shape) == "((str, int), (int, int))"


@pytest.mark.parametrize(
    ("transform", "reason"),
    [
        (beam.Map(lambda b, w=beam.DoFn.WindowParam: (b.price, w)), "its window as a value"),
        (beam.Map(lambda b, w=beam.DoFn.WindowParam: w.start), "its window as a value"),
        (beam.Map(lambda b, w=beam.DoFn.WindowParam: w.max_timestamp().micros), "calls .max_time"),
        (beam.Map(lambda b, w=beam.DoFn.WindowParam: str(w)), ""),
        (beam.Map(lambda b, w=beam.DoFn.WindowParam: type(w) is Bid), "gave up on its code"),
        (beam.Map(lambda b, w=beam.DoFn.WindowParam: b.price if w.start else 0), "is true"),
        (beam.Map(lambda b, w=beam.DoFn.WindowParam: w.start < w.end), "compares"),
        (beam.Map(lambda b, w=beam.DoFn.WindowParam: w.start.seconds), "uses the method"),
        (beam.Map(lambda b, t=beam.DoFn.TimestampParam: t.micros), "uses"),
        (beam.Filter(lambda b, w=beam.DoFn.WindowParam: w.start.micros > 0), "its window as"),
    ],
)  # fmt: skip
def test_of_a_window_nothing_else_is_known(transform: Any, reason: str) -> None:
    found = told(transform)
    assert found.startswith("not lowered: ") and reason in found


# What is not --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("transform", "reason"),
    [
        (beam.Map(lambda b: print(b)), "calls print in line "),
        (beam.Map(lambda b: b.price / 2 if b.price else 0), "gives float or int in line "),
        (beam.Map(lambda b: [x for x in b.channel]), "uses a list comprehension in line "),
        (beam.Map(lambda b: {b.channel: 1}), "makes a dict {b.channel: 1} in line "),
        (beam.Map(lambda b: b.weight == b.channel), "compares float == str in line "),
        (beam.Map(lambda b: b.missing), "uses the method b.missing as a value in line "),
        (beam.Map(lambda b: b.price + 2**64), "uses an int of more than 64 bits in line "),
        (beam.Map(lambda b: (1, *b.channel)), "uses a starred item in line "),
        (beam.Map(lambda b: None), "gives nothing but None"),
        (beam.Map(lambda b: CHANGED[b.channel]), "CHANGED, which may have another value"),
        (beam.Map(lambda b: b.price + SOMETIMES), "SOMETIMES, which may have another value"),
        (beam.FlatMap(lambda b: b.channel), "returns an iterable of open length in line "),
    ],
)  # fmt: skip
def test_a_refusal_says_what_and_in_which_line(transform: Any, reason: str) -> None:
    found = told(transform)
    assert found.startswith("not lowered: ") and reason in found


class Counting(beam.DoFn):  # type: ignore[misc]
    def start_bundle(self) -> None:
        self.seen = 0

    def process(self, element: Any) -> Any:
        yield element.price


def test_a_dofn_with_a_lifecycle_is_not_lowered() -> None:
    assert told(beam.ParDo(Counting())) == "not lowered: has start_bundle"


def loops(b: Any) -> int:
    total = 0
    for n in range(b.price):
        total += n
    return total


def test_a_loop_is_refused_by_its_line() -> None:
    line = _line("for n in range(b.price)")
    assert told(beam.Map(loops)) == f"not lowered: has a for loop in line {line}"


def test_without_its_text_a_function_is_not_lowered() -> None:
    made = eval("lambda b: b.price")
    assert told(beam.Map(made)) == "not lowered: the source of <lambda> is not at hand"


def test_an_annotation_promises_what_elements_are() -> None:
    def annotated(b: Bid) -> int:
        return b.price

    assert promised(beam.Map(annotated).fn) == BID
    assert promised(beam.Map(lambda b: b).fn) is None


def test_a_shape_is_told_as_text() -> None:
    assert str(BID) == "Bid(auction: int, price: int, channel: str, note: str?, weight: float)"
    assert shape_of(tuple[int, tuple[str, Any]]) == shape_of(tuple[int, tuple[str, list[int]]])
    assert isinstance(shape_of(tuple[int, str]), TupleShape)
    assert shape_of_hint(Any) is None and shape_of_hint(int | str) is None
