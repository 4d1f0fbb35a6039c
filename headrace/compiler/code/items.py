"""How many items an iterable has, as far as its expression tells.

Takes an expression that a function returns or yields from, gives a range. Displays, comprehensions
over displays, and the builtins that keep the number of items are understood; the call of a helper
is followed into its Python code. Never runs the code it reads.
"""

from __future__ import annotations

import ast
import functools
import itertools
from collections.abc import Callable
from types import CodeType

from headrace.compiler.code.calls import MOST_DEPTH, Budget, Callee, called
from headrace.compiler.code.managers import lets_through
from headrace.compiler.code.names import MISSING, Names
from headrace.compiler.code.source import FunctionNode, all_nodes, nodes_of
from headrace.compiler.code.spans import ANY, NOTHING, ONE, Span, summed

#: Builtins that give as many items as their first argument has.
_KEEP_NUMBER = (list, tuple, iter, sorted, reversed, enumerate)
_JOIN_EQUALS = (set, frozenset)
_GIVE_LISTS = frozenset({"split", "rsplit", "splitlines", "findall", "most_common"})


class Items:
    """Counts the items of expressions of one function.

    Args:
        node: the function.
        names: what its names stand for; None: calls are not followed.
        count: how many outputs a call of a function makes.
        above: the functions through which this one was reached.
        budget: how many more may be read; None: this one is the first.
    """

    def __init__(
        self,
        node: FunctionNode,
        names: Names | None,
        count: Callable[[FunctionNode, Items], Span],
        above: tuple[CodeType, ...] = (),
        budget: Budget | None = None,
    ) -> None:
        self._node = node
        self._names = names
        self._count = count
        self._above = above
        self._budget = budget or Budget()

    def of(self, value: ast.expr | None) -> Span:
        """How many items the value of an expression has, when it is returned or yielded from."""
        match value:
            case None | ast.Constant(value=None):
                return NOTHING
            case ast.List(elts=elts) | ast.Tuple(elts=elts):
                return summed(map(self._element, elts))
            case ast.Set(elts=elts):
                return _equals_joined(summed(map(self._element, elts)))
            case ast.Dict(keys=keys, values=values):
                parts = zip(keys, values, strict=True)
                return _equals_joined(summed(ANY if key is None else ONE for key, _ in parts))
            case ast.IfExp(body=body, orelse=orelse):
                return self.of(body).either(self.of(orelse))
            case ast.NamedExpr(value=inner):
                return self.of(inner)
            case ast.BoolOp(op=ast.Or(), values=values):
                return functools.reduce(Span.either, map(self.of, values))
            case ast.BoolOp(values=values):  # all but the last are given only when they are empty
                return self.of(values[-1]).from_nothing()
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return self.of(left).then(self.of(right))
            case ast.Subscript(value=base, slice=ast.Slice() as at):
                found = self.of(base)
                # Only of sequences is it known what a slice has: a table may give its columns.
                return _sliced(found, at) if found != ANY or self._is_sequence(base) else ANY
            case ast.ListComp(generators=generators) | ast.GeneratorExp(generators=generators):
                return self._comprehension(generators)
            case ast.SetComp(generators=generators) | ast.DictComp(generators=generators):
                return _equals_joined(self._comprehension(generators))
            case ast.Call():
                return self._call(value)
            case ast.Name(id=name) if (made := self._display(name)) is not None:
                return self.of(made)
            case _:
                return ANY

    def lets_through(self, manager: ast.expr) -> bool:
        """Whether a context manager never swallows an exception."""
        return lets_through(self._names, manager)

    def _is_sequence(self, value: ast.expr) -> bool:
        if not isinstance(value, ast.Call) or self._names is None:
            return isinstance(value, ast.ListComp | ast.List | ast.Tuple)
        target = self._names.value(value.func)
        splits = isinstance(value.func, ast.Attribute) and value.func.attr in _GIVE_LISTS
        return splits or any(target is made for made in (list, tuple, sorted))

    def _element(self, element: ast.expr) -> Span:
        return self.of(element.value) if isinstance(element, ast.Starred) else ONE

    def _comprehension(self, generators: list[ast.comprehension]) -> Span:
        if len(generators) > 1 or generators[0].is_async:
            return ANY
        (only,) = generators
        number = self.of(only.iter)
        return number.from_nothing() if only.ifs else number

    def _display(self, name: str) -> ast.expr | None:
        """The list or tuple that a local name stands for, if it is bound once and only given out.

        One that is used in another way may have been added to.
        """
        if isinstance(self._node, ast.Lambda):
            return None
        args = self._node.args
        taken = {a.arg for a in (*args.posonlyargs, *args.args, *args.kwonlyargs)}
        uses = [n for n in all_nodes(self._node) if isinstance(n, ast.Name) and n.id == name]
        bound = [
            n.value for n in all_nodes(self._node)
            if isinstance(n, ast.Assign) and len(n.targets) == 1
            and isinstance(n.targets[0], ast.Name) and n.targets[0].id == name
        ]
        given = [
            n for n in all_nodes(self._node)
            if isinstance(n, ast.Return | ast.YieldFrom)
            and isinstance(n.value, ast.Name) and n.value.id == name
        ]
        named = any(name in n.names for n in all_nodes(self._node)
                    if isinstance(n, ast.Global | ast.Nonlocal))
        if name in taken or named or len(bound) != 1 or len(uses) != 1 + len(given):
            return None
        return bound[0] if isinstance(bound[0], ast.List | ast.Tuple) else None

    def _call(self, call: ast.Call) -> Span:
        if self._names is None:
            return ANY
        target = self._names.value(call.func)
        plain = [a for a in call.args if not isinstance(a, ast.Starred)]
        if any(target is keeps for keeps in (*_KEEP_NUMBER, *_JOIN_EQUALS)):
            if not call.args and not call.keywords:
                return NOTHING
            if not plain or (target is iter and len(call.args) > 1):
                return ANY
            number = self.of(plain[0])
            return _equals_joined(number) if target in _JOIN_EQUALS else number
        if target in (zip, itertools.chain) and len(plain) == len(call.args) and plain:
            counts = list(map(self.of, plain))
            if target is itertools.chain:
                return summed(counts)
            return Span(min(c.low for c in counts), min(c.high for c in counts))
        if target is itertools.islice and len(plain) == len(call.args) == 2:
            return _sliced(self.of(plain[0]), ast.Slice(upper=plain[1]))
        if target is MISSING and isinstance(call.func, ast.Attribute) and not call.args:
            base = call.func.value
            if call.func.attr in ("items", "keys", "values") and isinstance(base, ast.Dict):
                return self.of(base)
        if target is map and len(plain) == len(call.args) == 2:
            return self.of(plain[1])
        if target is filter and len(plain) == len(call.args) == 2:
            return self.of(plain[1]).from_nothing()
        return self._helper(called(self._names, call.func))

    def _helper(self, callee: Callee | None) -> Span:
        if callee is None or callee.code in self._above or len(self._above) >= MOST_DEPTH:
            return ANY
        if not self._budget.spend():
            return ANY
        found: Span | None = None
        names = Names(callee.function, callee.owner)
        above = (*self._above, callee.code)
        for node in nodes_of(callee.code):
            inside = Items(node, names, self._count, above, self._budget)
            counted = self._count(node, inside)
            found = counted if found is None else found.either(counted)
        return ANY if found is None else found


def _equals_joined(number: Span) -> Span:
    return Span(min(1, number.low), number.high)


def _sliced(number: Span, at: ast.Slice) -> Span:
    """How many are left of so many when they are sliced from the front."""
    low, high = (0 if b is None else b.value if isinstance(b, ast.Constant) else None
                 for b in (at.lower, at.upper))
    if at.step is not None or at.upper is None or not isinstance(low, int):
        return number.from_nothing()
    if not isinstance(high, int) or min(low, high) < 0:
        return number.from_nothing()
    left = Span(max(number.low - low, 0), max(number.high - low, 0))
    most = max(high - low, 0)
    return Span(min(left.low, most), min(left.high, most))
