"""Finds what a function remembers or asks of the world: writes, doubtful calls, dice.

Takes a Python function and the object its `self` is bound to, gives the writes to anything that
outlives the call (fields of self, globals, closure cells), the calls whose effects cannot be seen,
and the calls whose answer differs from run to run. Calls are followed into Python code to a fixed
depth. Never runs the code it reads.

Blind spots, accepted: an object reached through a fresh container (`list(self.x)[0]`) counts as
fresh itself; operators (`a + b`, `a[b]`) of the user's own types are taken for harmless; elements
may be changed in place, which Beam forbids anyway.
"""

from __future__ import annotations

import ast
import functools
import inspect
import logging
import re
from collections import defaultdict
from dataclasses import dataclass, field
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType

from headrace.compiler import code_bytes
from headrace.compiler.code_known import (
    FRESH_RESULTS,
    MUTATING_FUNCTIONS,
    MUTATING_METHODS,
    READING_METHODS,
    STATELESS_PACKAGES,
    UNREADABLE_FUNCTIONS,
    dice,
)
from headrace.compiler.code_names import (
    IMMUTABLE_TYPES,
    MISSING,
    Names,
    is_immutable,
    is_standard,
    module_of,
    spelled,
    static_attribute,
)
from headrace.compiler.code_sharing import CONTAINERS, Sharing
from headrace.compiler.code_source import FunctionNode, nodes_of

_MOST_DEPTH = 4  # deeper calls are distrusted: the time per DoFn stays small
_MOST_FUNCTIONS = 40

_HARMLESS_TYPES = (logging.Logger, logging.LoggerAdapter, re.Pattern)
_DUNDER_WRITES = frozenset({"__setattr__", "__delattr__", "__setitem__", "__delitem__"})


@dataclass(slots=True)
class Effects:
    """What was found; each entry is a reason that can be printed."""

    writes: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    dice: list[str] = field(default_factory=list)
    returns_shared: bool = False  # its result may be something that outlives the call

    def add(self, other: Effects, via: str) -> None:
        """Take over what a called function does."""
        self.writes += [f"{r}, called through {via}" for r in other.writes]
        self.doubts += [f"{r}, called through {via}" for r in other.doubts]
        self.dice += [f"{r}, called through {via}" for r in other.dice]


@dataclass(slots=True)
class _Budget:
    """What is left to follow, and what was followed already."""

    functions: int = _MOST_FUNCTIONS
    seen: set[tuple[object, frozenset[str]]] = field(default_factory=set)


def effects_of(function: object, owner: object | None = None) -> Effects:
    """The effects of calling a callable, `owner` being its `self`."""
    budget = _Budget()
    if isinstance(function, FunctionType):
        return _follow(Names(function, owner), frozenset(), budget, depth=0)
    found = Effects()
    if not callable(function):
        return Effects(doubts=["its code was not found"])
    _call_object(found, function, "it", line=0, shared=frozenset(), budget=budget, depth=0)
    return found


def _follow(names: Names, shared: frozenset[str], budget: _Budget, depth: int) -> Effects:
    code = names.function.__code__
    mark = (code, shared)
    if mark in budget.seen:
        return Effects()
    budget.seen.add(mark)
    budget.functions -= 1
    if depth > _MOST_DEPTH or budget.functions < 0:
        return Effects(doubts=[f"{code.co_name} lies too deep to be read"])
    nodes = nodes_of(code)
    if not nodes:
        writes, doubts, rolls = code_bytes.effects(names)
        return Effects(writes, doubts, rolls, returns_shared=True)
    total = Effects()
    for node in nodes:
        reader = _Reader(node, names, shared, budget, depth)
        reader.read()
        total.writes += reader.found.writes
        total.doubts += reader.found.doubts
        total.dice += reader.found.dice
        total.returns_shared |= reader.found.returns_shared
    return total


