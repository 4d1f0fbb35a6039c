"""Spares the tests' processes what Beam works out again for each of thousands of small pipelines.

`install` puts functions of this module in the place of Beam's, in this process alone. A view of
Beam's own options is parsed once for each set of flags, the parameters of a method are read once,
and that a DoFn's class has no state is found once: of a pipeline that runs for half a second, Beam
takes a third for these. The answers are Beam's, in objects of their own; whatever could answer
differently the next time goes to Beam's own function. Knows nothing of headrace: its options and
its code are read each time.
"""

from __future__ import annotations

import argparse
import sys
from types import FunctionType, MethodType
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms import core, userstate

beams_view_as = PipelineOptions.view_as
beams_parameters = core.get_function_args_defaults
beams_specs = userstate.get_dofn_specs


def install() -> None:
    """Let Beam ask here, from now on and in this process."""
    PipelineOptions.view_as = view_as
    core.get_function_args_defaults = parameters
    userstate.get_dofn_specs = specs


#: By class and flags: the values of a view's options, or None where each view needs its own.
_views: dict[tuple[type, tuple[str, ...]], dict[str, Any] | None] = {}


def view_as(self: Any, cls: Any) -> Any:
    """Do what `PipelineOptions.view_as` does, and build no parser where the answer is known."""
    flags = sys.argv[1:] if self._flags is None else self._flags  # as argparse has it
    plain = (
        isinstance(flags, list)
        and cls.__module__.startswith("apache_beam.")
        and cls.__init__ is PipelineOptions.__init__
    )
    if not plain:
        return beams_view_as(self, cls)
    key = (cls, tuple(flags))
    if key not in _views:
        # A view of nothing else: what this pipeline has set is no part of the answer.
        values = dict(sorted(vars(cls(self._flags)._visible_options).items()))
        _views[key] = values if all(map(_can_be_copied, values.values())) else None
    known = _views[key]
    if known is None:
        return beams_view_as(self, cls)
    values = {name: _copy(value) for name, value in known.items()}
    view = cls.__new__(cls)
    view._flags = self._flags
    view._visible_options = argparse.Namespace(**values)
    for name, value in values.items():
        self._all_options.setdefault(name, value)
    view._all_options = self._all_options
    return view


_UNCHANGING = (bool, int, float, str, type(None))


def _can_be_copied(value: object) -> bool:
    """Whether a value is a constant or a list of constants; a ValueProvider, say, is neither."""
    return type(value) in _UNCHANGING or (
        type(value) is list and all(type(v) in _UNCHANGING for v in value)
    )


def _copy(value: Any) -> Any:
    return list(value) if type(value) is list else value


class _Read(NamedTuple):
    """What was read of a function, and what must still be the same for it to hold."""

    code: object
    defaults: object
    names: tuple[str, ...]
    values: tuple[object, ...]


_read: WeakKeyDictionary[FunctionType, _Read] = WeakKeyDictionary()

#: What on a function would send `inspect.signature` elsewhere.
_ELSEWHERE = frozenset(("__wrapped__", "__signature__", "_partialmethod"))


def parameters(f: Any) -> tuple[list[str], list[Any]]:
    """Do what `get_function_args_defaults` does, and once for each function behind a method."""
    function = f.__func__ if type(f) is MethodType else None
    if type(function) is not FunctionType or not _ELSEWHERE.isdisjoint(function.__dict__):
        return beams_parameters(f)  # type: ignore[no-any-return]
    known = _read.get(function)
    if (
        known is None
        or known.code is not function.__code__
        or known.defaults is not function.__defaults__
    ):
        names, values = beams_parameters(f)
        known = _Read(function.__code__, function.__defaults__, tuple(names), tuple(values))
        _read[function] = known
    return list(known.names), list(known.values)


#: By class, the names that an object has for itself: without state and timers while the class is
#: as it was. Numbers of objects alone: what a test has made can go when the test is over.
_plain: WeakKeyDictionary[type, dict[frozenset[str], int]] = WeakKeyDictionary()


def specs(dofn: Any) -> tuple[set[Any], set[Any]]:
    """Do what `get_dofn_specs` does, and once for a class that has neither state nor timers."""
    own = getattr(dofn, "__dict__", None)
    if own is None or any(type(value) is MethodType for value in own.values()):
        return beams_specs(dofn)  # type: ignore[no-any-return]
    known, names, now = _plain.setdefault(type(dofn), {}), frozenset(own), _fingerprint(type(dofn))
    if now is not None and known.get(names) == now:
        return set(), set()
    found: tuple[set[Any], set[Any]] = beams_specs(dofn)
    if now is not None and not any(found):
        known[names] = now
    return found


def _fingerprint(cls: type) -> int | None:
    """Sum up what a class has; None if its objects may have methods that it does not show."""
    plain: Any = object  # for mypy, no class has others than these
    if cls.__dir__ is not plain.__dir__ or cls.__getattribute__ is not plain.__getattribute__:
        return None
    seen: list[int] = []
    for base in cls.__mro__[:-1]:
        for name, value in vars(base).items():
            seen += id(name), id(value)
            if type(value) is FunctionType and name != "__getattr__":
                seen.append(id(value.__defaults__))
            elif hasattr(value, "__get__") and base not in core.DoFn.__mro__:
                return None  # it may give a method; those of Beam's own bases give none with state
    return hash(tuple(seen))
