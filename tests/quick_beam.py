"""Spares the tests' processes what Beam works out again for each of thousands of small pipelines.

`install` puts functions of this module in the place of Beam's, in this process alone. Options are
parsed once for each set of flags, the signature of a function is read once, and that a DoFn's class
has no state is found once: of a small pipeline, Beam takes a third of the time for these. The
answers are Beam's, in objects of their own; whatever could answer differently the next time goes to
Beam's own function. Of headrace it knows the name alone: its options are Beam's as far as they say
the same for the same flags and the same environment; its code is read each time.
"""

from __future__ import annotations

import argparse
import copy
import inspect
import itertools
import operator
import os
import sys
from types import FunctionType, MethodType
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from apache_beam.options.pipeline_options import PipelineOptions, _BeamArgumentParser
from apache_beam.options.value_provider import (
    RuntimeValueProvider,
    StaticValueProvider,
    ValueProvider,
)
from apache_beam.transforms import core, ptransform, userstate, util
from apache_beam.typehints import decorators

beams_view_as = PipelineOptions.view_as
beams_all_options = PipelineOptions.get_all_options
beams_visible = PipelineOptions._visible_option_list
beams_signature = decorators.get_signature
beams_parameters = core.get_function_args_defaults
beams_specs = userstate.get_dofn_specs


def install() -> None:
    """Let Beam ask here, from now on and in this process."""
    PipelineOptions.view_as = view_as
    PipelineOptions.get_all_options = all_options
    PipelineOptions._visible_option_list = visible
    for module in (core, decorators, ptransform, util):  # each has imported it by name
        module.get_signature = signature
    core.get_function_args_defaults = parameters
    userstate.get_dofn_specs = specs


#: By class, flags and what the class may look at besides: the values of a view's options, or None
#: where each view needs its own.
_views: dict[tuple[type, tuple[str, ...], object], dict[str, Any] | None] = {}


def view_as(self: Any, cls: Any) -> Any:
    """Do what `PipelineOptions.view_as` does, and build no parser where the answer is known."""
    flags = sys.argv[1:] if self._flags is None else self._flags  # as argparse has it
    ours = cls.__module__ == "headrace.options"
    plain = (
        isinstance(flags, list)
        and (ours or cls.__module__.startswith("apache_beam."))
        and cls.__init__ is PipelineOptions.__init__
    )
    if not plain:
        return beams_view_as(self, cls)
    key = (cls, tuple(flags), _environment() if ours else None)
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
#: What is told at run time; each parser makes objects of its own.
_PROVIDERS = (RuntimeValueProvider, StaticValueProvider)


def _can_be_copied(value: object) -> bool:
    """Whether a value is a constant, or constants in a list or dict; a ValueProvider is none."""
    parts: Any = [*value, *value.values()] if type(value) is dict else value
    return type(value) in _UNCHANGING or (
        type(value) in (list, dict) and all(type(v) in _UNCHANGING for v in parts)
    )


def _copy(value: Any) -> Any:
    if type(value) in _PROVIDERS:
        return copy.copy(value)
    return value.copy() if type(value) in (list, dict) else value


def visible(self: Any) -> list[str]:
    """Do what `_visible_option_list` does; it is asked at each look at an option."""
    found = self._visible_options
    if type(found) is not argparse.Namespace:
        return beams_visible(self)  # type: ignore[no-any-return]
    return sorted(name for name in vars(found) if name[0] != "_")


def _environment() -> frozenset[tuple[str, str]]:
    """Give what defaults of options may come from."""
    return frozenset(os.environ.items())


class _Parsed(NamedTuple):
    """What a parser that knows all options has made of the flags, and its defaults."""

    values: dict[str, Any]
    defaults: dict[str, Any]


#: By all classes of options, flags and environment; None where flags or values are to be looked at
#: each time.
_parsed: dict[object, _Parsed | None] = {}


def all_options(
    self: Any, drop_default: bool = False, add_extra_args_fn: Any = None,
    retain_unknown_options: bool = False, display_warnings: bool = False,
    current_only: bool = False,
) -> dict[str, Any]:
    """Do what `get_all_options` does, and parse once where every flag is an option's."""
    classes = tuple(PipelineOptions.__subclasses__())
    known = None
    if (
        retain_unknown_options and not current_only and add_extra_args_fn is None
        and isinstance(self._flags, list) and all(map(_stays, classes))
    ):
        key = (classes, tuple(self._flags), _environment())
        if key not in _parsed:
            _parsed[key] = _parse(classes, self._flags)
        known = _parsed[key]
    if known is None:
        return beams_all_options(  # type: ignore[no-any-return]
            self, drop_default=drop_default, add_extra_args_fn=add_extra_args_fn,
            retain_unknown_options=retain_unknown_options, display_warnings=display_warnings,
            current_only=current_only,
        )
    found = {}
    for name, parsed in known.values.items():
        value = self._all_options[name] if name in self._all_options else _copy(parsed)
        default = known.defaults[name]
        if not drop_default or default != value or isinstance(default, ValueProvider):
            found[name] = value
    found.update((k, v) for k, v in self._all_options.items() if k not in known.values)
    return found