def _call_object(
    found: Effects,
    target: object,
    spelling: str,
    *,
    line: int,
    shared: frozenset[str],
    budget: _Budget,
    depth: int,
    owner: object | None = None,
) -> bool:
    """Record what calling `target` does; tells whether its result may be shared.

    `shared` names the parameters that are bound to shared objects.
    """
    where = f" in line {line}" if line else ""
    while isinstance(target, functools.partial):
        target = target.func
    if type(target).__name__ == "_lru_cache_wrapper":
        target = getattr(target, "__wrapped__", target)  # a cache changes when, not what
    if isinstance(target, MethodType):
        owner = target.__self__
        target = target.__func__
    module = module_of(target)
    name = getattr(target, "__name__", "")
    dotted = f"{module}.{getattr(target, '__qualname__', name)}"
    rolled = dice(dotted) or dice(f"{module}.{name}")
    if rolled:
        found.dice.append(f"{rolled}{where}")
    if dotted in UNREADABLE_FUNCTIONS:
        found.doubts.append(f"calls {spelling}{where}, which may do anything")
        return True
    if isinstance(target, type):
        _construct(found, target, spelling, budget=budget, depth=depth)
        return False
    held = getattr(target, "__self__", None)
    if isinstance(target, BuiltinFunctionType) and not isinstance(held, ModuleType | type(None)):
        if isinstance(held, CONTAINERS) and name in MUTATING_METHODS:
            found.writes.append(f"changes a {type(held).__name__} through {name}(){where}")
            return False
        if isinstance(held, (*CONTAINERS, *IMMUTABLE_TYPES, tuple)):
            return False
    known = is_standard(module) or module.split(".")[0] in STATELESS_PACKAGES
    known = known and owner is None  # a method of a shared object is read, wherever it is from
    if known or type(target).__name__ in {"method_descriptor", "wrapper_descriptor"}:
        return name not in FRESH_RESULTS and bool(shared)
    if isinstance(target, FunctionType):
        effects = _follow(Names(target, owner), shared, budget, depth + 1)
        found.add(effects, spelling)
        return effects.returns_shared
    if callable(target) and not isinstance(target, ModuleType):
        call = static_attribute(type(target), "__call__")
        if isinstance(call, FunctionType):
            effects = _follow(Names(call, target), shared, budget, depth + 1)
            found.add(effects, spelling)
            return effects.returns_shared
    found.doubts.append(f"calls {spelling}{where}, whose effects are not known")
    return True


def _construct(
    found: Effects, cls: type, spelling: str, *, budget: _Budget, depth: int
) -> None:
    """Making an object: what its `__init__` writes into itself is fresh, anything else counts."""
    module = module_of(cls)
    if is_standard(module) or module.split(".")[0] in STATELESS_PACKAGES:
        return
    for hook in ("__init__", "__new__", "__post_init__"):
        method = static_attribute(cls, hook)
        if isinstance(method, FunctionType):
            effects = _follow(Names(method, None), frozenset(), budget, depth + 1)
            found.add(effects, spelling)


