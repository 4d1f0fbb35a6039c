"""Knows what the expressions of a function are, seen from the element.

Takes the syntax tree of a function and what its parameters are, gives descriptions of values and of
what leaves. A name counts as the key only if every binding of it is the key; what could touch the
key on the way makes it unclear. Helpers are followed into their Python code to a fixed depth.
"""

from __future__ import annotations

import ast
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from types import CodeType

from headrace.compiler.code.bindings import Source, bindings, is_any_pair
from headrace.compiler.code.calls import MOST_DEPTH, Budget, Callee, called, managed
from headrace.compiler.code.displays import (
    Arguments,
    arguments,
    dict_display,
    sum_of,
    tuple_display,
)
from headrace.compiler.code.exposure import Exposure
from headrace.compiler.code.iterables import Filled, appended, constant_index, each_of
from headrace.compiler.code.known import MUTATING_METHODS
from headrace.compiler.code.names import MISSING, Names
from headrace.compiler.code.paths import falls_off
from headrace.compiler.code.results import imports, result_of
from headrace.compiler.code.source import (
    FunctionNode,
    all_nodes,
    arguments_of,
    is_generator,
    nodes_of,
    own_nodes,
)
from headrace.compiler.code.subject import Emits
from headrace.compiler.code.values import (
    Is,
    Parts,
    Value,
    attribute,
    carries,
    is_other,
    item,
    joined,
    without,
)


@dataclass(frozen=True, slots=True)
class Output:
    """Something that leaves a function."""

    value: Value
    shown: ast.expr


