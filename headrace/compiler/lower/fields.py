"""Finds which fields of an object are still what they were when it was pickled.

Takes an object that travels by value. Where nothing runs but the method that is read, whose own
writes are seen, these are all. A DoFn with methods such as `start_bundle` may change what they
write, and through what they mention also what it holds. Reads texts; runs nothing of the user's.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from types import FunctionType

import apache_beam as beam

from headrace.compiler.code.source import nodes_of
from headrace.compiler.code.subject import lifecycle
from headrace.compiler.lower.constants import held_by
from headrace.compiler.lower.operands import SCALARS

#: Names by which fields are reached without being written out.
_UNSEEN = frozenset({"setattr", "delattr", "vars", "__dict__", "__setattr__", "exec", "eval"})


def steady_fields(owner: object) -> Mapping[str, object]:
    """What an object holds for as long as it lives."""
    held = held_by(owner)
    if not isinstance(owner, beam.DoFn) or not held:
        return held
    if not any(lifecycle(owner)) and not written_fields(owner):
        return held
    written: set[str] = set()
    mentioned: set[str] = set()
    methods = dict(_methods(type(owner)))
    reached = _reached("process", methods)
    for name, function in methods.items():
        nodes = nodes_of(function.__code__)
        if len(nodes) != 1:
            return {}
        found = _looked_at(nodes[0])
        if found is None:
            return {}
        written |= found[0]
        mentioned |= set() if name in reached else found[1]
    return {
        name: value
        for name, value in held.items()
        if name not in written and (type(value) in SCALARS or name not in mentioned)
    }


def written_fields(owner: object) -> frozenset[str]:
    """The fields that `process`, and the methods that it calls, assign to."""
    methods = dict(_methods(type(owner)))
    found: set[str] = set()
    for name in _reached("process", methods):
        for node in nodes_of(methods[name].__code__):
            looked = _looked_at(node)
            found |= set() if looked is None else looked[0]
    return frozenset(found)


def _methods(cls: type) -> Iterator[tuple[str, FunctionType]]:
    """The methods of the user's, but for what runs before the object is pickled."""
    for each in reversed(cls.__mro__):
        if each is object or each.__module__.startswith("apache_beam."):
            continue
        for name, value in vars(each).items():
            function = getattr(value, "__func__", value)
            if isinstance(function, FunctionType) and name != "__init__":
                # One of a class above runs by way of `super`: it must not be lost.
                yield (name if each is cls else f"{each.__qualname__}.{name}"), function


def _reached(first: str, methods: Mapping[str, FunctionType]) -> frozenset[str]:
    """The methods that a method calls, and those that they call."""
    found: set[str] = set()
    waiting = {first}
    while waiting:
        name = waiting.pop()
        same = {n for n in methods if n.rpartition(".")[2] == name} - found
        found |= same
        for each in same:
            waiting |= set(methods[each].__code__.co_names)
    return frozenset(found)


def _looked_at(root: ast.AST) -> tuple[set[str], set[str]] | None:
    """The fields, of any object, that a text writes, and those that it mentions; None: all."""
    written: set[str] = set()
    mentioned: set[str] = set()
    held: set[int] = set()  # names whose fields are taken: the object itself goes nowhere
    listed = _listed(root)
    for node in ast.walk(root):
        match node:
            case ast.Attribute(value=base, attr=attr, ctx=ctx):
                held.add(id(base))
                if attr in _UNSEEN:
                    return None
                mentioned.add(attr)
                if not isinstance(ctx, ast.Load):
                    written.add(attr)
            case ast.Call(func=ast.Name(id="getattr"), args=[ast.Name() as base, asked, *_]):
                names = _texts(asked, listed)
                if names is None:
                    return None
                held.add(id(base))
                mentioned |= names
            case ast.Name(id=name) if name in _UNSEEN:
                return None
    first = root.args.args[:1] if isinstance(root, ast.FunctionDef) else []
    for node in ast.walk(root):
        if isinstance(node, ast.Name) and first and node.id == first[0].arg and (
            id(node) not in held
        ):
            return None  # the object as a whole is handed to somebody
    return written, mentioned


def _listed(root: ast.AST) -> Mapping[str, set[str] | None]:
    """Names that loops let stand for texts that are written out; None: for something else too."""
    found: dict[str, set[str] | None] = {}
    for node in ast.walk(root):
        match node:
            case ast.For(target=ast.Name(id=name), iter=ast.Tuple(elts=elts) | ast.List(elts=elts)):
                texts = [e.value for e in elts if isinstance(e, ast.Constant)]
                plain = {t for t in texts if isinstance(t, str)}
                before = found.get(name, set())
                whole = len(texts) == len(elts) and all(isinstance(t, str) for t in texts)
                found[name] = plain | before if whole and before is not None else None
            case ast.For(target=target):
                found |= {n.id: None for n in ast.walk(target) if isinstance(n, ast.Name)}
    stored = [n for n in ast.walk(root) if isinstance(n, ast.Name) and not _is_read(n)]
    loops = [n.target for n in ast.walk(root) if isinstance(n, ast.For)]
    others = {n.id for n in stored if not any(n is target for target in loops)}
    return {name: None if name in others else texts for name, texts in found.items()}


def _is_read(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Load)


def _texts(asked: ast.expr, listed: Mapping[str, set[str] | None]) -> set[str] | None:
    match asked:
        case ast.Constant(value=str() as name):
            return {name}
        case ast.Name(id=name):
            return listed.get(name)
        case _:
            return None
