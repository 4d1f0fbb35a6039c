"""Lowers a step: from the user's function to an expression over columns.

Takes a DoFn, what it is given beside the element, and the shape of its elements. Gives a `Lowered`,
or the reason why there is none, with the line of the user's text. For functions with one output or
none for each element, whose text is at hand and is that of the code that runs.
"""

from __future__ import annotations

import ast
import functools
import logging
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import FunctionType, MethodType, SimpleNamespace
from typing import get_type_hints

from headrace.compiler.code.names import static_attribute
from headrace.compiler.code.subject import (
    Emits,
    Subject,
    Takes,
    asks_for_window,
    lifecycle,
    selected,
    subject_of,
    wrapped_callable,
)
from headrace.compiler.lower import build
from headrace.compiler.lower.build import Unlowerable
from headrace.compiler.lower.calls import known_name
from headrace.compiler.lower.ends import End, Given, given_of, kept_of, value_of
from headrace.compiler.lower.folding import folding_of, only_folds
from headrace.compiler.lower.grouping import of_grouping
from headrace.compiler.lower.items import getter, iterated
from headrace.compiler.lower.operands import Operand, as_expression, operand_of
from headrace.compiler.lower.ranges import ranged_of
from headrace.compiler.lower.shapes import row_record, shape_of_hint
from headrace.compiler.lower.statements import end_of
from headrace.compiler.lower.times import unstamped
from headrace.plan.expressions import (
    WINDOW,
    Constant,
    Construct,
    Expression,
    Leaf,
    Lowered,
    nodes,
    once_each,
)
from headrace.plan.lowered_steps import Folding, LoweredStep, Ranged
from headrace.plan.shapes import (
    INT,
    NONE,
    ClassFound,
    DictShape,
    RecordShape,
    ScalarShape,
    Shape,
    TupleShape,
    width,
)

_LOGGER = logging.getLogger(__name__)

#: Methods that may stand around one that only folds: they see what it has folded.
_AROUND = ("setup", "start_bundle", "finish_bundle", "teardown")
_HERE = ast.Name("it")  # where a step is a function of Python's own, there is no text


#: A window and its moments, as far as columns know them. They have no class: none can be made.
_MOMENT = RecordShape("moment", ("micros",), (INT,), ClassFound.PICKLED)
MOMENTS = RecordShape("window", ("start", "end"), (_MOMENT, _MOMENT), ClassFound.PICKLED)


@dataclass(frozen=True, slots=True)
class NotLowered:
    """Why a step is computed on objects."""

    reason: str


def lower(
    dofn: object,
    shape: Shape,
    args: Sequence[object] = (),
    kwargs: Mapping[str, object] | None = None,
    element: Expression | None = None,
) -> LoweredStep | NotLowered:
    """What a DoFn computes from elements of a shape.

    Args:
        dofn: an instance.
        shape: of its elements.
        args: what it is given beside the element, as in `beam.Map(f, 3)`.
        kwargs: the same by name.
        element: what it is given, if the leaves of the shape only stand for it.
    """
    try:
        made = _lowered(dofn, shape, args, kwargs or {}, element or element_of(shape, "x"))
    except Unlowerable as e:
        return NotLowered(str(e))
    except Exception as e:  # odd code must cost speed, never the pipeline
        _LOGGER.debug("a step was not lowered", exc_info=True)
        return NotLowered(f"the analysis gave up on its code ({type(e).__name__})")
    match made:
        case Ranged():
            return replace(made, body=once_each(made.body))
        case Folding():
            return replace(made, feeds=once_each(made.feeds))
        case _:
            return once_each(made)


def promised(dofn: object) -> Shape | None:
    """The shape that the annotation of a function's first parameter promises for its elements."""
    subject = subject_of(dofn)
    function = subject.function
    if subject.takes is not Takes.ELEMENT or not isinstance(function, FunctionType):
        return None
    taken = subject.bound_positional + int(subject.owner is not None)
    code = function.__code__
    if taken >= code.co_argcount:
        return None
    name = code.co_varnames[taken]
    annotated = function.__annotations__.get(name)
    # A function that travels by value leaves the names behind that its annotations speak of.
    module = vars(sys.modules[function.__module__]) if function.__module__ in sys.modules else {}
    try:
        only = SimpleNamespace(__annotations__={name: annotated})
        hint = get_type_hints(only, {**module, **function.__globals__})[name]
    except Exception:  # noqa: BLE001 (a user's annotation may name anything)
        return None
    return None if annotated is None else shape_of_hint(hint)


