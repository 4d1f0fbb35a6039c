"""Which values the names of a function are bound to.

Takes the nodes of a function, gives for each name that is bound in it the sources of its values:
assignments, loops, comprehensions, patterns, context managers. A source is asked later, with a
reader that knows what expressions mean. Knows nothing of keys, and never runs the code it reads.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, TypeAlias

from headrace.compiler.code.names import Names
from headrace.compiler.code.source import FunctionNode, all_nodes
from headrace.compiler.code.values import Is, Value, attribute, item, spread, tuple_fields, tuple_of


class Reader(Protocol):
    """Knows what expressions mean."""

    def what(self, value: ast.expr) -> Value:
        """What the value of an expression is."""

    def each(self, value: ast.expr) -> Value:
        """What every item of an iterable is."""

    def entered(self, manager: ast.expr) -> Value:
        """What a context manager gives for `as`."""


Source: TypeAlias = Callable[[Reader], Value]
Bound: TypeAlias = Iterator[tuple[str, Source]]


def bindings(node: FunctionNode, nodes: Iterable[ast.AST], names: Names | None) -> Bound:
    """The names that a function binds, each with a source, as often as it is bound."""
    for n in nodes:
        yield from _of(n, names)
    # An inner function may rebind a name that it declares nonlocal.
    for n in all_nodes(node):
        if isinstance(n, ast.Nonlocal):
            yield from ((name, unclear) for name in n.names)


def unclear(_reader: Reader) -> Value:
    """The source of which nothing is known."""
    return Is.UNCLEAR


def _of(n: ast.AST, names: Names | None) -> Bound:
    match n:
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                yield from _target(target, lambda reader: reader.what(value))
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            yield from _target(target, lambda reader: reader.what(value))
        case ast.NamedExpr(target=target, value=value):
            yield from _target(target, lambda reader: reader.what(value))
        case ast.For(target=target, iter=value):
            yield from _target(target, lambda reader: reader.each(value))
        case ast.comprehension(target=target, iter=value, is_async=0):
            yield from _target(target, lambda reader: reader.each(value))
        case ast.withitem(context_expr=value, optional_vars=ast.expr() as target):
            yield from _target(target, lambda reader: reader.entered(value))
        case ast.AugAssign(target=target) | ast.AsyncFor(target=target):
            yield from _target(target, unclear)
        case ast.comprehension(target=target):
            yield from _target(target, unclear)
        case ast.Match(subject=subject, cases=cases):
            for case in cases:
                yield from _pattern(case.pattern, lambda reader: reader.what(subject), names)
        case ast.ExceptHandler(name=str(name)):
            yield name, unclear
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            yield name, unclear
        case ast.ClassDef(name=name):
            yield name, unclear
        case ast.Delete(targets=targets):
            for target in targets:
                yield from _target(target, unclear)
        case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
            for alias in aliases:
                yield alias.asname or alias.name.partition(".")[0], unclear
        case ast.Global(names=listed) | ast.Nonlocal(names=listed):
            yield from ((name, unclear) for name in listed)
        case _:
            return


def _target(target: ast.expr, source: Source) -> Bound:
    match target:
        case ast.Name(id=name):
            yield name, source
        case ast.Starred(value=inner):
            yield from _target(inner, source)
        case ast.Tuple(elts=elts) | ast.List(elts=elts):
            starred = [i for i, e in enumerate(elts) if isinstance(e, ast.Starred)]
            for i, part in enumerate(elts):
                yield from _target(part, _part(source, i, len(elts), starred))
        case _:
            return


def _part(source: Source, index: int, length: int, starred: list[int]) -> Source:
    """The item of a value that is unpacked into so many targets."""
    if not starred:
        return lambda reader: _exactly(source(reader), index, length)
    (star,) = starred
    if index < star:
        return lambda reader: item(source(reader), index)
    if index == star:
        return unclear  # a list, whatever was unpacked
    return lambda reader: item(source(reader), index - length)


def _exactly(value: Value, index: int, length: int) -> Value:
    """An item of what has just so many: unpacking anything else fails."""
    items, more = spread(value)
    if len(items) != length and not more:
        return Is.UNCLEAR
    return items[index] if index < len(items) <= length else Is.UNCLEAR


def _pattern(pattern: ast.pattern, source: Source, names: Names | None) -> Bound:
    match pattern:
        case ast.MatchAs(pattern=inner, name=name):
            if name is not None:
                yield name, source
            if inner is not None:
                yield from _pattern(inner, source, names)
        case ast.MatchStar(name=str(name)):
            yield name, unclear
        case ast.MatchMapping(keys=keys, patterns=parts, rest=rest):
            if rest is not None:
                yield rest, unclear
            for key, part in zip(keys, parts, strict=True):
                constant = key.value if isinstance(key, ast.Constant) else None
                yield from _pattern(part, _item(source, constant), names)
        case ast.MatchSequence(patterns=parts):
            starred = [i for i, p in enumerate(parts) if isinstance(p, ast.MatchStar)]
            for i, part in enumerate(parts):
                yield from _pattern(part, _part(source, i, len(parts), starred), names)
        case ast.MatchClass(cls=cls, patterns=parts, kwd_attrs=attrs, kwd_patterns=named):
            fields = () if names is None else tuple_fields(names.value(cls))
            for i, part in enumerate(parts):
                known = fields[i] if i < len(fields) else ""
                yield from _pattern(part, _field(source, fields, known), names)
            for attr, part in zip(attrs, named, strict=True):
                yield from _pattern(part, _field(source, fields, attr), names)
        case ast.MatchOr(patterns=parts):
            for part in parts:
                yield from _pattern(part, source, names)
        case _:
            return


def is_any_pair(pattern: ast.pattern) -> bool:
    """Whether a pattern fits every tuple of two."""
    parts = pattern.patterns if isinstance(pattern, ast.MatchSequence) else []
    return len(parts) == 2 and all(
        isinstance(p, ast.MatchAs) and p.pattern is None for p in parts
    )


def _item(source: Source, constant: object) -> Source:
    return lambda reader: item(source(reader), constant)


def _field(source: Source, fields: tuple[str, ...], name: str) -> Source:
    """A field of what is an instance of a NamedTuple with these fields."""

    def found(reader: Reader) -> Value:
        value = source(reader)
        if len(fields) == 2 and value is Is.ELEMENT:
            value = tuple_of((Is.KEY, Is.UNCLEAR), names=fields)
        return attribute(value, name)

    return found
