"""Finds where the order of a set reaches what a function does.

Takes a function's syntax tree, gives a reason for each loop or list that follows the order of a
set: texts have other hashes in every process, so sets of them have other orders. Never runs the
code it reads.
"""

from __future__ import annotations

import ast

from headrace.compiler.code.names import Names, spelled
from headrace.compiler.code.source import FunctionNode, all_nodes, parents_in

_SETS: tuple[object, ...] = (set, frozenset)
_SET_METHODS = frozenset({"union", "intersection", "difference", "symmetric_difference", "copy"})
#: Methods that take a set as a set: those of sets, and those of loggers.
_TAKING_SETS = _SET_METHODS | {
    "issubset", "issuperset", "isdisjoint", "update", "add", "discard", "difference_update",
    "intersection_update", "append", "debug", "info", "warning", "error", "log",
}
_SET_OPERATORS = ast.BitAnd | ast.BitOr | ast.BitXor | ast.Sub
#: Builtins whose answer does not depend on the order of what they are given.
_ORDERLESS: tuple[object, ...] = (
    sorted, set, frozenset, len, sum, any, all, min, max, bool, isinstance, repr, print,
)
_FOLLOWING: tuple[object, ...] = (list, tuple, iter, enumerate, zip, map, filter, dict, next)


def set_orders(node: FunctionNode, names: Names) -> list[str]:
    """The places where a set is gone through in its own order."""
    found = _Finder(node, names)
    return [f"follows the order of {spelled(e)} in line {e.lineno}" for e in found.places()]


class _Finder:
    def __init__(self, node: FunctionNode, names: Names) -> None:
        self._node = node
        self._names = names
        self._bound: dict[str, list[ast.expr | None]] = {}
        for n in all_nodes(node):
            match n:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    self._bound.setdefault(name, []).append(value)
                case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                    self._bound.setdefault(name, []).append(value)
                case _:
                    pass

    def places(self) -> list[ast.expr]:
        parents = parents_in(self._node)
        found: list[ast.expr] = []
        for n in all_nodes(self._node):
            match n:
                case ast.For(iter=source) if self._is_set(source):
                    found.append(source)
                case ast.ListComp() | ast.GeneratorExp() | ast.DictComp():
                    call = parents.get(id(n))
                    if isinstance(call, ast.Call) and self._orderless(call):
                        continue
                    found += [g.iter for g in n.generators if self._is_set(g.iter)]
                case ast.YieldFrom(value=source) | ast.Starred(value=source):
                    found += [source] if self._is_set(source) else []
                case ast.Call(func=ast.Attribute(value=base, attr="pop"), args=[]):
                    found += [base] if self._is_set(base) else []
                case ast.Call(args=args) if not self._orderless(n):
                    call = parents.get(id(n))
                    inside = isinstance(call, ast.Call) and self._orderless(call)
                    if not (inside and self._is(n.func, _FOLLOWING)):
                        found += [a for a in args if self._is_set(a)]
                case _:
                    pass
        return found

    def _is(self, func: ast.expr, known: tuple[object, ...]) -> bool:
        target = self._names.value(func)
        return any(target is k for k in known)

    def _orderless(self, call: ast.Call) -> bool:
        """Whether the order of what is given has no effect; with a key, equals keep theirs."""
        if isinstance(call.func, ast.Attribute) and call.func.attr in _TAKING_SETS:
            return True
        return self._is(call.func, _ORDERLESS) and not any(k.arg == "key" for k in call.keywords)

    def _is_set(self, value: ast.expr, depth: int = 0) -> bool:
        match value:
            case ast.Set(elts=elts):
                return len(elts) > 1
            case ast.SetComp():
                return True
            case ast.Call(func=ast.Attribute(value=base, attr=attr)) if attr in _SET_METHODS:
                return self._is_set(base, depth)
            case ast.Call(func=func, args=[_, *_]):
                return self._is(func, _SETS)
            case ast.BinOp(left=left, op=op, right=right) if isinstance(op, _SET_OPERATORS):
                return self._is_set(left, depth) or self._is_set(right, depth)
            case ast.Name(id=name) if depth < 4:
                if name in self._bound:
                    made = self._bound[name]
                    return any(e is not None and self._is_set(e, depth + 1) for e in made)
                return isinstance(self._names.value(value), set | frozenset)
            case ast.Attribute():
                return isinstance(self._names.value(value), set | frozenset)
            case _:
                return False

