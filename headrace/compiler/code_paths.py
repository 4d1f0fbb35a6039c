"""Counts the outputs of one call: the fewest and the most over all paths through a function.

Takes the syntax tree of a function and how its result becomes output, gives a selectivity with its
reason. Branches are joined, loops make the count open, a path that raises gives nothing and counts
for nothing. Knows no Beam.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from headrace.compiler.code_source import FunctionNode
from headrace.plan.traits import Selectivity

_OPEN = 1 << 30  # stands for "any number"


@dataclass(frozen=True, slots=True)
class Span:
    """From `low` to `high` outputs."""

    low: int
    high: int

    def then(self, other: Span) -> Span:
        """Both, one after the other."""
        return Span(min(self.low + other.low, _OPEN), min(self.high + other.high, _OPEN))

    def either(self, other: Span) -> Span:
        """One of the two."""
        return Span(min(self.low, other.low), max(self.high, other.high))


_NOTHING = Span(0, 0)
_ANY = Span(0, _OPEN)


@dataclass(frozen=True, slots=True)
class _Flow:
    """What has been emitted where control goes on, and where the function ended."""

    on: Span | None  # None: control never gets here
    ended: Span | None  # None: the function never ended inside

    def joined(self, other: _Flow) -> _Flow:
        return _Flow(_either(self.on, other.on), _either(self.ended, other.ended))


def _either(a: Span | None, b: Span | None) -> Span | None:
    if a is None or b is None:
        return a or b
    return a.either(b)


def is_generator(node: FunctionNode) -> bool:
    """Whether the function itself yields; inner functions do not count."""
    return any(isinstance(n, ast.Yield | ast.YieldFrom) for n in own_nodes(node))


def own_nodes(node: FunctionNode) -> Iterator[ast.AST]:
    """All nodes of a function's body, without the bodies of functions inside it."""
    body = [node.body] if isinstance(node, ast.Lambda) else list(node.body)
    waiting: list[ast.AST] = list(body)
    while waiting:
        current = waiting.pop()
        yield current
        if not isinstance(
            current, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef
        ):
            waiting.extend(ast.iter_child_nodes(current))


def count_outputs(node: FunctionNode) -> tuple[Selectivity, str]:
    """The selectivity of a function whose yields, or whose result's items, are the output."""
    if isinstance(node, ast.Lambda):
        span = _items(node.body)
    else:
        counter = _Counter(generator=is_generator(node))
        flow = counter.block(node.body)
        span = _either(flow.on, flow.ended) or _NOTHING
    return _verdict(span)


def _verdict(span: Span) -> tuple[Selectivity, str]:
    if span == Span(1, 1):
        return Selectivity.EXACTLY_ONE, "one output on every path"
    if span.high <= 1:
        return Selectivity.AT_MOST_ONE, f"{span.low} to {span.high} outputs, by path"
    if span.high >= _OPEN:
        return Selectivity.MANY, "a loop, or an iterable of open length, makes the outputs"
    if span.low == span.high:
        return Selectivity.MANY, f"{span.high} outputs on every path"
    return Selectivity.MANY, f"{span.low} to {span.high} outputs, by path"


def _items(value: ast.expr | None) -> Span:
    """How many items the value of an expression has, when it is returned or yielded from."""
    match value:
        case None | ast.Constant(value=None):
            return _NOTHING
        case ast.List(elts=elts) | ast.Tuple(elts=elts):
            return _sum(_items(e.value) if isinstance(e, ast.Starred) else Span(1, 1) for e in elts)
        case ast.Set(elts=elts):
            return _ANY if any(isinstance(e, ast.Starred) for e in elts) else Span(1, len(elts))
        case ast.IfExp(body=body, orelse=orelse):
            return _items(body).either(_items(orelse))
        case ast.NamedExpr(value=inner):
            return _items(inner)
        case _:
            return _ANY


def _sum(spans: Iterable[Span]) -> Span:
    total = _NOTHING
    for span in spans:
        total = total.then(span)
    return total


