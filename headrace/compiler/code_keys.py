"""Proves that a function hands the key of a key-value pair on unchanged.

Takes the syntax tree of a function and how the element reaches it, gives a key forwarding with its
reason. A name counts as the key only if every binding of it is the key. Anything that could touch
the key on the way makes the answer UNKNOWN. Helpers that make pairs, or all of the output, are
followed into their Python code to a fixed depth.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from types import CodeType, FunctionType

from headrace.compiler.code_names import Names, receiver, spelled
from headrace.compiler.code_paths import is_generator, own_nodes
from headrace.compiler.code_source import FunctionNode, nodes_of
from headrace.compiler.code_subject import Emits, Takes
from headrace.plan.traits import KeyForwarding


class _Is(Enum):
    """What a value is, seen from the element."""

    ELEMENT = "element"  # the pair as it came, or a new pair with the same key
    KEY = "key"
    OTHER = "other"  # certainly something else
    UNCLEAR = "unclear"


# Beam's carriers of an output value, and which argument is the value.
_CARRIERS = {
    "TaggedOutput": 1,
    "TimestampedValue": 0,
    "WindowedValue": 0,
    "windowed_value": 0,
    "with_value": 0,
}

_MUTATORS = frozenset(
    {"append", "extend", "insert", "remove", "pop", "clear", "sort", "reverse", "update", "add"}
    | {"discard", "setdefault", "popitem"}
)

_MOST_DEPTH = 4  # as deep as effects are followed

_Verdict = tuple[KeyForwarding, str]


def forwards_key(
    node: FunctionNode,
    *,
    takes: Takes,
    emits: Emits,
    element: str | None,
    key_params: Iterable[str] = (),
    names: Names | None = None,
) -> _Verdict:
    """Whether each output carries the key of the element it came from.

    Args:
        node: the function.
        takes: whether `element` is bound to the whole pair or to its first item.
        emits: how the result becomes output.
        element: name of the parameter that gets the element, or its first item; None if unclear.
        key_params: parameters that Beam binds to the element's key.
        names: what the names of the function stand for; None: helpers are not followed.
    """
    if emits is Emits.PREDICATE:
        return KeyForwarding.FORWARDED, "a filter hands elements on as they are"
    roles = dict.fromkeys(key_params, _Is.KEY)
    if element is not None:
        roles[element] = _Is.KEY if takes is Takes.SPREAD else _Is.ELEMENT
    prover = _Prover(node, roles, names)
    worst: _Verdict = KeyForwarding.FORWARDED, "every output carries the key it came with"
    for inside, value in prover.outputs(emits):
        match inside.what(value):
            case _Is.ELEMENT:
                continue
            case _Is.OTHER:
                line = getattr(value, "lineno", 0)
                return KeyForwarding.CHANGED, f"gives {spelled(value)} in line {line}"
            case _:
                line = getattr(value, "lineno", 0)
                reason = f"the key of {spelled(value)} in line {line} is not known"
                worst = KeyForwarding.UNKNOWN, reason
    return worst


class _Prover:
    def __init__(
        self,
        node: FunctionNode,
        roles: Mapping[str, _Is],
        names: Names | None = None,
        above: tuple[CodeType, ...] = (),
    ) -> None:
        self._node = node
        self._names = names
        self._above = above
        self._nodes = list(own_nodes(node))
        self._roles = dict(roles)
        self._lists: dict[str, list[ast.expr] | None] = {}  # None: used in other ways too
        self._bind_names(set(roles))
        self._find_lists()

    # What names mean ------------------------------------------------------------------------

    def _bind_names(self, params: set[str]) -> None:
        bound: dict[str, list[ast.expr | None | _Is]] = {}

        def bind(target: ast.expr, value: ast.expr | None) -> None:
            match target:
                case ast.Name(id=name):
                    bound.setdefault(name, []).append(value)
                case ast.Tuple(elts=elts) | ast.List(elts=elts):
                    whole = value is not None and not any(isinstance(e, ast.Starred) for e in elts)
                    for i, part in enumerate(elts):
                        first = i == 0 and len(elts) == 2 and whole
                        bind(part, _item(value, 0) if first and value is not None else None)
                case ast.Starred(value=inner):
                    bind(inner, None)
                case _:
                    pass

        taken: set[int] = set()  # patterns whose names are bound to an item of the subject
        for n in self._nodes:
            if isinstance(n, ast.Match):
                for case in n.cases:
                    match case.pattern:
                        case ast.MatchSequence(
                            patterns=[ast.MatchAs(pattern=None, name=str(first)) as found, second]
                        ) if not isinstance(second, ast.MatchStar):
                            bound.setdefault(first, []).append(_item(n.subject, 0))
                            taken.add(id(found))
                        case _:
                            pass
        for n in self._nodes:
            if id(n) in taken:
                continue
            match n:
                case ast.Assign(targets=targets, value=value):
                    for target in targets:
                        bind(target, value)
                case ast.AnnAssign(target=target, value=value) if value is not None:
                    bind(target, value)
                case ast.NamedExpr(target=target, value=value):
                    bind(target, value)
                case ast.AugAssign(target=target) | ast.For(target=target):
                    bind(target, None)
                case ast.AsyncFor(target=target) | ast.comprehension(target=target):
                    bind(target, None)
                case ast.withitem(optional_vars=target) if target is not None:
                    bind(target, None)
                case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
                    bound.setdefault(name, []).append(None)
                case ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
                    bound.setdefault(name, []).append(None)
                case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                    bound.setdefault(name, []).append(None)
                case ast.Delete(targets=targets):
                    for target in targets:
                        bind(target, None)
                case ast.Import(names=names) | ast.ImportFrom(names=names):
                    for alias in names:
                        bound.setdefault(alias.asname or alias.name, []).append(None)
                case ast.Nonlocal(names=names) | ast.Global(names=names):
                    for name in names:
                        bound.setdefault(name, []).append(None)
                case _:
                    pass
        # An inner function may rebind a name that it declares nonlocal.
        for n in ast.walk(self._node):
            if isinstance(n, ast.Nonlocal):
                for name in n.names:
                    bound.setdefault(name, []).append(None)
        self._settle(bound, params)
        self._distrust_touched()

    def _settle(self, bound: dict[str, list[ast.expr | None | _Is]], params: set[str]) -> None:
        """Give each name the one meaning that all its bindings share."""
        for name in params & set(bound):
            bound[name].append(self._roles[name])
        for _ in range(len(bound) + 1):  # a chain of names settles one link per round
            changed = False
            for name, values in bound.items():
                meanings = {
                    v if isinstance(v, _Is) else _Is.UNCLEAR if v is None else self.what(v)
                    for v in values
                }
                meaning = meanings.pop() if len(meanings) == 1 else _Is.UNCLEAR
                if meaning is _Is.OTHER:
                    meaning = _Is.UNCLEAR
                if self._roles.get(name, _Is.UNCLEAR) is not meaning:
                    self._roles[name] = meaning
                    changed = True
            if not changed:
                return
        for name in bound:  # meanings that chase each other round a loop
            self._roles[name] = _Is.UNCLEAR

    def _distrust_touched(self) -> None:
        """A key or element that is written into is no longer known to be what came."""
        for n in ast.walk(self._node):
            base: ast.expr | None = None
            if isinstance(n, ast.Subscript | ast.Attribute) and not isinstance(n.ctx, ast.Load):
                base = n.value
            elif isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute):
                if n.func.attr in _MUTATORS:
                    base = n.func.value
            while isinstance(base, ast.Subscript | ast.Attribute):
                if isinstance(base, ast.Subscript) and self.what(base) is _Is.KEY:
                    self._spoil()
                base = base.value
            if isinstance(base, ast.Name) and self._roles.get(base.id) is _Is.KEY:
                self._spoil()
            direct = isinstance(n, ast.Subscript) and isinstance(n.value, ast.Name)
            if direct and not isinstance(n.ctx, ast.Load):  # type: ignore[attr-defined]
                if self._roles.get(n.value.id) is _Is.ELEMENT:  # type: ignore[attr-defined]
                    self._spoil()

    def _spoil(self) -> None:
        self._roles = {}

    # What expressions mean ------------------------------------------------------------------

    def what(self, value: ast.expr) -> _Is:
        match value:
            case ast.Name(id=name):
                return self._roles.get(name, _Is.UNCLEAR)
            case ast.Subscript(value=base, slice=ast.Constant(value=0)):
                return _Is.KEY if self.what(base) is _Is.ELEMENT else _Is.UNCLEAR
            case ast.Tuple(elts=[ast.Starred(), *_]):
                return _Is.UNCLEAR
            case ast.Tuple(elts=[first, second]) if not isinstance(second, ast.Starred):
                return _Is.ELEMENT if self.what(first) is _Is.KEY else _Is.OTHER
            case ast.IfExp(body=body, orelse=orelse):
                a, b = self.what(body), self.what(orelse)
                return a if a is b else _Is.OTHER if _Is.OTHER in (a, b) else _Is.UNCLEAR
            case ast.NamedExpr(value=inner):
                return self.what(inner)
            case ast.Call():
                return self._call(value)
            case ast.Constant() | ast.JoinedStr() | ast.Dict() | ast.Set() | ast.Compare():
                return _Is.OTHER
            case ast.Tuple() | ast.List() | ast.ListComp() | ast.DictComp() | ast.SetComp():
                return _Is.OTHER
            case ast.BinOp(op=ast.Sub() | ast.Div() | ast.Mod() | ast.Pow()):
                return _Is.OTHER
            case _:
                return _Is.UNCLEAR

    def _call(self, call: ast.Call) -> _Is:
        func, args = call.func, call.args
        name = func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")
        at = _CARRIERS.get(name)
        if at is not None:
            if len(args) > at:
                return self.what(args[at])
            named = [k.value for k in call.keywords if k.arg == "value"]
            return self.what(named[0]) if named else _Is.UNCLEAR
        if name == "tuple" and isinstance(func, ast.Name) and len(args) == 1:
            return self.what(args[0])
        found = {
            helper.what(result)
            for helper in self._helpers(call)
            for _, result in helper.outputs(Emits.RESULT)
        }
        return found.pop() if len(found) == 1 else _Is.UNCLEAR

    def _helpers(self, call: ast.Call, *, generators: bool = False) -> list[_Prover]:
        """Readers of the function that is called, which know what its parameters mean.

        None if it cannot be read, or if its result is not what it returns.
        """
        if self._names is None:
            return []
        target = self._names.value(call.func)
        spread = any(isinstance(a, ast.Starred) for a in call.args)
        spread = spread or any(k.arg is None for k in call.keywords)
        if not isinstance(target, FunctionType) or spread or len(self._above) >= _MOST_DEPTH:
            return []
        code = target.__code__
        nodes = nodes_of(code)
        if code in self._above or any(isinstance(n, ast.AsyncFunctionDef) for n in nodes):
            return []
        if not generators and any(is_generator(n) for n in nodes):
            return []
        owner, bound = receiver(self._names, call.func)
        params = code.co_varnames[int(bound) : code.co_argcount]
        roles = {p: self.what(a) for p, a in zip(params, call.args, strict=False)}
        named = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        roles |= {k.arg: self.what(k.value) for k in call.keywords if k.arg in named}
        known = {p: r for p, r in roles.items() if r in (_Is.KEY, _Is.ELEMENT)}
        above = (*self._above, code)
        return [_Prover(node, known, Names(target, owner), above) for node in nodes]

    # What leaves ----------------------------------------------------------------------------

    def outputs(self, emits: Emits) -> Iterator[tuple[_Prover, ast.expr]]:
        """The expressions whose values are emitted, each with who knows what it means."""
        if isinstance(self._node, ast.Lambda):
            results: list[ast.expr | None] = [self._node.body]
        else:
            results = [n.value for n in self._nodes if isinstance(n, ast.Return)]
        if emits is Emits.RESULT:
            nothing = ast.Constant(value=None, lineno=getattr(self._node, "lineno", 0))
            yield from ((self, r if r is not None else nothing) for r in results)
            if not results:
                yield self, nothing
            return
        if is_generator(self._node):
            for n in self._nodes:
                if isinstance(n, ast.Yield):
                    yield self, n.value or ast.Constant(value=None, lineno=n.lineno)
                elif isinstance(n, ast.YieldFrom):
                    yield from self._items(n.value)
            return
        for result in results:
            if result is not None:
                yield from self._items(result)

    def _items(self, value: ast.expr) -> Iterator[tuple[_Prover, ast.expr]]:
        match value:
            case ast.Constant(value=None):
                return
            case ast.List(elts=elts) | ast.Tuple(elts=elts) | ast.Set(elts=elts):
                for e in elts:
                    given = isinstance(e, ast.Starred)
                    yield from self._items(e.value) if given else ((self, e),)  # type: ignore[attr-defined]
            case ast.ListComp(elt=elt) | ast.GeneratorExp(elt=elt) | ast.SetComp(elt=elt):
                yield self, elt
            case ast.IfExp(body=body, orelse=orelse):
                yield from self._items(body)
                yield from self._items(orelse)
            case ast.Name(id=name) if self._lists.get(name) is not None:
                yield from ((self, item) for item in self._lists[name] or ())
            case ast.Call() if helpers := self._helpers(value, generators=True):
                for helper in helpers:
                    yield from helper.outputs(Emits.ITEMS)
            case _:
                # A pair is a tuple of two, so an unknown iterable must not pass for its items.
                unknown = ast.Subscript(
                    value=value,
                    slice=ast.Name(id="i", ctx=ast.Load()),
                    ctx=ast.Load(),
                    lineno=value.lineno,
                )
                yield self, unknown

    def _find_lists(self) -> None:
        """Local lists that are only appended to: their items are what was appended."""
        uses: dict[str, int] = {}
        for n in ast.walk(self._node):
            if isinstance(n, ast.Name):
                uses[n.id] = uses.get(n.id, 0) + 1
        made: dict[str, list[ast.expr]] = {}
        seen: dict[str, int] = {}
        for n in self._nodes:
            match n:
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.List(elts=elts)):
                    made.setdefault(name, []).extend(elts)
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id=name), attr="append"), args=[item]
                ):
                    made.setdefault(name, []).append(item)
                case ast.Return(value=ast.Name(id=name)):
                    pass
                case ast.YieldFrom(value=ast.Name(id=name)):
                    pass
                case _:
                    continue
            seen[name] = seen.get(name, 0) + 1
        for name, items in made.items():
            starred = any(isinstance(i, ast.Starred) for i in items)
            if seen[name] == uses[name] and name not in _arguments(self._node) and not starred:
                self._lists[name] = items


def _item(value: ast.expr, index: int) -> ast.expr:
    """`value[index]`, or the item itself when the value is written out."""
    if isinstance(value, ast.Tuple) and len(value.elts) > index:
        return value.elts[index]
    return ast.Subscript(value=value, slice=ast.Constant(value=index), ctx=ast.Load())


def _arguments(node: FunctionNode) -> set[str]:
    a = node.args
    found = {x.arg for x in (*a.posonlyargs, *a.args, *a.kwonlyargs)}
    return found | {x.arg for x in (a.vararg, a.kwarg) if x is not None}
