"""Finds the user's function inside a DoFn, and how Beam calls it.

Takes a DoFn instance, looks through what Map, Filter, FlatMap, MapTuple, partials, caches and bound
methods wrap around a callable. Gives subjects: a callable, how its arguments relate to the element,
and how its result becomes output. Calls nothing of the user's.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from types import CodeType, FunctionType
from typing import Any

import apache_beam as beam
from apache_beam.transforms.core import CallableWrapperDoFn, Select, _TimerDoFnParam
from apache_beam.transforms.userstate import TimerSpec

from headrace.compiler.code.calls import callee

_TIMER = _TimerDoFnParam


class Takes(Enum):
    """How the element reaches the callable."""

    ELEMENT = "element"  # as its first argument
    SPREAD = "spread"  # as one argument for each item: the key is the first argument


class Emits(Enum):
    """How the callable's result becomes output."""

    RESULT = "result"  # the result is the one output
    ITEMS = "items"  # what it yields, or the items of what it returns
    PREDICATE = "predicate"  # the element itself, if the result is true


@dataclass(frozen=True, slots=True)
class Subject:
    """A callable of the user, and the part it plays."""

    function: object  # a Python function where one could be found, else any callable
    owner: object | None  # what its first parameter `self` is bound to; None: no such parameter
    takes: Takes
    emits: Emits
    bound_positional: int = 0  # arguments that a partial puts before the element
    bound_names: frozenset[str] = frozenset()  # arguments that a partial gives by name


@functools.cache
def _wrappers() -> dict[CodeType, tuple[Takes, Emits]]:
    """Beam's own wrapper lambdas, known by their code: made once here, compared by value."""

    def one(x: Any) -> Any:
        return x

    def two(x: Any, y: Any) -> Any:
        return x, y

    def three(x: Any, y: Any, z: Any = None) -> Any:
        return x, y, z

    made: list[tuple[Any, Takes, Emits]] = [
        (beam.Map(one), Takes.ELEMENT, Emits.RESULT),
        (beam.Map(two, 1), Takes.ELEMENT, Emits.RESULT),
        (beam.MapTuple(one), Takes.SPREAD, Emits.RESULT),
        (beam.MapTuple(two), Takes.SPREAD, Emits.RESULT),
        (beam.MapTuple(three, 1), Takes.SPREAD, Emits.RESULT),
        (beam.FlatMapTuple(three, 1), Takes.SPREAD, Emits.ITEMS),
        (beam.FlatMapTuple(one), Takes.SPREAD, Emits.ITEMS),
        (beam.FlatMapTuple(two), Takes.SPREAD, Emits.ITEMS),
        (beam.Filter(one), Takes.ELEMENT, Emits.PREDICATE),
        (beam.Filter(two, 1), Takes.ELEMENT, Emits.PREDICATE),
    ]
    return {vars(p.fn)["_fn"].__code__: (takes, emits) for p, takes, emits in made}


_SELECTING = "Select.expand.<locals>.<lambda>"


def wrapped_callable(dofn: object) -> object | None:
    """The callable that Map, Filter or FlatMap was given; None for a DoFn class."""
    if not isinstance(dofn, CallableWrapperDoFn):
        return None
    fn: object = vars(dofn).get("_fn")
    if isinstance(fn, FunctionType) and fn.__code__ in _wrappers():
        return closure_of(fn).get("fn", fn)
    return fn


def selected(target: object) -> dict[str, object] | None:
    """The functions that `beam.Select` was given, by field; None: something else made the target.

    Beam makes a function of its own that calls them for every element, by way of a dict.
    """
    if not isinstance(target, FunctionType) or target.__qualname__ != _SELECTING:
        return None
    owner = closure_of(target).get("self")
    return dict(vars(owner)["_fields"]) if type(owner) is Select else None


def asks_for_window(function: object) -> str | None:
    """The parameter by which a function asks for the window of its element; None: it does not."""
    if not isinstance(function, FunctionType) or not function.__defaults__:
        return None
    code, defaults = function.__code__, function.__defaults__
    names = code.co_varnames[code.co_argcount - len(defaults) : code.co_argcount]
    wanted = beam.DoFn.WindowParam  # a function that travelled has another one, which equals it
    pairs = zip(names, defaults, strict=True)
    asked = [name for name, d in pairs if type(d) is type(wanted) and d == wanted]
    return asked[0] if len(asked) == 1 else None


def subject_of(dofn: object) -> Subject:
    """What runs for each element of a DoFn."""
    if not isinstance(dofn, CallableWrapperDoFn):
        replaced = hasattr(dofn, "__dict__") and "process" in vars(dofn)
        process = None if replaced else _method(dofn, "process")  # replaced: calls are not followed
        return Subject(process, dofn, Takes.ELEMENT, Emits.ITEMS)
    fn = vars(dofn).get("_fn")
    takes, emits = Takes.ELEMENT, Emits.ITEMS
    if isinstance(fn, FunctionType) and fn.__code__ in _wrappers():
        takes, emits = _wrappers()[fn.__code__]
        fn = closure_of(fn).get("fn", fn)
    return _callable(fn, takes, emits)


def lifecycle(dofn: object) -> Iterator[tuple[str, FunctionType]]:
    """The other methods through which a DoFn may keep or emit something, as far as it has them."""
    if isinstance(dofn, CallableWrapperDoFn):
        return
    for name in ("setup", "start_bundle", "process_batch", "finish_bundle", "teardown"):
        method = _method(dofn, name)
        if isinstance(method, FunctionType) and not _is_beams(method):
            yield name, method
    for spec in _timers(dofn):
        # Beam's on_timer leaves the method on the timer's description.
        callback = getattr(spec, "_attached_callback", None)
        if isinstance(callback, FunctionType):
            yield "on_timer", callback


def _timers(dofn: object) -> set[object]:
    """The descriptions of timers: fields of the class, or named by a method's parameter."""
    found: set[object] = set()
    for cls in type(dofn).__mro__:
        for value in vars(cls).values():
            found |= {value} if isinstance(value, TimerSpec) else set()
            if isinstance(value, FunctionType):
                defaults = (*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values())
                found |= {getattr(d, "timer_spec", None) for d in defaults if isinstance(d, _TIMER)}
    return found - {None}


def _callable(fn: object, takes: Takes, emits: Emits) -> Subject:
    found = callee(fn)
    if found is None:
        return Subject(fn, None, takes, emits)
    positional = found.taken - int(found.owner is not None)
    return Subject(found.function, found.owner, takes, emits, positional, found.named)


def _method(instance: object, name: str) -> object | None:
    """The plain function behind a method, found without asking the instance."""
    try:
        found = inspect.getattr_static(type(instance), name)
    except AttributeError:
        return None
    return found.__func__ if isinstance(found, staticmethod | classmethod) else found


def _is_beams(function: Callable[..., Any]) -> bool:
    """Whether it is the empty method that every DoFn inherits."""
    return function.__qualname__.startswith("DoFn.") and function.__module__.startswith(
        "apache_beam."
    )


def closure_of(fn: FunctionType) -> dict[str, object]:
    """What the names of a function's closure are bound to."""
    found: dict[str, object] = {}
    for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:
            continue  # an empty cell: the name is not bound yet
    return found
