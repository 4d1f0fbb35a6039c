"""Decides which values of a function outlive its call.

Takes a function's syntax tree and the parameters that are bound to such values, gives for each
expression whether it may be one. An alias of a shared object is shared; what is made anew in the
call is not. Never runs the code it reads.
"""

from __future__ import annotations

import ast
import functools
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FunctionType, ModuleType
from typing import Any

from headrace.compiler.code.calls import is_cache
from headrace.compiler.code.known import (
    FRESH_RESULTS,
    HANDING_ON,
    SHARED_RESULTS,
    is_stateless,
)
from headrace.compiler.code.names import (
    MISSING,
    Names,
    is_immutable,
    is_librarys,
    is_standard,
    module_of,
)
from headrace.compiler.code.source import KEPT_FUNCTIONS, FunctionNode, all_nodes

#: Builtins whose result is new and holds what it was given.
_KEEPING = frozenset(
    {"list", "tuple", "set", "frozenset", "dict", "sorted", "reversed", "iter", "enumerate", "zip"}
    | {"filter", "next", "max", "min", "map"}
)

#: Objects that a call can change in place.
CONTAINERS = (list, dict, set, bytearray)


class Sharing:
    """Knows what is shared in one function.

    Args:
        node: the function.
        names: what its names stand for.
        shared: its parameters that are bound to shared objects.
        gives_shared: tells whether the result of a function may be shared.
    """

    def __init__(
        self,
        node: FunctionNode,
        names: Names,
        shared: frozenset[str],
        gives_shared: Callable[[FunctionType], bool],
    ) -> None:
        self._names = names
        self._gives_shared = gives_shared
        self._inner = _inner_names(node)
        self.locals = set(shared)  # local names that may stand for a shared object
        self.holders: set[str] = set()  # local names of what was made here and may hold one
        self._made = _made_once(node, names)
        if names.self_name is not None:
            self.locals.add(names.self_name)
        for name, default in _defaults(names.function).items():
            if isinstance(default, CONTAINERS):
                self.locals.add(name)  # a mutable default outlives the call

    def is_local(self, name: str) -> bool:
        """Whether a name is bound in the function, or inside it."""
        return self._names.is_local(name) or name in self._inner

    def spread(self, nodes: Sequence[ast.AST]) -> None:
        """A local name that may stand for a shared object is shared, whatever the order."""
        flows = [pair for n in nodes for pair in _flows(n)]
        for _ in range(4):  # longer chains of aliases do not occur in practice
            before = len(self.locals) + len(self.holders)
            for target, value, item in flows:
                names = {n.id for n in ast.walk(target) if isinstance(n, ast.Name)}
                if self.holds(value) if item else self.of(value):
                    self.locals |= names
                elif not item and self.holds(value):
                    self.holders |= names
            if len(self.locals) + len(self.holders) == before:
                return

    def of(self, node: ast.expr) -> bool:
        """Whether the value of an expression may be something that outlives the call."""
        match node:
            case ast.Name(id=name):
                if name in self.locals:
                    return True
                if self.is_local(name):
                    return False
                value = self._names.value(node)
                return value is MISSING or not is_immutable(value)
            case ast.Attribute(value=base):
                if not self.of(base):
                    return False
                value = self._names.value(node)
                return value is MISSING or not is_immutable(value)
            case ast.Subscript(value=base, slice=ast.Slice()):
                return self.of(base)
            case ast.Subscript(value=base):
                return self.holds(base)
            case ast.Starred(value=base) | ast.Await(value=base):
                return self.of(base)
            case ast.NamedExpr(value=base):
                return self.of(base)
            case ast.IfExp(body=a, orelse=b):
                return self.of(a) or self.of(b)
            case ast.BoolOp(values=values):
                return any(self.of(v) for v in values)
            case ast.Tuple(elts=elts) | ast.List(elts=elts) | ast.Set(elts=elts):
                return any(self.of(e) for e in elts)
            case ast.Call(func=func, args=args):
                return self._result(func, args)
            case _:
                return False

    def holds(self, node: ast.expr) -> bool:
        """Whether the items of a value may outlive the call, if it does not itself."""
        if self.of(node):
            held = self._names.value(node)
            # Of numbers and texts there is nothing to change; what is empty may be filled later.
            return not (isinstance(held, list | tuple | set | dict) and held and _is_plain(held))
        match node:
            case ast.Name(id=name):
                return name in self.holders
            case ast.Call(func=ast.Name(id=name), args=args) if name in _KEEPING:
                return any(self.holds(a) for a in args)
            case ast.Call(func=ast.Attribute(value=base, attr="copy" | "values" | "items")):
                return self.holds(base)
            case ast.Subscript(value=base, slice=ast.Slice()):
                return self.holds(base)
            case ast.ListComp(elt=elt) | ast.SetComp(elt=elt) | ast.GeneratorExp(elt=elt):
                return self.of(elt)
            case ast.DictComp(value=value):
                return self.of(value)
            case ast.Dict(values=values):
                return any(self.of(v) or self.holds(v) for v in values)
            case _:
                return False

    def made(self, node: ast.expr) -> type | None:
        """The class of an object that is made in the function; None: not known."""
        if isinstance(node, ast.Name):
            return self._made.get(node.id)
        found = self._names.value(node.func) if isinstance(node, ast.Call) else None
        return found if isinstance(found, type) else None

    def _result(self, func: ast.expr, args: list[ast.expr]) -> bool:
        if isinstance(func, ast.Name) and func.id in FRESH_RESULTS:
            return False
        target = self._names.value(func)
        if f"{module_of(target)}.{getattr(target, '__name__', '')}" in SHARED_RESULTS:
            return True
        if is_cache(target):
            return True  # who asks again gets the same object
        if isinstance(target, type):
            return any(self.of(a) for a in args)  # the new object may hold what it was given
        if isinstance(target, FunctionType):
            known = is_standard(module_of(target)) or is_stateless(module_of(target))
            if not known or not is_librarys(target):
                return self._gives_shared(target) or any(self.of(a) for a in args)
        if isinstance(func, ast.Attribute) and self.of(func.value):
            held = self._names.value(func.value)
            if not isinstance(held, ModuleType | type):
                return not isinstance(held, re.Pattern | logging.Logger)
            if isinstance(held, ModuleType) and held.__name__ not in HANDING_ON:
                return False
        return any(self.of(a) or self.holds(a) for a in args)

    def params(self, call: ast.Call, target: object, *, skip: int) -> frozenset[str]:
        """The parameters of `target` that this call binds to shared objects."""
        code: Any = getattr(target, "__code__", None)
        if code is None:
            any_shared = any(self.of(a) for a in call.args)
            return frozenset({"*"}) if any_shared else frozenset()
        params = code.co_varnames[skip : code.co_argcount]
        if any(isinstance(a, ast.Starred) and self.of(a) for a in call.args):
            return frozenset(params)
        found = {p for p, a in zip(params, call.args, strict=False) if self.of(a)}
        found |= {k.arg for k in call.keywords if k.arg is not None and self.of(k.value)}
        return frozenset(found)