class _Counter:
    """Walks statements in the order control takes."""

    def __init__(self, *, generator: bool) -> None:
        self._generator = generator

    def block(self, statements: Iterable[ast.stmt]) -> _Flow:
        flow = _Flow(_NOTHING, None)
        for statement in statements:
            if flow.on is None:
                break
            step = self._statement(statement)
            flow = _Flow(
                None if step.on is None else flow.on.then(step.on),
                _either(flow.ended, None if step.ended is None else flow.on.then(step.ended)),
            )
        return flow

    def _statement(self, statement: ast.stmt) -> _Flow:
        match statement:
            case ast.Return(value=value):
                inside = self._yields(value)
                return _Flow(None, inside if self._generator else _items(value))
            case ast.Raise():
                return _Flow(None, None)
            case ast.If(test=test, body=body, orelse=orelse):
                return self._after(test, self.block(body).joined(self.block(orelse)))
            case ast.For() | ast.AsyncFor() | ast.While():
                return self._loop(statement)
            case ast.Try() | ast.With() | ast.AsyncWith():
                return self._guarded(statement)
            case ast.Match(subject=subject, cases=cases):
                flow = _Flow(_NOTHING, None)  # no case may match
                for case in cases:
                    flow = flow.joined(self.block(case.body))
                return self._after(subject, flow)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                return _Flow(_NOTHING, None)
            case ast.Break() | ast.Continue():
                # Where control goes on is the loop's matter; the loop opens the count anyway.
                return _Flow(_NOTHING, None)
            case _ if hasattr(ast, "TryStar") and isinstance(statement, ast.TryStar):
                return _Flow(_ANY, _ANY)
            case _:
                return _Flow(self._yields(statement), None)

    def _after(self, test: ast.expr, flow: _Flow) -> _Flow:
        first = self._yields(test)
        return _Flow(
            None if flow.on is None else first.then(flow.on),
            None if flow.ended is None else first.then(flow.ended),
        )

    def _loop(self, loop: ast.For | ast.AsyncFor | ast.While) -> _Flow:
        head = self._yields(loop.test if isinstance(loop, ast.While) else loop.iter)
        body = self.block(loop.body)
        rounds = _NOTHING if (body.on or _NOTHING).high == 0 and head.high == 0 else _ANY
        ended = None if body.ended is None else rounds.then(body.ended)
        rest = self.block(loop.orelse)
        # A break skips the else part, so the count after the loop may lack it.
        on = rounds.then(_NOTHING.either(rest.on or _NOTHING))
        return _Flow(on, _either(ended, None if rest.ended is None else rounds.then(rest.ended)))

    def _guarded(self, statement: ast.Try | ast.With | ast.AsyncWith) -> _Flow:
        """Statements whose exception may be caught after some of the outputs were made."""
        body = self.block(statement.body)
        most = max((body.on or _NOTHING).high, (body.ended or _NOTHING).high)
        broken = Span(0, most if self._generator else 0)
        if not isinstance(statement, ast.Try):
            # The manager may swallow the exception; control then goes on behind the block.
            heads = _sum(self._yields(i.context_expr) for i in statement.items)
            quiet = _is_quiet(statement.body)
            on = body.on if quiet else _either(body.on, broken)
            return self._in_front(heads, _Flow(on, body.ended))
        flow = body
        if body.on is not None and statement.orelse:
            rest = self.block(statement.orelse)
            flow = _Flow(
                None if rest.on is None else body.on.then(rest.on),
                _either(body.ended, None if rest.ended is None else body.on.then(rest.ended)),
            )
        for handler in statement.handlers:
            caught = self.block(handler.body)
            flow = flow.joined(
                _Flow(
                    None if caught.on is None else broken.then(caught.on),
                    None if caught.ended is None else broken.then(caught.ended),
                )
            )
        last = self.block(statement.finalbody)
        if last.on is None or last.ended is not None:
            return _Flow(_ANY, _ANY)  # a return in `finally` overrules what came before
        return _Flow(
            None if flow.on is None else flow.on.then(last.on),
            None if flow.ended is None else flow.ended.then(last.on),
        )

    def _in_front(self, head: Span, flow: _Flow) -> _Flow:
        return _Flow(
            None if flow.on is None else head.then(flow.on),
            None if flow.ended is None else head.then(flow.ended),
        )

    def _yields(self, node: ast.AST | None) -> Span:
        """The outputs that an expression or a simple statement makes itself."""
        match node:
            case None | ast.Lambda() | ast.FunctionDef() | ast.ClassDef():
                return _NOTHING
            case ast.Yield(value=value):
                return self._yields(value).then(Span(1, 1))
            case ast.YieldFrom(value=value):
                return self._yields(value).then(_items(value))
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return self._yields(test).then(self._yields(body).either(self._yields(orelse)))
            case ast.BoolOp(values=values):
                first, *others = (self._yields(v) for v in values)
                return first.then(_sum(_NOTHING.either(o) for o in others))
            case _:
                return _sum(self._yields(child) for child in ast.iter_child_nodes(node))


def _is_quiet(body: list[ast.stmt]) -> bool:
    """Whether a `with` body emits and ends nothing, so that its breaking off changes no count."""
    return not any(
        isinstance(n, ast.Yield | ast.YieldFrom | ast.Return)
        for statement in body
        for n in ast.walk(statement)
    )
