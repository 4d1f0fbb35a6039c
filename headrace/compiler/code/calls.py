"""Finds the Python function that a call runs, and what its parameters are bound to.

Takes a callable, looks through partials, caches, bound methods and objects that can be called.
Gives the function and how many of its parameters are taken already. Calls nothing of the user's.
"""

from __future__ import annotations

import ast
import contextlib
import functools
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import CodeType, FunctionType, MethodType
from typing import Any

from headrace.compiler.code.names import MISSING, Names, receiver, static_attribute
from headrace.compiler.code.values import Is, Value, tuple_of

_CO_VARARGS = 0x04

MOST_DEPTH = 8
"""How deep calls are followed: the time per DoFn stays small."""

_MOST_READ = 200
"""How many functions are read for one question: each may call many, and their ways multiply."""


class Budget:
    """How many functions may still be read for one question; what lies beyond is distrusted.

    `known` keeps what was read: each of the ways to a helper would read it again, and they double
    with every helper between.
    """

    def __init__(self) -> None:
        self._left = _MOST_READ
        self.known: dict[Hashable, Any] = {}

    def spend(self) -> bool:
        """Read one more; False: no more."""
        self._left -= 1
        return self._left >= 0


@dataclass(frozen=True, slots=True)
class Callee:
    """A function, and the arguments that it is given whoever calls."""

    function: FunctionType
    owner: object | None = None  # what `self` is; None: it has none, or it is not known
    taken: int = 0  # parameters that are bound before the call's own arguments
    named: frozenset[str] = frozenset()  # parameters that a partial gives by name

    @property
    def code(self) -> CodeType:
        """Its code."""
        return self.function.__code__

    def bound(
        self, args: Sequence[Value], named: Mapping[str, Value], *, more: bool = False
    ) -> dict[str, Value]:
        """What the parameters are, as far as the arguments tell; `more`: others may follow."""
        code = self.code
        params = code.co_varnames[self.taken : code.co_argcount]
        found = dict(zip(params, args, strict=False))
        known = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        found |= {name: value for name, value in named.items() if name in known}
        if code.co_flags & _CO_VARARGS:
            before = [Is.UNCLEAR] * (self.taken - code.co_argcount)  # `self`, as one of them
            rest = (*before, *args[len(params) :])
            open_end = more or len(args) < len(params)
            found[code.co_varnames[len(known)]] = tuple_of(rest, more=open_end)
        return {name: value for name, value in found.items() if name not in self.named}


def callee(target: object, owner: object | None = None, *, bound: bool = False) -> Callee | None:
    """The function that calling `target` runs; None if it is not Python, or not known."""
    positional, named = 0, set[str]()
    for _ in range(MOST_DEPTH):
        if isinstance(target, functools.partial):
            positional += len(target.args)
            named |= set(target.keywords)
            target, owner, bound = target.func, None, False
        elif is_cache(target):
            target = getattr(target, "__wrapped__", MISSING)
        elif isinstance(target, MethodType):
            owner, bound = target.__self__, True
            target = target.__func__
        else:
            break
    if not isinstance(target, FunctionType):
        call = MISSING if isinstance(target, type) else static_attribute(type(target), "__call__")
        if target is MISSING or not isinstance(call, FunctionType):
            return None
        target, owner, bound = call, target, True
    return Callee(target, owner, int(bound) + positional, frozenset(named))


def called(names: Names, func: ast.expr) -> Callee | None:
    """The function that an expression stands for when it is called."""
    owner, bound = receiver(names, func)
    return callee(names.value(func), owner, bound=bound)


def is_cache(target: object) -> bool:
    """Whether it is what `functools.cache` or `lru_cache` makes of a function."""
    return type(target).__name__ == "_lru_cache_wrapper"


def managed(found: Callee) -> Callee | None:
    """The generator behind a function that `contextlib.contextmanager` was put on."""
    inner = getattr(found.function, "__wrapped__", None)
    if found.code is _MANAGER and isinstance(inner, FunctionType):
        return replace(found, function=inner)
    return None


@contextlib.contextmanager
def _none():  # type: ignore[no-untyped-def]
    yield


_MANAGER: CodeType = _none.__code__