def _lowered(
    dofn: object, shape: Shape, args: Sequence[object], kwargs: Mapping[str, object],
    element: Expression,
) -> LoweredStep:
    subject = subject_of(dofn)
    folds = only_folds(dofn, subject.function)
    for name, _ in lifecycle(dofn):
        if not folds or name not in _AROUND:
            msg = f"has {name}"
            raise Unlowerable(msg)
    given: list[Operand] = [element]
    if subject.takes is Takes.SPREAD:
        spread = None if isinstance(shape, DictShape) else iterated(element)
        if spread is None:
            msg = f"spreads {shape}"
            raise Unlowerable(msg)
        given = list(spread)
    given += [operand_of(a) for a in args]
    named = {name: operand_of(v) for name, v in kwargs.items()}
    target = _for_columns(wrapped_callable(dofn), shape)
    window = asks_for_window(subject.function if target is None else target)
    if window is not None and window not in named:
        named[window] = element_of(MOMENTS, "window", width(shape))
    if folds:
        assert isinstance(subject.function, FunctionType)
        folding = folding_of(dofn, subject.function, shape, given, named)
        return folding if window is None else replace(folding, feeds=with_window(folding.feeds))
    fields = None if target is None else selected(target)
    ranged = None if fields is not None else _ranged(target, subject, given, named, shape)
    if ranged is not None:
        if window is not None:
            msg = "asks for its window"
            raise Unlowerable(msg)
        return ranged
    if fields is not None:
        items = [value_of(_end(f, None, list(given), {}, Emits.RESULT)) for f in fields.values()]
        end: End = Given(build.construct(items, row_record(tuple(fields))))
    elif grouped := of_grouping(target, given, lambda f: result_of_call(f, element)):
        end = Given(grouped)
    elif target is None:
        end = _end(subject.function, subject.owner, given, named, Emits.ITEMS)
    else:
        end = _end(target, None, given, named, subject.emits)
    made = lowered_of(end, shape, subject.emits)
    return made if window is None else with_window(made)


def _ranged(
    target: object,
    subject: Subject,
    given: list[Operand],
    named: dict[str, Operand],
    shape: Shape,
) -> Ranged | None:
    """What a function gives that goes through a range of numbers; None: it goes through none."""
    function: object = subject.function if target is None else target
    owner = subject.owner if target is None else None
    if isinstance(function, MethodType):
        owner, function = function.__self__, function.__func__
    if subject.emits is not Emits.ITEMS or not isinstance(function, FunctionType):
        return None
    return ranged_of(function, owner, given, named, shape)


def _for_columns(target: object, shape: Shape) -> object:
    """The function that a callable of ours names for elements of a shape, where it knows one.

    What looks at each element for itself cannot be followed; of a shape it may know the answer.
    """
    named = static_attribute(type(target), "for_columns")
    found = named(target, shape) if isinstance(named, FunctionType) else None
    return target if found is None else found


def result_of_call(target: object, element: Expression) -> Expression:
    """What calling an object with an element gives."""
    return value_of(_end(target, None, [element], {}, Emits.RESULT))


def with_window(made: Lowered) -> Lowered:
    """The same step, of an element and its window."""
    if made.gives is None or any(
        node.shape in (MOMENTS, _MOMENT) for root in made.roots for node in nodes(root)
    ):
        msg = "uses its window as a value"
        raise Unlowerable(msg)
    return replace(made, shape=TupleShape((made.shape, WINDOW)), window=True)


def element_of(shape: Shape, name: str, start: int = 0) -> Expression:
    """The element itself, taken apart down to its leaves."""
    if isinstance(shape, ScalarShape):
        return Leaf(start, shape, name)
    items: list[Expression] = []
    for place, item in enumerate(shape.items):
        path = f"{name}[{place}]"
        if isinstance(shape, DictShape):
            path = f"{name}[{shape.names[place]!r}]"
        elif isinstance(shape, RecordShape):
            path = f"{name}.{shape.names[place]}"
        made = element_of(item, path, start)
        items.append(made)
        start += width(item)
    return Construct(tuple(items), shape)


def lowered_of(end: End, shape: Shape, emits: Emits) -> Lowered:
    """What an end of a function says of its outputs."""
    if emits is Emits.PREDICATE:
        return Lowered(shape=shape, gives=None, keeps=build.test(value_of(end)))
    kept = kept_of(end)
    always = isinstance(kept, Constant) and kept.value is True
    if isinstance(kept, Constant) and not always:
        msg = "gives no output"
        raise Unlowerable(msg)
    given = given_of(end)
    if given is None or given.shape == NONE:
        msg = "gives nothing but None"
        raise Unlowerable(msg)
    given, micros = unstamped(given)
    return Lowered(shape=shape, gives=given, keeps=None if always else kept, micros=micros)


def _end(
    target: object,
    owner: object | None,
    given: list[Operand],
    named: dict[str, Operand],
    emits: Emits,
) -> End:
    """Where calling an object leads."""
    if isinstance(target, functools.partial):
        before = [operand_of(a) for a in target.args]
        held = {name: operand_of(v) for name, v in target.keywords.items()}
        return _end(target.func, None, [*before, *given], {**held, **named}, emits)
    if isinstance(target, MethodType):
        return _end(target.__func__, target.__self__, given, named, emits)
    if isinstance(target, FunctionType):
        return _followed(target, owner, given, named, emits)
    asked = getter(target)
    if asked is not None and emits is not Emits.ITEMS and not named:
        return _followed(asked[0], None, [*given, *asked[1]], {}, emits)
    name = known_name(target)
    if name is not None and emits is not Emits.ITEMS and not named:
        return Given(build.call(name, [as_expression(g, _HERE) for g in given]))
    call = static_attribute(type(target), "__call__")
    if isinstance(call, FunctionType) and not isinstance(target, type):
        return _followed(call, target, given, named, emits)
    msg = f"calls {getattr(target, '__qualname__', type(target).__name__)}"
    raise Unlowerable(msg)


def _followed(
    function: FunctionType,
    owner: object | None,
    given: list[Operand],
    named: dict[str, Operand],
    emits: Emits,
) -> End:
    items, asked = emits is Emits.ITEMS, emits is Emits.PREDICATE
    return end_of(function, owner, given, named, emits=items, asked=asked)
