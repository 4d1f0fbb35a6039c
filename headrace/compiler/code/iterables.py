"""What the items of an iterable are, and which local lists are only filled.

Takes expressions and a reader that knows what values mean, gives the one description that all items
share. Displays, comprehensions and the builtins that hand items on are understood. Never runs the
code it reads.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Mapping, Sequence
from typing import Protocol, TypeAlias

from headrace.compiler.code.names import Names
from headrace.compiler.code.source import (
    FunctionNode,
    all_nodes,
    arguments_of,
    own_nodes,
    parents_in,
)
from headrace.compiler.code.values import Is, Value, joined, spread, tuple_of

#: What a list was filled with; whether that is an iterable of items, and not one item.
Filled: TypeAlias = list[tuple[ast.expr, bool]]

#: Functions that hand on the items of their first argument, all or some.
_SAME: tuple[object, ...] = (
    list, tuple, iter, sorted, reversed, set, frozenset, itertools.islice, itertools.cycle,
)
_SECOND: tuple[object, ...] = (
    filter, itertools.takewhile, itertools.dropwhile, itertools.filterfalse,
)


class Meanings(Protocol):
    """Knows what expressions mean."""

    names: Names

    def what(self, value: ast.expr) -> Value:
        """What the value of an expression is."""

    def listed(self, name: str) -> Filled | None:
        """What a local list was filled with."""

    def of_function(self, func: ast.expr, args: list[Value]) -> Value:
        """What a function that is handed over gives for these arguments."""

    def made_by(self, call: ast.Call) -> Value:
        """What the items are that a helper returns or yields."""


def each_of(reader: Meanings, value: ast.expr) -> Value:
    """What every item of an iterable is."""
    match value:
        case ast.List(elts=elts) | ast.Tuple(elts=elts) | ast.Set(elts=elts):
            return joined(
                each_of(reader, e.value) if isinstance(e, ast.Starred) else reader.what(e)
                for e in elts
            )
        case ast.ListComp(elt=elt) | ast.GeneratorExp(elt=elt) | ast.SetComp(elt=elt):
            return reader.what(elt)
        case ast.DictComp(key=key):
            return reader.what(key)
        case ast.IfExp(body=a, orelse=b) | ast.BinOp(left=a, op=ast.Add(), right=b):
            return joined((each_of(reader, a), each_of(reader, b)))
        case ast.NamedExpr(value=inner):
            return each_of(reader, inner)
        case ast.Subscript(value=base, slice=ast.Slice()):
            return each_of(reader, base)
        case ast.BinOp(left=(ast.List() | ast.Tuple()) as several, op=ast.Mult()):
            return each_of(reader, several)
        case ast.Name(id=name) if (filled := reader.listed(name)) is not None:
            return joined(each_of(reader, e) if whole else reader.what(e) for e, whole in filled)
        case ast.Call():
            return _called(reader, value)
        case _:
            items, more = spread(reader.what(value))
            return Is.UNCLEAR if more else joined(items)


def _called(reader: Meanings, call: ast.Call) -> Value:
    func, args = call.func, call.args
    if any(isinstance(a, ast.Starred) for a in args):
        return Is.UNCLEAR
    target = reader.names.value(func)
    if isinstance(func, ast.Attribute) and not args:
        pairs = _pairs(reader, func.value)
        if pairs is not None:
            return {"items": pairs, "keys": spread(pairs)[0][0], "values": spread(pairs)[0][1]}.get(
                func.attr, Is.UNCLEAR
            )
    if args and any(target is f for f in _SAME) and not (target is iter and len(args) > 1):
        return each_of(reader, args[0])
    if len(args) == 2 and any(target is f for f in _SECOND):
        return each_of(reader, args[1])
    if target is enumerate and args:
        return tuple_of((Is.UNCLEAR, each_of(reader, args[0])))
    if target in (zip, itertools.product) and "repeat" not in {k.arg for k in call.keywords}:
        return tuple_of(each_of(reader, a) for a in args)
    if target is map and len(args) > 1:
        return reader.of_function(args[0], [each_of(reader, a) for a in args[1:]])
    if target is itertools.chain:
        return joined(each_of(reader, a) for a in args)
    if target is itertools.repeat and args:
        return reader.what(args[0])
    return reader.made_by(call)


def _pairs(reader: Meanings, value: ast.expr) -> Value | None:
    """What the items of a dict that is written out are, as pairs; None: it is not written out."""
    match value:
        case ast.DictComp(key=key, value=inner):
            return tuple_of((reader.what(key), reader.what(inner)))
        case ast.Dict(keys=keys, values=values) if None not in keys and keys:
            return tuple_of(
                (joined(reader.what(k) for k in keys if k), joined(map(reader.what, values)))
            )
        case _:
            return None


def appended(node: FunctionNode, nodes: Sequence[ast.AST]) -> dict[str, Filled]:
    """Local lists that are only filled, read and given out, by their names."""
    parents = parents_in(node)
    found: dict[str, Filled] = {}
    counted: dict[str, int] = {}
    for n in nodes:
        match n:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=made)
                | ast.AnnAssign(target=ast.Name(id=name), value=made)
            ) if is_new_list(made):
                filled = [(made, True)] if made is not None else []
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append"), args=[one]):
                filled = [(one, False)]
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id=name), attr="insert"), args=[_, one]
            ):
                filled = [(one, False)]
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="extend"), args=[many]):
                filled = [(many, True)]
            case ast.AugAssign(target=ast.Name(id=name), op=ast.Add(), value=many):
                filled = [(many, True)]
            case ast.Name(id=name) if _only_read(n, parents):
                filled = []
            case _:
                continue
        found.setdefault(name, []).extend(filled)
        counted[name] = counted.get(name, 0) + 1
    uses: dict[str, int] = {}
    for n in all_nodes(node):
        if isinstance(n, ast.Name):
            uses[n.id] = uses.get(n.id, 0) + 1
    made_here = {
        t.id
        for n in nodes if isinstance(n, ast.Assign | ast.AnnAssign) and is_new_list(n.value)
        for t in (n.targets if isinstance(n, ast.Assign) else [n.target]) if isinstance(t, ast.Name)
    }
    return {
        name: filled
        for name, filled in found.items()
        if name in made_here and counted[name] == uses[name] and name not in arguments_of(node)
    }


def filled_list(node: FunctionNode) -> str:
    """The local list that a function makes once, fills statement by statement, and returns."""
    if isinstance(node, ast.Lambda):
        return ""
    nodes = own_nodes(node)
    if any(isinstance(n, ast.Try) and n.finalbody for n in nodes):
        return ""  # it may fill after a copy was returned
    for name in appended(node, nodes):
        statements = [n for n in nodes if isinstance(n, ast.stmt) and put_into(n, name)]
        makes = [
            n for n in node.body
            if isinstance(n, ast.Assign | ast.AnnAssign) and put_into(n, name)
        ]
        stores = [
            n for n in nodes
            if (isinstance(n, ast.Call) and _fills(n, name))
            or (isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Store))
        ]
        given = any(isinstance(n, ast.Return) and is_whole(n.value, name) for n in nodes)
        if len(makes) == 1 and len(statements) == len(stores) and given:
            if sum(isinstance(n, ast.Assign | ast.AnnAssign) for n in statements) == 1:
                return name
    return ""


def put_into(statement: ast.stmt, name: str) -> tuple[ast.expr, bool] | None:
    """What a statement puts into a list; whether that is an iterable of items, and not one."""
    match statement:
        case (
            ast.Assign(targets=[ast.Name(id=into)], value=made)
            | ast.AnnAssign(target=ast.Name(id=into), value=ast.expr() as made)
        ) if into == name:
            return made, True
        case ast.AugAssign(target=ast.Name(id=into), op=ast.Add(), value=many) if into == name:
            return many, True
        case ast.Expr(value=ast.Call() as call) if _fills(call, name):
            return call.args[-1], call.func.attr == "extend"  # type: ignore[attr-defined]
        case _:
            return None


def _fills(call: ast.Call, name: str) -> bool:
    match call:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=into), attr=attr), args=[*_, _]):
            return into == name and attr in ("append", "insert", "extend")
        case _:
            return False


def is_whole(value: ast.expr | None, name: str) -> bool:
    """Whether a value is a list, or one with the same items."""
    match value:
        case ast.Name(id=found):
            return found == name
        case ast.Call(func=ast.Name(id="list" | "tuple" | "sorted" | "iter"), args=[inner]):
            return is_whole(inner, name)
        case _:
            return False


def is_new_list(made: ast.expr | None) -> bool:
    """Whether an expression makes a list, or gives what a helper has made."""
    return isinstance(made, ast.Call | ast.List | ast.ListComp)


def _only_read(name: ast.Name, parents: Mapping[int, ast.AST]) -> bool:
    parent = parents.get(id(name))
    match parent:
        case ast.Return() | ast.YieldFrom() | ast.UnaryOp() | ast.Compare() | ast.FormattedValue():
            return True
        case ast.For(iter=source) | ast.comprehension(iter=source):
            return source is name
        case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
            return test is name
        case ast.Subscript(value=base, ctx=ast.Load()):
            return base is name
        case ast.Call(func=ast.Name(id=called)):
            return called in ("len", "sorted", "list", "tuple", "iter", "enumerate", "zip", "bool")
        case _:
            return False


def constant_index(at: ast.expr) -> tuple[bool, object]:
    """The constant, or the slice of constants, in `[...]`; and whether it is one."""
    match at:
        case ast.Constant(value=value):
            return True, value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(value))):
            return True, -value
        case ast.Slice(lower=lower, upper=upper, step=step):
            given = (lower, upper, step)
            bounds = [(True, None) if b is None else constant_index(b) for b in given]
            if all(known and isinstance(b, int | None) for known, b in bounds):
                return True, slice(*(b for _, b in bounds))
            return False, None
        case _:
            return False, None
