"""Reads one function for what it remembers and what it asks of the world.

Takes a function's syntax tree and what its names stand for, gives `Effects`. What it calls is
handed to whoever follows calls. Never runs the code it reads.
"""

from __future__ import annotations

import ast
import inspect
import logging
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import FunctionType, MethodDescriptorType, MethodType, ModuleType
from typing import Protocol

from headrace.compiler.code.known import (
    MUTATING_FUNCTIONS,
    MUTATING_METHODS,
    READING_METHODS,
    WORLD_METHODS,
    dice,
)
from headrace.compiler.code.names import (
    MISSING,
    Names,
    is_immutable,
    is_iterator,
    is_standard,
    is_super,
    module_of,
    receiver,
    spelled,
    static_attribute,
)
from headrace.compiler.code.sharing import Sharing
from headrace.compiler.code.source import FunctionNode, all_nodes, arguments_of, body_nodes

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


class Follow(Protocol):
    """Records what calling an object does; tells whether its result may be shared."""

    def __call__(
        self,
        found: Effects,
        target: object,
        spelling: str,
        *,
        line: int,
        shared: frozenset[str],
        owner: object | None,
    ) -> bool:
        """Follow a call."""


class Reader:
    """Reads one function; `shared` are its parameters bound to objects that outlive the call."""

    def __init__(
        self,
        node: FunctionNode,
        names: Names,
        shared: frozenset[str],
        follow: Follow,
        gives_shared: Callable[[FunctionType], bool],
    ) -> None:
        self.found = Effects()
        self._node = node
        self._names = names
        self._follow = follow
        self._sharing = Sharing(node, names, shared, gives_shared)
        self._shared = self._sharing.of

    def read(self) -> None:
        """Look at every node."""
        nodes = body_nodes(self._node)
        self._sharing.spread(nodes)
        for n in nodes:
            self._visit(n)
        self.found.returns_shared = self._returns_shared(nodes)

    def returns_shared(self) -> bool:
        """Look at what is returned alone: whether it may outlive the call."""
        nodes = body_nodes(self._node)
        self._sharing.spread(nodes)
        return self._returns_shared(nodes)

    def _returns_shared(self, nodes: Sequence[ast.AST]) -> bool:
        if isinstance(self._node, ast.Lambda):
            return self._shared(self._node.body)
        results = (n.value for n in nodes if isinstance(n, ast.Return) and n.value is not None)
        return any(self._shared(r) for r in results)

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
            case ast.withitem(context_expr=manager):
                self._enter(manager)
            case _:
                pass
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
            if is_iterator(self._names.value(node)):
                self._write("takes from", node)

    def _enter(self, manager: ast.expr) -> None:
        """Entering and leaving a block runs code."""
        held = self._names.value(manager)
        cls: object = self._sharing.made(manager) if held is MISSING else type(held)
        if not isinstance(cls, type) or is_standard(module_of(cls)):
            return
        for hook in ("__enter__", "__exit__"):
            method = static_attribute(cls, hook)
            if isinstance(method, FunctionType):
                shared = frozenset(method.__code__.co_varnames[: int(held is not MISSING)])
                owner = None if held is MISSING else held
                self._follow_call(method, spelled(manager), manager.lineno, shared, owner=owner)

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
            for n in all_nodes(self._node):
                stores = isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store | ast.Del)
                if stores and n.id == name:  # type: ignore[attr-defined]
                    at = getattr(n, "lineno", line)
                    self.found.writes.append(f"writes {kind} {name} in line {at}")
                    break

    def _hand_over(self, call: ast.Call) -> None:
        """A function that is given to another, as to `map` or as `key`, may be called there."""
        for given in (*call.args, *(k.value for k in call.keywords)):
            target = self._names.value(given)
            if isinstance(target, FunctionType | MethodType | partial):
                owner = receiver(self._names, given)[0]
                self._follow_call(target, spelled(given), given.lineno, frozenset(), owner=owner)
            elif isinstance(given, ast.Attribute) and given.attr in MUTATING_METHODS:
                if self._shared(given.value):
                    self._write("changes", given.value)

    def _call(self, call: ast.Call) -> None:
        func, line = call.func, call.lineno
        self._hand_over(call)
        if isinstance(func, ast.Attribute):
            if is_super(func.value):
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
        target = self._names.value(func)
        if target is not MISSING:
            self._known_target(call, target, line)
        elif self._shared(func):
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
        called = getattr(target, "__name__", "")
        mutates = dotted in MUTATING_FUNCTIONS or called in _DUNDER_WRITES
        if isinstance(target, MethodDescriptorType):  # `list.append(self.seen, x)`
            mutates = mutates or called in MUTATING_METHODS
        if mutates and call.args and self._shared(call.args[0]):
            self.found.writes.append(f"changes {spelled(call.args[0])} in line {line}")
            return
        shared = self._sharing.params(call, target, skip=0)
        self._follow_call(target, spelling, line, shared)

    def _method(self, call: ast.Call, func: ast.Attribute, base: object, line: int) -> None:
        if not self._shared(func.value) and (is_immutable(base) or base is MISSING):
            self._own_method(call, func, line)
            return
        name = func.attr
        target = MISSING if base is MISSING else static_attribute(base, name)
        beams_own = module_of(type(base)).startswith("apache_beam.")
        if isinstance(base, _HARMLESS_TYPES) or (beams_own and base is not self._names.owner):
            return  # loggers, patterns, Beam's metrics: nothing in them reaches another element
        dotted = f"{module_of(type(base))}.{name}"
        if dice(dotted):
            self.found.dice.append(f"{dice(dotted)} in line {line}")
            if dotted.partition(".")[0] in ("random", "numpy"):
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
        elif name == "get" and call.args and self._is_given(func.value):
            return  # a table beside the element
        elif name == "get" and base is MISSING:
            # A dict made in setup, a queue, a service: only an argument tells the first apart.
            self.found.dice.append(f"calls {spelled(func)} in line {line}, whose answer may change")
            if not call.args:
                self._write("changes", func.value)
        elif name not in READING_METHODS and not is_immutable(base):
            doubt = f"calls {spelled(func)} in line {line}, whose effects are not known"
            self.found.doubts.append(doubt)

    def _own_method(self, call: ast.Call, func: ast.Attribute, line: int) -> None:
        """A method of an element, a local or a constant: as a rule it changes only that."""
        if func.attr in WORLD_METHODS:
            self.found.dice.append(f"calls {spelled(func)} in line {line}, which asks the world")
        cls = self._sharing.made(func.value)
        target = MISSING if cls is None else static_attribute(cls, func.attr)
        if cls is None or is_standard(module_of(cls)):
            rolled = "" if cls is None else dice(f"{module_of(cls)}.{cls.__name__}.{func.attr}")
            self.found.dice += [f"{rolled} in line {line}"] if rolled else []
        elif isinstance(target, FunctionType):
            shared = self._sharing.params(call, target, skip=1)
            self._follow_call(target, spelled(func), line, shared)

    def _is_given(self, node: ast.expr) -> bool:
        """Whether it is a parameter other than `self`."""
        given = arguments_of(self._node) - {self._names.self_name or ""}
        return isinstance(node, ast.Name) and node.id in given

    @staticmethod
    def _is_held(base: object, name: str) -> bool:
        """Whether the callable is a value kept in the object, not a method of its class."""
        return hasattr(base, "__dict__") and name in vars(base)

    def _super_call(self, func: ast.Attribute, line: int) -> None:
        target = self._names.value(func)
        if isinstance(target, FunctionType):
            first = frozenset(target.__code__.co_varnames[:1])
            callee, owner = f"super().{func.attr}", self._names.owner
            self._follow_call(target, callee, line, first, owner=owner)

    def _follow_call(
        self,
        target: object,
        spelling: str,
        line: int,
        shared: frozenset[str],
        owner: object | None = None,
    ) -> None:
        self._follow(self.found, target, spelling, line=line, shared=shared, owner=owner)