def _stays(cls: type) -> bool:
    """Whether a class is its module's: one that a test has made may be gone when it is over."""
    return getattr(sys.modules.get(cls.__module__), cls.__name__, None) is cls


def _parse(classes: tuple[Any, ...], flags: list[str]) -> _Parsed | None:
    parser = _BeamArgumentParser(allow_abbrev=False)
    by_name: dict[str, Any] = {}
    for cls in classes:
        by_name.setdefault(str(cls), cls)
    for cls in by_name.values():
        cls._add_argparse_args(parser)
    values, unknown = parser.parse_known_args(flags)
    found = vars(values)
    if unknown or not all(_can_be_copied(v) or type(v) in _PROVIDERS for v in found.values()):
        return None
    return _Parsed(found, {name: parser.get_default(name) for name in found})


class _Read(NamedTuple):
    """The signature of a function, and what must still be the same for it to hold."""

    code: object
    parts: tuple[object, ...]
    found: inspect.Signature


#: By function, as it is and as a method: without its first parameter.
_read: tuple[WeakKeyDictionary[FunctionType, _Read], ...] = WeakKeyDictionary(), WeakKeyDictionary()

#: What on a function would send `inspect.signature` elsewhere.
_ELSEWHERE = frozenset(("__wrapped__", "__signature__", "_partialmethod"))


def signature(f: Any) -> inspect.Signature:
    """Do what `get_signature` does, and once for each function and each function of a method."""
    function = f.__func__ if (bound := type(f) is MethodType) else f
    if type(function) is not FunctionType or not _ELSEWHERE.isdisjoint(function.__dict__):
        return beams_signature(f)  # type: ignore[no-any-return]
    parts = (
        function.__defaults__, *(function.__kwdefaults__ or {}).items(),
        *function.__annotations__.items(),
    )
    if not all(map(_holds_nothing, parts)):
        return beams_signature(f)  # type: ignore[no-any-return]
    known = _read[bound].get(function)
    if known is None or known.code is not function.__code__ or not _same(known.parts, parts):
        known = _read[bound][function] = _Read(function.__code__, parts, beams_signature(f))
    return known.found


def _holds_nothing(part: object) -> bool:
    """Whether a part of a signature can be kept: another could hold the function, or a pipeline."""
    if type(part) is tuple:
        return all(map(_holds_nothing, part))
    if type(part) in _UNCHANGING or isinstance(part, (type, core._DoFnParam)):
        return True
    return type(part).__module__ in ("types", "typing")


def _same(before: tuple[object, ...], now: tuple[object, ...]) -> bool:
    """Whether all are the same objects: what equals another need not look like it."""
    return len(before) == len(now) and all(
        a is b or (type(a) is type(b) is tuple and len(a) == len(b) == 2 and _same(a, b))
        for a, b in zip(before, now, strict=True)
    )


def parameters(f: Any) -> tuple[list[str], list[Any]]:
    """Do what `get_function_args_defaults` does."""
    names, values = [], []
    for name, parameter in signature(f).parameters.items():
        if parameter.kind in _BY_POSITION:
            names.append(name)
            if parameter.default is not parameter.empty:
                values.append(parameter.default)
    return names, values


_BY_POSITION = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


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
    seen: list[object] = []
    for base in cls.__mro__[:-1]:
        found = _lasting_part(base) if base in core.DoFn.__mro__ else _part(base)
        if found is None:
            return None
        seen.append(found)
    return hash(tuple(seen))


def _part(base: type) -> int | None:
    """Sum up what a class has of its own."""
    seen: list[int] = []
    for name, value in vars(base).items():
        seen += id(name), id(value)
        if type(value) is FunctionType and name != "__getattr__":
            seen.append(id(value.__defaults__))
        elif hasattr(value, "__get__") and base not in core.DoFn.__mro__:
            return None  # it may give a method; those of Beam's own bases give none with state
    return hash(tuple(seen))


class _Look(NamedTuple):
    """A class that lasts as long as the process: what it had, and which of that are functions."""

    number: int
    names: tuple[str, ...]
    values: tuple[object, ...]
    functions: tuple[FunctionType, ...]


_looks: dict[type, _Look] = {}
_numbers = itertools.count()


def _lasting_part(base: type) -> tuple[int, ...]:
    """Do what `_part` does, for a class of Beam's own that has most often stayed as it was."""
    own, look = vars(base), _looks.get(base)
    if (
        look is None or look.names != tuple(own)
        or not all(map(operator.is_, look.values, own.values()))
    ):
        functions = tuple(value for value in own.values() if type(value) is FunctionType)
        look = _looks[base] = _Look(next(_numbers), tuple(own), tuple(own.values()), functions)
    return look.number, *[id(function.__defaults__) for function in look.functions]
