"""Recognises the user functions that may run on whole batches.

Takes a DoFn as Beam unpickled it, gives the plain function inside and what it returns per element.
A DoFn qualifies when `process` wants nothing but the element, its time, window and pane, and
arguments that were given with the transform and never differ: no side inputs, state, timers, or
bundle finaliser, and it does not handle batches itself.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any

from apache_beam.internal.util import ArgumentPlaceholder
from apache_beam.runners import common
from apache_beam.transforms import core, userstate

from headrace.plan.traits import BLOCK_METHOD
from headrace.worker.batched.parameters import Begin, Filled, can_fill, filled

#: Default values that ask Beam to fill an argument in; any other default is the user's own.
_FILLED_IN = (
    core._DoFnParam, userstate.StateSpec, userstate.TimerSpec, ArgumentPlaceholder  # noqa: SLF001
)


class Shape(Enum):
    """What a call of the function gives."""

    ONE = "one"  # the one output
    KEEP = "keep"  # whether the element passes
    MANY = "many"  # an iterable of outputs, or None; never a text or a dict
    FLAT = "flat"  # FlatMap's: the same, but a text or a dict is taken apart like a list
    STREAM = "stream"  # a generator of outputs, never None
    BLOCK = "block"  # a list of outputs, and a list of their times in microseconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A function on one element and its shape."""

    function: Callable[[Any], Any]
    shape: Shape
    begin: Begin | None = None  # must be told of each batch before; None: it need not


def signature_of(fn: Any) -> Any | None:
    """Give what Beam finds out about the methods of a DoFn; None: Beam will say what is wrong.

    It looks at every attribute of the DoFn, which takes milliseconds: once is enough.
    """
    try:
        return common.DoFnSignature(fn)
    except (TypeError, ValueError):
        return None


def step_of(fn: Any, args: Any, kwargs: Any, signature: Any | None = None) -> Step | None:
    """Give the function inside a DoFn, or None if it must run element by element.

    Args:
        fn: the DoFn.
        args: the transform's own.
        kwargs: the transform's own.
        signature: of the DoFn, if it is at hand.
    """
    if fn._process_batch_defined or not fn._process_defined:  # noqa: SLF001
        return None
    args, kwargs = args or (), kwargs or {}
    if any(map(_is_filled_in, (*args, *kwargs.values()))):
        return None
    if getattr(fn, "_process_yields_batches", False):
        return None
    signature = signature or signature_of(fn)
    if signature is None:
        return None
    method = signature.process_method
    if signature.is_stateful_dofn() or signature.is_splittable_dofn():
        return None
    if any(map(_is_filled_in, method.defaults)):
        return _step_with_parameters(fn, method, args, kwargs)
    inner = _unwrapped(fn)
    if inner is not None:
        function, shape = inner
        return Step(function=_bound(function, args, kwargs), shape=shape)
    block = getattr(fn, BLOCK_METHOD, None)
    if block is not None and not args and not kwargs:
        return Step(function=block, shape=Shape.BLOCK)
    return Step(function=_bound(fn.process, args, kwargs), shape=_shape_of(fn))


def _step_with_parameters(fn: Any, method: Any, args: Any, kwargs: Any) -> Step | None:
    """Give the step of a DoFn that asks for more than its element."""
    if not all(can_fill(default) for default in method.defaults if _is_filled_in(default)):
        return None
    inner = _unwrapped(fn)
    function, shape = (fn.process, _shape_of(fn)) if inner is None else inner
    call = filled(function, method, args, kwargs)
    return None if call is None else Step(function=call.function, shape=shape, begin=call.begin)


def step_with(call: Filled, fn: Any) -> Step:
    """Give the step of a function that calls a DoFn's `process`."""
    return Step(function=call.function, shape=_shape_of(fn), begin=call.begin)


def _shape_of(fn: Any) -> Shape:
    """Give what `process` gives."""
    if isinstance(fn, core.CallableWrapperDoFn):
        return Shape.FLAT
    return Shape.STREAM if inspect.isgeneratorfunction(fn.process) else Shape.MANY


def wants_whole(signature: Any | None) -> bool:
    """Whether a DoFn looks at whole windowed values, and so at how its windows are held."""
    if signature is None:
        return False
    wished = core.DoFn.WindowedValueParam
    defaults = signature.process_method.defaults
    return any(_is_filled_in(default) and default == wished for default in defaults)


def _bound(function: Any, args: Any, kwargs: Any) -> Callable[[Any], Any]:
    """Give the function of the element alone; the other arguments are always the same."""
    if not args:
        return partial(function, **kwargs) if kwargs else function
    return lambda x: function(x, *args, **kwargs)


def _is_filled_in(default: Any) -> bool:
    """Whether Beam fills this argument in; the bundle finaliser is asked for by its class."""
    if isinstance(default, type):
        return issubclass(default, _FILLED_IN)
    return isinstance(default, _FILLED_IN)


def _unwrapped(fn: Any) -> tuple[Callable[..., Any], Shape] | None:
    """See through the lambdas that Map, Filter and their kin put around the user's function."""
    if type(fn) is not core.CallableWrapperDoFn:
        return None
    wrapper = fn._fn  # noqa: SLF001 (Beam's wrapper has no public door)
    code = getattr(wrapper, "__code__", None)
    if code is None or not code.co_filename.endswith("apache_beam/transforms/core.py"):
        return None
    if code.co_freevars != ("fn",) or code.co_flags & inspect.CO_GENERATOR:
        return None
    inner = wrapper.__closure__[0].cell_contents
    match wrapper.__qualname__:
        case "Map.<locals>.<lambda>":
            return inner, Shape.ONE
        case "Filter.<locals>.<lambda>":
            return inner, Shape.KEEP
        case "MapTuple.<locals>.<lambda>":
            return lambda x, *args, **kwargs: inner(*x, *args, **kwargs), Shape.ONE
        case _:
            return None