class Prover:
    """Knows what the expressions of one function mean.

    Args:
        node: the function.
        roles: what its parameters are, and the names of the functions around it.
        names: what all other names stand for.
        above: the functions through which this one was reached.
        budget: how many more may be read, and what was; None: this one is the first.
    """

    def __init__(
        self,
        node: FunctionNode,
        roles: Mapping[str, Value],
        names: Names,
        above: tuple[CodeType | FunctionNode, ...] = (),
        budget: Budget | None = None,
    ) -> None:
        self._node = node
        self.names = names
        self._above = above
        self._budget = budget or Budget()
        self._outputs: dict[Emits, tuple[Output, ...]] = {}
        self._nodes = own_nodes(node)
        self._roles = dict(roles)
        self._inner: dict[str, FunctionNode] = {}  # functions made in this one
        self._lists = appended(node, self._nodes)
        self._settle(set(roles))
        self._distrust_touched()

    # What names mean ------------------------------------------------------------------------

    def _settle(self, params: set[str]) -> None:
        """Give each name the one meaning that all its bindings share."""
        bound: dict[str, list[Source]] = {}
        for name, source in bindings(self._node, self._nodes, self.names):
            bound.setdefault(name, []).append(source)
        for n in self._nodes:
            if isinstance(n, ast.FunctionDef) and len(bound[n.name]) == 1 and not n.decorator_list:
                self._inner[n.name] = n
            match n:
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Lambda() as made):
                    if len(bound[name]) == 1 and name not in params:
                        self._inner[name] = made
                case _:
                    pass
        given = {name: self._roles[name] for name in params & set(bound)}
        for name in bound:  # a parameter stays what it is while all that it is bound to agrees
            self._roles[name] = given.get(name, Is.UNCLEAR)
        for _ in range(len(bound) + 1):  # a chain of names settles one link per round
            changed = False
            for name, sources in bound.items():
                meanings = [source(self) for source in sources]
                meanings += [given[name]] if name in given else []
                meaning = self._trusted(name, joined(meanings))
                if self._roles[name] != meaning:
                    self._roles[name] = meaning
                    changed = True
            if not changed:
                break
        else:
            for name in bound:  # meanings that chase each other round a loop
                self._roles[name] = Is.UNCLEAR
        for name in set(self._roles) - set(bound):
            self._roles[name] = self._trusted(name, self._roles[name])

    def _trusted(self, name: str, meaning: Value) -> Value:
        if isinstance(meaning, Parts) and meaning.changes:
            if name in self._exposure.names:
                return Is.UNCLEAR
            return without(meaning, {part for n, part in self._exposure.written if n == name})
        return Is.UNCLEAR if meaning is Is.OTHER else meaning

    @cached_property
    def _exposure(self) -> Exposure:
        return Exposure(self._node, self.names, self._budget)

    def _distrust_touched(self) -> None:
        """A key or element that is written into is no longer known to be what came."""
        for n in all_nodes(self._node):
            base: ast.expr | None = None
            if isinstance(n, ast.Subscript | ast.Attribute) and not isinstance(n.ctx, ast.Load):
                base = n.value
            elif isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute):
                if n.func.attr in MUTATING_METHODS:
                    base = n.func.value
            into = isinstance(n, ast.Subscript) and base is not None and carries(self.what(base))
            while isinstance(base, ast.Subscript | ast.Attribute) and not into:
                into = self.what(base) is Is.KEY
                base = base.value
            if into or (isinstance(base, ast.Name) and self.what(base) is Is.KEY):
                self._roles = {}
                return

    # What expressions mean ------------------------------------------------------------------

    def what(self, value: ast.expr) -> Value:
        """What the value of an expression is."""
        match value:
            case ast.Name(id=name):
                return self._roles.get(name, Is.UNCLEAR)
            case ast.Subscript(value=base, slice=at):
                return self._subscript(base, at)
            case ast.Attribute(value=base, attr=attr):
                return attribute(self.what(base), attr)
            case ast.Tuple(elts=elts):
                return tuple_display(self, elts)
            case ast.Dict(keys=keys, values=values):
                return dict_display(self, keys, values)
            case ast.IfExp(body=body, orelse=orelse):
                return joined((self.what(body), self.what(orelse)))
            case ast.BoolOp(values=values):
                return joined(map(self.what, values))
            case ast.NamedExpr(value=inner):
                return self.what(inner)
            case ast.Call():
                return result_of(self, value)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return sum_of(self.what(left), self.what(right))
            case ast.Constant() | ast.JoinedStr() | ast.Set() | ast.Compare() | ast.Lambda():
                return Is.OTHER
            case ast.List() | ast.ListComp() | ast.DictComp() | ast.SetComp():
                return Is.OTHER
            case ast.BinOp(op=ast.Sub() | ast.Div() | ast.Mod() | ast.Pow()):
                return Is.OTHER
            case _:
                return Is.UNCLEAR

    def each(self, value: ast.expr) -> Value:
        """What every item of an iterable is."""
        return each_of(self, value)

    def listed(self, name: str) -> Filled | None:
        """What a local list was filled with, and whether that is a whole iterable of items."""
        return self._lists.get(name)

    def _subscript(self, base: ast.expr, at: ast.expr) -> Value:
        known, index = constant_index(at)
        if not known:
            return Is.UNCLEAR
        found = self.what(base)
        if isinstance(base, ast.List) and isinstance(index, int):
            found = tuple_display(self, base.elts)
        known_item = item(found, index)
        if known_item is Is.UNCLEAR and isinstance(base, ast.Name) and base.id in self._lists:
            return self.each(base) if isinstance(index, int) else Is.UNCLEAR
        return known_item

    # Calls ----------------------------------------------------------------------------------

    def arguments(self, call: ast.Call) -> Arguments:
        """What a call gives by position and by name, and whether more may follow."""
        return arguments(self, call)

    def followed(self, call: ast.Call) -> Value:
        """What the function that is called returns."""
        return joined(o.value for p in self.called(call) for o in p.outputs(Emits.RESULT))

    def made_by(self, call: ast.Call) -> Value:
        """What the items are that a helper returns or yields."""
        provers = self.called(call, generators=True)
        return joined(o.value for p in provers for o in p.outputs(Emits.ITEMS))

    def imported(self, name: str) -> str:
        """The package from which the function itself imports a name; empty: it does not."""
        return dict(imports(self._nodes)).get(name, "")

    def called(self, call: ast.Call, *, generators: bool = False) -> list[Prover]:
        """Readers of the function that is called, which know what its parameters mean.

        None if it cannot be read, or if its result is not what it returns.
        """
        args, named, more = self.arguments(call)
        func = call.func
        inner: FunctionNode | None = func if isinstance(func, ast.Lambda) else None
        if isinstance(func, ast.Name):
            inner = self._inner.get(func.id)
        if inner is not None:
            return self.inside(inner, args, named, generators=generators)
        found = called(self.names, func)
        if found is None:
            return []
        return self.into(found, args, named, more=more, generators=generators)

    def into(
        self,
        found: Callee,
        args: list[Value],
        named: dict[str, Value],
        *,
        more: bool = False,
        generators: bool = False,
    ) -> list[Prover]:
        """Readers of a function that is called with these arguments."""
        nodes = nodes_of(found.code)
        if found.code in self._above or len(self._above) >= MOST_DEPTH:
            return []
        if any(isinstance(n, ast.AsyncFunctionDef) for n in nodes):
            return []
        if not generators and any(is_generator(n) for n in nodes):
            return []
        roles = _worth(found.bound(args, named, more=more))
        # How deep it lies says how far it may follow helpers of its own.
        name = id(found.function), id(found.owner), len(self._above), frozenset(roles.items())
        known: dict[Hashable, tuple[Callee, list[Prover]]] = self._budget.known
        if name not in known:
            if not self._budget.spend():
                return []
            names, above = Names(found.function, found.owner), (*self._above, found.code)
            made = [Prover(node, roles, names, above, self._budget) for node in nodes]
            known[name] = found, made  # what is kept alive keeps its id
        return known[name][1]

    def inside(
        self,
        node: FunctionNode,
        args: list[Value],
        named: dict[str, Value] | None = None,
        *,
        generators: bool = False,
    ) -> list[Prover]:
        """A reader of a function that is made in this one; it sees this one's names."""
        if node in self._above or len(self._above) >= MOST_DEPTH or not self._budget.spend():
            return []
        if is_generator(node) and not generators:
            return []
        a = node.args
        params = [x.arg for x in (*a.posonlyargs, *a.args)]
        own = arguments_of(node)
        roles = {n: v for n, v in self._roles.items() if n not in own}
        roles |= dict(zip(params, args, strict=False))
        roles |= {n: v for n, v in (named or {}).items() if n in own}
        inside = (n for n in all_nodes(node) if isinstance(n, ast.Name))
        bound = {n.id for n in inside if not isinstance(n.ctx, ast.Load)}
        hidden = self.names.hidden | own | bound
        names = replace(self.names, hidden=hidden)
        made = Prover(node, _worth(roles), names, (*self._above, node), self._budget)
        made._inner = {n: f for n, f in self._inner.items() if n not in hidden} | made._inner
        return [made]

    def of_function(self, func: ast.expr, args: list[Value]) -> Value:
        """What a function that is handed over, as to `map`, gives for these arguments."""
        if isinstance(func, ast.Lambda):
            provers = self.inside(func, args)
        elif isinstance(func, ast.Name) and func.id in self._inner:
            provers = self.inside(self._inner[func.id], args)
        else:
            found = called(self.names, func)
            provers = [] if found is None else self.into(found, args, {})
        return joined(o.value for p in provers for o in p.outputs(Emits.RESULT))

    def entered(self, manager: ast.expr) -> Value:
        """What a context manager gives for `as`."""
        if not isinstance(manager, ast.Call):
            return Is.UNCLEAR
        target = self.names.value(manager.func)
        module, name = getattr(target, "__module__", ""), getattr(target, "__name__", "")
        args, named, more = self.arguments(manager)
        if module == "contextlib" and name in ("nullcontext", "closing") and args:
            return args[0]
        found = None if target is MISSING else called(self.names, manager.func)
        made = None if found is None else managed(found)
        if made is None:
            return Is.UNCLEAR
        inside = self.into(made, args, named, more=more, generators=True)
        return joined(o.value for prover in inside for o in prover.outputs(Emits.ITEMS))

    # What leaves ----------------------------------------------------------------------------

    def outputs(self, emits: Emits) -> tuple[Output, ...]:
        """What is emitted."""
        if emits not in self._outputs:
            self._outputs[emits] = tuple(self._find_outputs(emits))
        return self._outputs[emits]

    def _find_outputs(self, emits: Emits) -> Iterator[Output]:
        nothing = ast.Constant(value=None, lineno=getattr(self._node, "lineno", 0))
        if isinstance(self._node, ast.Lambda):
            results: list[ast.expr | None] = [self._node.body]
        else:
            results = [n.value for n in self._nodes if isinstance(n, ast.Return)]
        if emits is Emits.RESULT:
            if falls_off(self._node, self.names, self._matches):
                results.append(nothing)
            for result in results:
                yield from self._results(result if result is not None else nothing)
        elif is_generator(self._node):
            for n in self._nodes:
                if isinstance(n, ast.Yield):
                    yield from self._results(n.value or ast.Constant(value=None, lineno=n.lineno))
                elif isinstance(n, ast.YieldFrom):
                    yield from self._items(n.value)
        else:
            for result in results:
                if result is not None:
                    yield from self._items(result)

    def _matches(self, subject: ast.expr, pattern: ast.pattern) -> bool:
        """Whether a pattern fits whatever pair came."""
        return is_any_pair(pattern) and carries(self.what(subject))

    def _results(self, value: ast.expr) -> Iterator[Output]:
        if isinstance(value, ast.IfExp):
            yield from self._results(value.body)
            yield from self._results(value.orelse)
        else:
            yield Output(self.what(value), value)

    def _items(self, value: ast.expr) -> Iterator[Output]:
        match value:
            case ast.Constant(value=None):
                return
            case ast.List(elts=elts) | ast.Tuple(elts=elts) | ast.Set(elts=elts):
                for e in elts:
                    given = isinstance(e, ast.Starred)
                    yield from self._items(e.value) if given else self._results(e)  # type: ignore[attr-defined]
            case ast.ListComp(elt=elt) | ast.GeneratorExp(elt=elt) | ast.SetComp(elt=elt):
                yield from self._results(elt)
            case ast.IfExp(body=body, orelse=orelse):
                yield from self._items(body)
                yield from self._items(orelse)
            case ast.BoolOp(op=op, values=values):
                # In a chain of `and`, all but the last are given only when they are empty.
                for part in values if isinstance(op, ast.Or) else values[-1:]:
                    yield from self._items(part)
            case ast.Name(id=name) if self._lists.get(name) is not None:
                for filled, whole in self._lists[name]:
                    yield from self._items(filled) if whole else self._results(filled)
            case ast.Call() if helpers := self.called(value, generators=True):
                for helper in helpers:
                    yield from helper.outputs(Emits.ITEMS)
            case _:
                found = self.each(value)
                yield Output(Is.UNCLEAR if is_other(found) else found, value)


def _worth(roles: Mapping[str, Value]) -> dict[str, Value]:
    """The names of which something is known."""
    return {n: v for n, v in roles.items() if v is not Is.UNCLEAR and v is not Is.OTHER}
