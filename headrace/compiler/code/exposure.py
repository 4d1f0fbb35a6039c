"""Finds local names through which an object may be changed unseen.

Takes a function's syntax tree, gives the names that are used in other ways than to read from them
or to write a field or a constant key: aliases, arguments of code that changes them or cannot be
read, methods that change. Those writes are given too. Never runs the code it reads.
"""

from __future__ import annotations

import ast
import copy
import dataclasses
import logging
from types import CodeType

from headrace.compiler.code.calls import MOST_DEPTH, Budget, called
from headrace.compiler.code.names import Names
from headrace.compiler.code.source import FunctionNode, all_nodes, nodes_of, parents_in

_READING = frozenset(
    {"get", "items", "keys", "values", "copy", "count", "index", "_asdict", "_replace"}
)
_HARMLESS: tuple[object, ...] = (
    len, str, repr, bool, print, isinstance, dict, list, tuple, sorted, hash, id, any, all,
    copy.copy, copy.deepcopy, dataclasses.replace, dataclasses.asdict, dataclasses.astuple,
)


class Exposure:
    """What may happen to the objects behind the names of one function."""

    def __init__(
        self, node: FunctionNode, names: Names, budget: Budget, above: tuple[CodeType, ...] = ()
    ) -> None:
        self._names = names
        self._budget = budget
        self._above = above
        self._parents = parents_in(node)
        self.names: set[str] = set()
        self.written: set[tuple[str, object]] = set()  # a name, and a field or a constant key of it
        self.given: set[str] = set()  # leave as output or result, whole
        for n in all_nodes(node):
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load) and not self._reads(n):
                self.names.add(n.id)

    def _reads(self, name: ast.Name) -> bool:
        parent = self._parents.get(id(name))
        match parent:
            case ast.Subscript(value=base, slice=ast.Constant(value=key), ctx=ctx) if base is name:
                if not isinstance(ctx, ast.Load):
                    self.written.add((name.id, key))
                return True
            case ast.Subscript(value=base, ctx=ctx) if base is name:
                return isinstance(ctx, ast.Load)
            case ast.Attribute(value=base, attr=attr, ctx=ctx):
                above = self._parents.get(id(parent))
                if isinstance(above, ast.Call) and above.func is parent:
                    return attr in _READING
                if attr.startswith("__"):
                    return False  # `__dict__` leads to all fields
                if not isinstance(ctx, ast.Load):
                    self.written.add((base.id if isinstance(base, ast.Name) else "", attr))
                return True
            case ast.Call(func=func):
                return func is name or self._lends(parent, name)
            case ast.keyword(arg=arg):
                call = self._parents.get(id(parent))
                return arg is None or (isinstance(call, ast.Call) and self._lends(call, name, arg))
            case ast.Tuple() | ast.Return() | ast.Yield() | ast.Lambda():
                return self._leaves(name, parent)
            case ast.Dict(keys=keys, values=values):
                at = next((i for i, v in enumerate(values) if v is name), None)
                return at is not None and keys[at] is None  # `{**name}` is a copy
            case ast.Compare() | ast.FormattedValue() | ast.UnaryOp() | ast.BinOp():
                return True
            case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
                return test is name
            case ast.For(iter=source) | ast.comprehension(iter=source):
                return source is name
            case _:
                return False

    def _leaves(self, name: ast.Name, node: ast.AST | None) -> bool:
        """Whether it is given out by the function, and so done with."""
        while isinstance(node, ast.Tuple):
            node = self._parents.get(id(node))
        self.given.add(name.id)
        return isinstance(node, ast.Return | ast.Yield | ast.Lambda)

    def _lends(self, call: ast.Call, name: ast.Name, keyword: str = "") -> bool:
        """Whether the code that gets it as an argument only reads it."""
        target = self._names.value(call.func)
        if any(target is known for known in _HARMLESS):
            return True
        if isinstance(call.func, ast.Attribute):
            base = self._names.value(call.func.value)
            if base is logging or isinstance(base, logging.Logger):
                return True
        found = called(self._names, call.func)
        if found is None or found.code in self._above or len(self._above) >= MOST_DEPTH:
            return False
        if any(isinstance(a, ast.Starred) for a in call.args):
            return False
        if keyword:
            param = keyword
        else:
            at = found.taken + next(i for i, a in enumerate(call.args) if a is name)
            if at >= found.code.co_argcount:
                return False
            param = found.code.co_varnames[at]
        if not self._budget.spend():
            return False
        nodes = nodes_of(found.code)
        inside = Names(found.function, found.owner)
        above = (*self._above, found.code)
        exposures = [Exposure(n, inside, self._budget, above) for n in nodes]
        return bool(exposures) and not any(
            param in e.names | e.given or any(n == param for n, _ in e.written) for e in exposures
        )