class _Reader:
    """Reads one function; `shared` are its parameters bound to objects that outlive the call."""

    def __init__(
        self,
        node: FunctionNode,
        names: Names,
        shared: frozenset[str],
        budget: _Budget,
        depth: int,
    ) -> None:
        self.found = Effects()
        self._node = node
        self._names = names
        self._budget = budget
        self._depth = depth
        self._sharing = Sharing(node, names, shared, self._gives_shared)
        self._shared = self._sharing.of

    def _gives_shared(self, target: FunctionType) -> bool:
        scratch = _Budget(functions=self._budget.functions)
        return _follow(Names(target, None), frozenset(), scratch, self._depth + 1).returns_shared

    def read(self) -> None:
        body = [self._node.body] if isinstance(self._node, ast.Lambda) else self._node.body
        nodes = [n for part in body for n in ast.walk(part)]
        self._sharing.spread(nodes)
        for n in nodes:
            self._visit(n)
        results = (n.value for n in nodes if isinstance(n, ast.Return) and n.value is not None)
        if isinstance(self._node, ast.Lambda):
            self.found.returns_shared = self._shared(self._node.body)
        else:
            self.found.returns_shared = any(self._shared(r) for r in results)

    # What is done ---------------------------------------------------------------------------

    def _visit(self, node: ast.AST) -> None:
        match node:
            case ast.Attribute(value=base, ctx=ast.Store() | ast.Del()) if self._shared(base):
                self._write("writes", node)
            case ast.Subscript(value=base, ctx=ast.Store() | ast.Del()) if self._shared(base):
                self._write("changes", base)
            case ast.AugAssign(target=ast.Name(id=name) as target) if name in self._sharing.locals:
                self._write("changes", target)
            case ast.Global(names=names):
                self._rebinds("global", names, node.lineno)
            case ast.Nonlocal(names=names):
                free = self._names.function.__code__.co_freevars
                self._rebinds("enclosing", [n for n in names if n in free], node.lineno)
            case ast.Call():
                self._call(node)
            case ast.Attribute(attr=attr, value=ast.Name(id=name)) if name == self._names.self_name:
                self._property(attr, node.lineno)
            case ast.Subscript(value=base) if type(self._names.value(base)) is defaultdict:
                self._write("may add to", base)
            case _:
                pass

    def _property(self, attr: str, line: int) -> None:
        """Reading a property runs code."""
        try:
            found = inspect.getattr_static(type(self._names.owner), attr)
        except AttributeError:
            return
        if isinstance(found, property) and isinstance(found.fget, FunctionType):
            first = frozenset(found.fget.__code__.co_varnames[:1])
            self._follow_call(found.fget, f"self.{attr}", line, first, owner=self._names.owner)

    def _write(self, verb: str, target: ast.expr) -> None:
        self.found.writes.append(f"{verb} {spelled(target)} in line {target.lineno}")

    def _rebinds(self, kind: str, names: list[str], line: int) -> None:
        for name in names:
            for n in ast.walk(self._node):
                stores = isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store | ast.Del)
                if stores and n.id == name:  # type: ignore[attr-defined]
                    at = getattr(n, "lineno", line)
                    self.found.writes.append(f"writes {kind} {name} in line {at}")
                    break

    def _call(self, call: ast.Call) -> None:
        func, line = call.func, call.lineno
        if isinstance(func, ast.Attribute):
            if _is_super(func.value):
                self._super_call(func, line)
                return
            base = self._names.value(func.value)
            # What hangs on a module or a class is found by name; the rest are methods of objects.
            if base is not MISSING and isinstance(base, ModuleType | type):
                self._known_target(call, self._names.value(func), line)
            else:
                self._method(call, func, base, line)
            return
        if isinstance(func, ast.Name):
            if not self._sharing.is_local(func.id):
                self._known_target(call, self._names.value(func), line)
            elif func.id in self._sharing.locals:
                doubt = f"calls {func.id} in line {line}, whose effects are not known"
                self.found.doubts.append(doubt)
            return
        if self._shared(func):
            doubt = f"calls {spelled(func)} in line {line}, whose effects are not known"
            self.found.doubts.append(doubt)

    def _known_target(self, call: ast.Call, target: object, line: int) -> None:
        spelling = spelled(call.func)
        if target is MISSING:
            rolled = dice(spelling)
            if rolled:
                self.found.dice.append(f"{rolled} in line {line}")
            self.found.doubts.append(f"calls {spelling} in line {line}, which was not found")
            return
        dotted = f"{module_of(target)}.{getattr(target, '__name__', '')}"
        mutates = dotted in MUTATING_FUNCTIONS or getattr(target, "__name__", "") in _DUNDER_WRITES
        if mutates and call.args and self._shared(call.args[0]):
            self.found.writes.append(f"changes {spelled(call.args[0])} in line {line}")
            return
        shared = self._sharing.params(call, target, skip=0)
        self._follow_call(target, spelling, line, shared)

    def _method(self, call: ast.Call, func: ast.Attribute, base: object, line: int) -> None:
        if not self._shared(func.value):
            if is_immutable(base) or base is MISSING:
                return  # an element, a local, a constant: its methods change only itself
        name = func.attr
        target = MISSING if base is MISSING else static_attribute(base, name)
        beams_own = module_of(type(base)).startswith("apache_beam.")
        if isinstance(base, _HARMLESS_TYPES) or (beams_own and base is not self._names.owner):
            return  # loggers, patterns, Beam's metrics: nothing in them reaches another element
        dotted = f"{module_of(type(base))}.{name}"
        if dice(dotted):
            self.found.dice.append(f"{dice(dotted)} in line {line}")
            self._write("changes", func.value)  # a generator of random numbers moves on
            return
        if isinstance(target, FunctionType):
            shared = self._sharing.params(call, target, skip=1)
            if target.__code__.co_argcount:
                shared |= {target.__code__.co_varnames[0]}
            self._follow_call(target, spelled(func), line, shared, owner=base)
            return
        if name in MUTATING_METHODS:
            self._write("changes", func.value)
        elif target is not MISSING and self._is_held(base, name):
            self._follow_call(target, spelled(func), line, frozenset())
        elif name == "get" and base is MISSING:
            # A dict made in setup, a queue, a service: only an argument tells the first apart.
            self.found.dice.append(f"calls {spelled(func)} in line {line}, whose answer may change")
            if not call.args:
                self._write("changes", func.value)
        elif name not in READING_METHODS and not is_immutable(base):
            doubt = f"calls {spelled(func)} in line {line}, whose effects are not known"
            self.found.doubts.append(doubt)

    @staticmethod
    def _is_held(base: object, name: str) -> bool:
        """Whether the callable is a value kept in the object, not a method of its class."""
        return hasattr(base, "__dict__") and name in vars(base)

    def _super_call(self, func: ast.Attribute, line: int) -> None:
        owner = self._names.owner
        mine = self._names.function.__qualname__.rpartition(".")[0].rpartition(".")[2]
        past = False
        for cls in type(owner).__mro__ if owner is not None else ():
            if past and func.attr in vars(cls):
                target = vars(cls)[func.attr]
                if isinstance(target, FunctionType):
                    first = target.__code__.co_varnames[:1]
                    self._follow_call(
                        target, f"super().{func.attr}", line, frozenset(first), owner=owner
                    )
                return
            past = past or cls.__name__ == mine

    def _follow_call(
        self,
        target: object,
        spelling: str,
        line: int,
        shared: frozenset[str],
        owner: object | None = None,
    ) -> None:
        _call_object(
            self.found,
            target,
            spelling,
            line=line,
            shared=shared,
            budget=self._budget,
            depth=self._depth,
            owner=owner,
        )

def _is_super(node: ast.expr) -> bool:
    func = node.func if isinstance(node, ast.Call) else None
    return isinstance(func, ast.Name) and func.id == "super"
