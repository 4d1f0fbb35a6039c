"""Counts the outputs of one call: the fewest and the most over all paths through a function.

Takes the syntax tree of a function and how its result becomes output, gives a selectivity with its
reason. A path ends where the function does. One that an exception breaks off gives nothing, unless
the exception is caught: then what was made before it stands, and the handler's outputs follow. So
five counts travel through the statements: where control goes on, where the function ends, where an
exception leaves, where a loop is left, where its next round begins. Calls of helpers that make the
output are followed into Python code to a fixed depth. Knows no Beam, never runs the code it reads.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from headrace.compiler.code.items import Items
from headrace.compiler.code.iterables import filled_list, is_whole, put_into
from headrace.compiler.code.names import Names
from headrace.compiler.code.source import FunctionNode, is_generator
from headrace.compiler.code.spans import ANY, NOTHING, ONE, OPEN, Span, either, summed, then
from headrace.plan.traits import Selectivity


@dataclass(frozen=True, slots=True)
class _Flow:
    """What has been made at each of the five ways out of some statements; None: no such way."""

    on: Span | None = None  # to the next statement
    ended: Span | None = None  # by a return
    broken: Span | None = None  # by an exception
    left: Span | None = None  # by break, out of the loop
    again: Span | None = None  # by continue, to the loop's next round

    def joined(self, other: _Flow) -> _Flow:
        """One of the two happens."""
        return _Flow(
            either(self.on, other.on),
            either(self.ended, other.ended),
            either(self.broken, other.broken),
            either(self.left, other.left),
            either(self.again, other.again),
        )

    def behind(self, first: Span | None) -> _Flow:
        """The same, when so much was made before."""
        return _Flow(
            then(first, self.on), then(first, self.ended), then(first, self.broken),
            then(first, self.left), then(first, self.again),
        )

    def stopped(self) -> _Flow:
        """The same without the way to the next statement."""
        return _Flow(None, self.ended, self.broken, self.left, self.again)

    def made(self) -> Span | None:
        """What was made on whichever way out."""
        loop = either(self.left, self.again)
        return either(either(either(self.on, self.ended), self.broken), loop)


_ANYWHERE = _Flow(ANY, ANY, ANY, ANY, ANY)


def count_outputs(node: FunctionNode, names: Names | None = None) -> tuple[Selectivity, str]:
    """The selectivity of a function whose yields, or whose result's items, are the output.

    Args:
        node: the function.
        names: what its names stand for; None: helpers are not followed.
    """
    return _verdict(span_of(node, Items(node, names, span_of)))


def span_of(node: FunctionNode, items: Items) -> Span:
    """From how many to how many outputs one call of a function makes."""
    if isinstance(node, ast.AsyncFunctionDef):
        return ANY
    if isinstance(node, ast.Lambda):
        return ANY if is_generator(node) else items.of(node.body)
    generator = is_generator(node)
    filled = "" if generator else filled_list(node)
    counter = _Counter(items, generator=generator, filled=filled)
    flow = counter.block(node.body)
    found = either(flow.on, flow.ended) or NOTHING
    return found.from_nothing() if counter.gave_another else found


#: Whether a pattern surely fits what is matched.
Fits: TypeAlias = Callable[[ast.expr, ast.pattern], bool]


def falls_off(node: FunctionNode, names: Names, fits: Fits) -> bool:
    """Whether a function may end without a return, and so give None."""
    if isinstance(node, ast.Lambda):
        return False
    counter = _Counter(Items(node, names, span_of), generator=False, fits=fits)
    return counter.block(node.body).on is not None


def _verdict(span: Span) -> tuple[Selectivity, str]:
    if span == ONE:
        return Selectivity.EXACTLY_ONE, "one output on every path"
    if span.high <= 1:
        return Selectivity.AT_MOST_ONE, f"{span.low} to {span.high} outputs, by path"
    if span.high >= OPEN:
        return Selectivity.MANY, "a loop, or an iterable of open length, makes the outputs"
    if span.low == span.high:
        return Selectivity.MANY, f"{span.high} outputs on every path"
    return Selectivity.MANY, f"{span.low} to {span.high} outputs, by path"


class _Counter:
    """Walks statements in the order control takes."""

    def __init__(
        self, items: Items, *, generator: bool, fits: Fits | None = None, filled: str = ""
    ) -> None:
        self._items = items
        self._generator = generator
        self._fits = fits or (lambda _subject, _pattern: False)
        self._filled = filled  # the list that is filled instead of yielding, and then returned
        self.gave_another = False  # something else than that list was returned somewhere

    def block(self, statements: Iterable[ast.stmt]) -> _Flow:
        flow = _Flow(on=NOTHING)
        for statement in statements:
            if flow.on is None:
                break
            flow = flow.stopped().joined(self._statement(statement).behind(flow.on))
        return flow

    def _statement(self, statement: ast.stmt) -> _Flow:
        match statement:
            case ast.Return(value=value):
                return self._return(value)
            case ast.Raise():
                return self._simple(statement).stopped()
            case ast.If(test=test, body=body, orelse=orelse):
                return self._after(test, self.block(body).joined(self.block(orelse)))
            case ast.For() | ast.AsyncFor() | ast.While():
                return self._loop(statement)
            case ast.Try():
                return self._try(statement)
            case ast.With() | ast.AsyncWith():
                return self._with(statement)
            case ast.Match(subject=subject, cases=cases):
                return self._after(subject, self._match(subject, cases))
            case ast.Assert(test=test, msg=msg):
                return self._after(test, _Flow(NOTHING, broken=self._yields(msg).from_nothing()))
            case ast.Break():
                return _Flow(left=NOTHING)
            case ast.Continue():
                return _Flow(again=NOTHING)
            case ast.Pass() | ast.Global() | ast.Nonlocal():
                return _Flow(on=NOTHING)
            case _ if self._filled and (put := put_into(statement, self._filled)):
                value, whole = put
                made = self._items.of(value) if whole else ONE
                # One that is put in is made before; of several, some may be in already.
                broken = made.from_nothing() if whole else None
                return self._after(value, _Flow(on=made, broken=broken))
            case ast.Expr(value=ast.Yield(value=value)):
                # Nothing can fail behind the output: its value is made before.
                return self._after(value, _Flow(on=ONE))
            case _ if hasattr(ast, "TryStar") and isinstance(statement, ast.TryStar):
                return _ANYWHERE
            case _:
                return self._simple(statement)

    def _simple(self, node: ast.AST) -> _Flow:
        """A statement that goes on or fails, wherever in it its outputs are made."""
        made = self._yields(node)
        return _Flow(on=made, broken=made.from_nothing())

    def _after(self, first: ast.expr | None, flow: _Flow) -> _Flow:
        if first is None or isinstance(first, ast.Constant):
            return flow
        begun = self._simple(first)
        return begun.stopped().joined(flow.behind(begun.on))

    def _return(self, value: ast.expr | None) -> _Flow:
        made = self._yields(value)
        broken = None if value is None else made.from_nothing()
        if self._filled:
            if is_whole(value, self._filled):
                return _Flow(ended=NOTHING)
            self.gave_another = True
        return _Flow(ended=made if self._generator else self._items.of(value), broken=broken)

    def _match(self, subject: ast.expr, cases: list[ast.match_case]) -> _Flow:
        flow = _Flow(on=NOTHING, broken=NOTHING)  # no case may match
        bodies = _Flow(broken=NOTHING)
        for case in cases:
            # Guards of earlier cases were asked as well; they yield in no code that people write.
            if case.guard is not None and self._yields(case.guard) != NOTHING:
                return _ANYWHERE
            bodies = bodies.joined(self.block(case.body))
            sure = _takes_all(case.pattern) or self._fits(subject, case.pattern)
            if case.guard is None and sure:
                return bodies
        return flow.joined(bodies)

    def _loop(self, loop: ast.For | ast.AsyncFor | ast.While) -> _Flow:
        head = self._yields(loop.test if isinstance(loop, ast.While) else loop.iter)
        body = self.block(loop.body)
        rest = self.block(loop.orelse)
        # What ends a round and not the loop may come again.
        round_made = either(body.on, body.again) or NOTHING
        times = self._items.of(loop.iter) if isinstance(loop, ast.For) else ANY
        if times.high <= 1 and head == NOTHING:
            rounds = round_made if times.low == 1 else NOTHING.either(round_made)
            before = NOTHING
            done: Span | None = rounds
            if times.low == 1 and body.on is None and body.again is None:
                done = None
        else:
            rounds = NOTHING if round_made.high == 0 and head.high == 0 else ANY
            before, done = rounds, rounds
            if isinstance(loop, ast.While) and isinstance(loop.test, ast.Constant):
                done = None if loop.test.value else NOTHING
        # A break skips the else part.
        return _Flow(
            on=either(then(done, rest.on), then(before, body.left)),
            ended=either(then(before, body.ended), then(done, rest.ended)),
            # Asking for the next round fails too, also for the first.
            broken=rounds.then(either(body.broken, rest.broken) or NOTHING).from_nothing(),
            left=then(done, rest.left),
            again=then(done, rest.again),
        )

    def _with(self, statement: ast.With | ast.AsyncWith) -> _Flow:
        """A manager may swallow an exception: control then goes on behind the block."""
        heads = summed(self._yields(item.context_expr) for item in statement.items)
        body = self.block(statement.body)
        # Leaving the block can fail too, after all that was made in it.
        broken = (body.made() or NOTHING).from_nothing()
        swallows = isinstance(statement, ast.AsyncWith) or not all(
            self._items.lets_through(item.context_expr) for item in statement.items
        )
        flow = _Flow(
            on=either(body.on, body.broken) if swallows else body.on,
            ended=body.ended, broken=broken, left=body.left, again=body.again,
        )
        return _Flow(broken=heads.from_nothing()).joined(flow.behind(heads))

    def _try(self, statement: ast.Try) -> _Flow:
        body = self.block(statement.body)
        broken = body.broken or NOTHING
        # What the else part raises is not caught here.
        flow = body.stopped().joined(self.block(statement.orelse).behind(body.on))
        for handler in statement.handlers:
            flow = flow.joined(self.block(handler.body).behind(broken))
        if not statement.finalbody:
            return flow
        last = self.block(statement.finalbody)
        if last.on is None or any(w is not None for w in (last.ended, last.left, last.again)):
            return _ANYWHERE  # it overrules how the block was left
        return _Flow(
            then(flow.on, last.on),
            then(flow.ended, last.on),
            either(
                then(flow.broken, last.on),
                then(flow.made(), last.broken),
            ),
            then(flow.left, last.on),
            then(flow.again, last.on),
        )

    def _yields(self, node: ast.AST | None) -> Span:
        """The outputs that an expression or a simple statement makes itself."""
        match node:
            case None:
                return NOTHING
            case ast.Lambda(args=args):
                return self._yields(args)  # defaults
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                return summed(map(self._yields, (*node.decorator_list, node.args)))
            case ast.ClassDef():
                return summed(map(self._yields, (*node.decorator_list, *node.bases)))
            case ast.Yield(value=value):
                return self._yields(value).then(ONE)
            case ast.YieldFrom(value=value):
                return self._yields(value).then(self._items.of(value))
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return self._yields(test).then(self._yields(body).either(self._yields(orelse)))
            case ast.BoolOp(values=values):
                first, *others = (self._yields(v) for v in values)
                return first.then(summed(NOTHING.either(o) for o in others))
            case ast.Compare(left=left, comparators=[second, *others]):
                both = self._yields(left).then(self._yields(second))
                return both.then(summed(NOTHING.either(self._yields(o)) for o in others))
            case _:
                return summed(self._yields(child) for child in ast.iter_child_nodes(node))


def _takes_all(pattern: ast.pattern) -> bool:
    """Whether every value fits a pattern."""
    match pattern:
        case ast.MatchAs(pattern=None):
            return True
        case ast.MatchAs(pattern=ast.pattern() as inner):
            return _takes_all(inner)
        case ast.MatchOr(patterns=parts):
            return any(map(_takes_all, parts))
        case _:
            return False
