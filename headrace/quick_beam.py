"""Spares the driver and its workers what Beam reads again and again of the same DoFns.

Beam asks four times on the driver, and three times in every task, which state and timers a DoFn
has, and each time it looks at every method by `inspect.signature`: half of what `to_runner_api`
takes, and most of what it takes to build a stage. `reading_once` puts functions of this module in
the place of Beam's while a block runs. The answers are Beam's, in objects of their own; what the
text of a function does not say at once goes to Beam's own function.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FunctionType, MethodType
from typing import Any

from apache_beam.transforms import core, userstate

Specs = tuple[set[Any], set[Any]]

#: What on a function would send `inspect.signature` elsewhere.
_ELSEWHERE = frozenset(("__wrapped__", "__signature__", "_partialmethod", "__partialmethod__"))


def parameters(f: Any) -> tuple[list[str], list[Any]] | None:
    """Do what `get_function_args_defaults` does with a function or a method of Python's own kind.

    Gives None for anything else.
    """
    bound = type(f) is MethodType
    function = f.__func__ if bound else f
    if type(function) is not FunctionType or not _ELSEWHERE.isdisjoint(function.__dict__):
        return None
    count = function.__code__.co_argcount
    defaults = function.__defaults__ or ()
    if count < bound or len(defaults) > count:
        return None  # the first parameter is one of `*args`; defaults that were set from outside
    names = function.__code__.co_varnames[bound:count]
    return list(names), list(defaults[max(0, len(defaults) - len(names)) :])


class _Block:
    """What is remembered while a block runs; several may run at once, in threads of their own."""

    _lock = threading.Lock()
    _running = 0
    _beams: tuple[Any, Any] = (None, None)  # what stood there before the first of them
    #: By the DoFn's number, which is its own as long as the DoFn is held here.
    _known: dict[int, tuple[Any, Specs]] = {}

    @classmethod
    def enter(cls) -> None:
        with cls._lock:
            cls._running += 1
            if cls._running == 1:
                cls._beams = core.get_function_args_defaults, userstate.get_dofn_specs
                core.get_function_args_defaults = cls.parameters
                userstate.get_dofn_specs = cls.specs

    @classmethod
    def leave(cls) -> None:
        with cls._lock:
            cls._running -= 1
            if not cls._running:
                core.get_function_args_defaults, userstate.get_dofn_specs = cls._beams
                cls._known = {}

    @classmethod
    def parameters(cls, f: Any) -> tuple[list[str], list[Any]]:
        found = parameters(f)
        return cls._beams[0](f) if found is None else found

    @classmethod
    def specs(cls, dofn: Any) -> Specs:
        known = cls._known.get(id(dofn))
        if known is None:
            known = cls._known[id(dofn)] = dofn, cls._beams[1](dofn)
        states, timers = known[1]
        return set(states), set(timers)


@contextmanager
def reading_once() -> Iterator[None]:
    """Let Beam read each DoFn once while the block runs: nobody changes one in it."""
    _Block.enter()
    try:
        yield
    finally:
        _Block.leave()