def _flows(node: ast.AST) -> Iterator[tuple[ast.AST, ast.expr, bool]]:
    """The places where a value gets a local name; whether it is an item of what stands there."""
    match node:
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                if not isinstance(target, ast.Attribute | ast.Subscript):
                    yield target, value, False
        case ast.AnnAssign(target=ast.Name() as target, value=value) if value is not None:
            yield target, value, False
        case ast.NamedExpr(target=target, value=value):
            yield target, value, False
        case ast.For(target=target, iter=value) | ast.AsyncFor(target=target, iter=value):
            yield target, value, True
        case ast.comprehension(target=target, iter=value):
            yield target, value, True
        case ast.withitem(context_expr=value, optional_vars=target) if target is not None:
            yield target, value, False
        case _:
            return


@functools.lru_cache(maxsize=KEPT_FUNCTIONS)
def _inner_names(node: FunctionNode) -> frozenset[str]:
    """Names bound inside nested functions and comprehensions: local to the call as well."""
    found: set[str] = set()
    for n in all_nodes(node):
        if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) and n is not node:
            a = n.args
            found |= {x.arg for x in (*a.posonlyargs, *a.args, *a.kwonlyargs)}
            found |= {x.arg for x in (a.vararg, a.kwarg) if x is not None}
            found |= {
                x.id
                for x in ast.walk(n)
                if isinstance(x, ast.Name) and isinstance(x.ctx, ast.Store)
            }
        elif isinstance(n, ast.comprehension):
            found |= {x.id for x in ast.walk(n.target) if isinstance(x, ast.Name)}
    return frozenset(found)


def _made_once(node: FunctionNode, names: Names) -> dict[str, type]:
    """Local names that are only ever bound to a new object of a class."""
    found: dict[str, list[object]] = {}
    for n in all_nodes(node):
        match n:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=func)):
                found.setdefault(name, []).append(names.value(func))
            case ast.withitem(context_expr=ast.Call(func=func), optional_vars=ast.Name(id=name)):
                found.setdefault(name, []).append(names.value(func))
            case ast.Name(id=name, ctx=ast.Store()):
                found.setdefault(name, [])
            case _:
                pass
    return {
        name: made[0]
        for name, made in found.items()
        if len(made) == 1 and isinstance(made[0], type)
    }


def _is_plain(held: object) -> bool:
    items = held.values() if isinstance(held, dict) else held
    return all(is_immutable(i) for i in items)  # type: ignore[attr-defined]


def _defaults(function: FunctionType) -> Mapping[str, object]:
    code = function.__code__
    positional = function.__defaults__ or ()
    names = code.co_varnames[code.co_argcount - len(positional) : code.co_argcount]
    return {**dict(zip(names, positional, strict=True)), **(function.__kwdefaults__ or {})}
