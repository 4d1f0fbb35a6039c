"""Recognises the user functions that may run on whole batches.

Takes a DoFn as Beam unpickled it, gives the plain function inside and what it returns per element.
A DoFn qualifies when `process` wants nothing but the element, its time, window and pane, side
inputs, and arguments that were given with the transform and never differ: no state, timers, or
bundle finaliser, and it does not handle batches itself.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any

from apache_beam.internal.util import ArgumentPlaceholder
from apache_beam.runners import common
from apache_beam.transforms import core, userstate

from headrace.plan.traits import BLOCK_METHOD
from headrace.worker.batched.parameters import Begin, Filled, can_fill, filled
from headrace.worker.beam_operations import DoFn, Method, SideInputMap, Signature
from headrace.worker.beam_types import OfOne, UserFunction, Value

#: Default values that ask Beam to fill an argument in; any other default is the user's own.
_FILLED_IN = (
    core._DoFnParam, userstate.StateSpec, userstate.TimerSpec, ArgumentPlaceholder  # noqa: SLF001
)


class Results(Enum):
    """What a call of the function gives."""

    ONE = "one"  # the one output
    KEEP = "keep"  # whether the element passes
    MANY = "many"  # an iterable of outputs, or None; never a text or a dict
    FLAT = "flat"  # FlatMap's: the same, but a text or a dict is taken apart like a list
    STREAM = "stream"  # a generator of outputs, never None
    BLOCK = "block"  # a list of outputs, and a list of their times in microseconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A function on one element and its results."""

    function: OfOne
    results: Results
    begin: Begin | None = None  # must be told of each batch before; None: it need not


def signature_of(fn: DoFn) -> Signature | None:
    """Give what Beam finds out about the methods of a DoFn; None: Beam will say what is wrong.

    It looks at every attribute of the DoFn, which takes milliseconds: once is enough.
    """
    try:
        found: Signature = common.DoFnSignature(fn)
    except (TypeError, ValueError):
        return None
    return found


def step_of(
    fn: DoFn, args: Sequence[Value], kwargs: Mapping[str, Value],
    signature: Signature | None = None, sides: Sequence[SideInputMap] = (),
) -> Step | None:
    """Give the function inside a DoFn, or None if it must run element by element.

    Args:
        fn: the DoFn.
        args: the transform's own.
        kwargs: the transform's own.
        signature: of the DoFn, if it is at hand.
        sides: Beam's maps from window to side input, in the order of their places.
    """
    if fn._process_batch_defined or not fn._process_defined:  # noqa: SLF001
        return None
    args, kwargs = args or (), kwargs or {}
    asked = [one for one in (*args, *kwargs.values()) if _is_filled_in(one)]
    if len(asked) != len(sides) or not all(isinstance(a, ArgumentPlaceholder) for a in asked):
        return None
    if getattr(fn, "_process_yields_batches", False):
        return None
    signature = signature or signature_of(fn)
    if signature is None:
        return None
    method = signature.process_method
    if signature.is_stateful_dofn() or signature.is_splittable_dofn():
        return None
    if sides or any(map(_is_filled_in, method.defaults)):
        return _step_with_parameters(fn, method, args, kwargs, sides)
    inner = _unwrapped(fn)
    if inner is not None:
        function, results = inner
        return Step(function=_bound(function, args, kwargs), results=results)
    block = getattr(fn, BLOCK_METHOD, None)
    if block is not None and not args and not kwargs:
        return Step(function=block, results=Results.BLOCK)
    return Step(function=_bound(fn.process, args, kwargs), results=_results_of(fn))


def _step_with_parameters(
    fn: DoFn, method: Method, args: Sequence[Value], kwargs: Mapping[str, Value],
    sides: Sequence[SideInputMap],
) -> Step | None:
    """Give the step of a DoFn that asks for more than its element."""
    if not all(can_fill(default) for default in method.defaults if _is_filled_in(default)):
        return None
    inner = _unwrapped(fn)
    function, results = (fn.process, _results_of(fn)) if inner is None else inner
    call = filled(function, method, args, kwargs, sides)
    return None if call is None else Step(function=call.function, results=results, begin=call.begin)


def step_with(call: Filled, fn: DoFn) -> Step:
    """Give the step of a function that calls a DoFn's `process`."""
    return Step(function=call.function, results=_results_of(fn), begin=call.begin)


def _results_of(fn: DoFn) -> Results:
    """Give what `process` gives."""
    if isinstance(fn, core.CallableWrapperDoFn):
        return Results.FLAT
    return Results.STREAM if inspect.isgeneratorfunction(fn.process) else Results.MANY


def wants_whole(signature: Signature | None) -> bool:
    """Whether a DoFn looks at whole windowed values, and so at how its windows are held."""
    if signature is None:
        return False
    wished = core.DoFn.WindowedValueParam
    defaults = signature.process_method.defaults
    return any(_is_filled_in(default) and default == wished for default in defaults)


def _bound(function: UserFunction, args: Sequence[Value], kwargs: Mapping[str, Value]) -> OfOne:
    """Give the function of the element alone; the other arguments are always the same."""
    if not args:
        return partial(function, **kwargs) if kwargs else function
    return lambda x: function(x, *args, **kwargs)


def _is_filled_in(default: Value) -> bool:
    """Whether Beam fills this argument in; the bundle finaliser is asked for by its class."""
    if isinstance(default, type):
        return issubclass(default, _FILLED_IN)
    return isinstance(default, _FILLED_IN)


def _unwrapped(fn: DoFn) -> tuple[UserFunction, Results] | None:
    """See through the lambdas that Map, Filter and their kin put around the user's function."""
    if type(fn) is not core.CallableWrapperDoFn:
        return None
    wrapper: Any = fn._fn  # noqa: SLF001 (Beam's wrapper has no public door)
    code = getattr(wrapper, "__code__", None)
    if code is None or not code.co_filename.endswith("apache_beam/transforms/core.py"):
        return None
    if code.co_freevars != ("fn",) or code.co_flags & inspect.CO_GENERATOR:
        return None
    inner = wrapper.__closure__[0].cell_contents
    match wrapper.__qualname__:
        case "Map.<locals>.<lambda>":
            return inner, Results.ONE
        case "Filter.<locals>.<lambda>":
            return inner, Results.KEEP
        case "MapTuple.<locals>.<lambda>":
            return lambda x, *args, **kwargs: inner(*x, *args, **kwargs), Results.ONE
        case _:
            return None
