"""Turns the expressions of a function's text into expression trees over the element.

Takes syntax, the values that local names have at that place, and what the other names stand for.
Gives operands, and refuses, with the line, what columns do not compute. Runs nothing of the user's.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType, ModuleType

from headrace.compiler.code.names import MISSING, Names, spelled, static_attribute
from headrace.compiler.lower import build
from headrace.compiler.lower.build import Unlowerable, constant, kind_of
from headrace.compiler.lower.constants import is_settled, is_settled_attribute
from headrace.compiler.lower.displays import displayed, identical, key_of
from headrace.compiler.lower.fields import steady_fields
from headrace.compiler.lower.items import contained
from headrace.compiler.lower.operands import (
    WORDS,
    Bound,
    Listed,
    Operand,
    Split,
    Thing,
    as_expression,
    int_of,
    operand_of,
    refuse,
    spread,
)
from headrace.compiler.lower.raising import may_raise
from headrace.plan.expressions import Constant, Construct, Expression, Operation
from headrace.plan.shapes import (
    DictShape,
    FixedList,
    RecordShape,
    ScalarKind,
    ScalarShape,
    TupleShape,
)

_BINARY: dict[type[ast.operator], Operation] = {
    ast.Add: Operation.ADD,
    ast.Sub: Operation.SUBTRACT,
    ast.Mult: Operation.MULTIPLY,
    ast.Div: Operation.DIVIDE,
    ast.FloorDiv: Operation.FLOOR_DIVIDE,
    ast.Mod: Operation.REMAINDER,
    ast.Pow: Operation.POWER,
    ast.BitAnd: Operation.AND_BITS,
    ast.BitOr: Operation.OR_BITS,
    ast.BitXor: Operation.XOR_BITS,
    ast.LShift: Operation.SHIFT_LEFT,
    ast.RShift: Operation.SHIFT_RIGHT,
}
_COMPARISONS: dict[type[ast.cmpop], Operation] = {
    ast.Eq: Operation.EQUAL,
    ast.NotEq: Operation.NOT_EQUAL,
    ast.Lt: Operation.LESS,
    ast.LtE: Operation.LESS_EQUAL,
    ast.Gt: Operation.GREATER,
    ast.GtE: Operation.GREATER_EQUAL,
}
#: Lowers a call: the reader of expressions, the call.
Calls = Callable[["Reader", ast.Call], Operand]
#: Reads a helper in place of its call: the function, whose method it is, what it is given, by place
#: and by name, where it is called, and how many functions are open around it.
Helpers = Callable[
    [FunctionType, object | None, Sequence[Operand], Mapping[str, Operand], ast.AST, int],
    Expression,
]


class Reader:
    """Reads the expressions of one function.

    Args:
        names: what names outside the function stand for.
        bound: what its local names stand for now; assignments are written into it.
        calls: what lowers calls.
        helpers: what reads the statements of a function that is called.
        depth: how many functions are open around it.
        fields: what fields of `self` stand for now that may be written.
    """

    def __init__(
        self,
        names: Names,
        bound: dict[str, Operand],
        calls: Calls,
        helpers: Helpers,
        depth: int = 0,
        fields: Mapping[str, Expression] | None = None,
    ) -> None:
        self.names = names
        self.bound = bound
        self.depth = depth
        self.helpers = helpers
        self._fields = fields or {}
        self.checks: list[Expression] = []  # what was evaluated, and may raise
        self._calls = calls
        self._maybe = 0  # how many operands around this one may not be evaluated

    def expression(self, node: ast.expr) -> Expression:
        """The expression tree of an expression."""
        return as_expression(self.operand(node), node)

    def condition(self, node: ast.expr) -> Expression:
        """An expression of which nothing but its truth is asked.

        Its operands may then be of several shapes, as in `if x.price and x.name`.
        """
        match node:
            case ast.BoolOp(op=op, values=values):
                found = build.truth(self.condition(values[0]))
                for value in values[1:]:
                    other = self._lazily(value, self.condition)
                    found = build.either(isinstance(op, ast.And), found, build.truth(other))
                return found
            case ast.UnaryOp(op=ast.Not(), operand=inner):
                return build.negated(self.condition(inner))
            case _:
                made = self.expression(node)
                try:
                    return build.test(made)
                except Unlowerable as e:
                    refuse(str(e), node)

    def operand(self, node: ast.expr) -> Operand:
        """What an expression stands for."""
        try:
            return self._operand(node)
        except Unlowerable as e:
            if " in line " in str(e):
                raise
            refuse(str(e), node)

    def _operand(self, node: ast.expr) -> Operand:
        match node:
            case ast.Constant(value=value):
                return constant(value)
            case ast.Name(id=name):
                return self._name(name, node)
            case ast.Attribute(value=base, attr=name):
                return self._attribute(self.operand(base), name, node)
            case ast.Subscript(value=base, slice=index):
                return self._subscript(self.operand(base), index, node)
            case ast.BinOp(left=left, op=op, right=right):
                return self._binary(op, left, right, node)
            case ast.UnaryOp(op=ast.Not()):
                return self.condition(node)
            case ast.UnaryOp(op=op, operand=inner):
                return self._unary(op, self.expression(inner), node)
            case ast.BoolOp(op=op, values=values):
                return self._logic(isinstance(op, ast.And), values)
            case ast.Compare():
                return self._comparison(node)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                asked = self.condition(test)
                return build.choose(asked, self._lazily(body), self._lazily(orelse))
            case ast.NamedExpr(target=target, value=value):
                if self._maybe:
                    refuse(f"binds {target.id} where it may not be evaluated", node)
                self.bound[target.id] = made = self.operand(value)
                self.note(made)
                return made
            case ast.JoinedStr(values=parts):
                return self._formatted(parts)
            case ast.Tuple(elts=elts):
                return build.construct(spread(elts, self.expression))
            case ast.List(elts=elts) if not any(isinstance(e, ast.Starred) for e in elts):
                return Listed(tuple(self.operand(e) for e in elts))
            case ast.Set() | ast.Dict():
                return displayed(node, self.operand, self.note)
            case ast.Call():
                return self._calls(self, node)
            case _:
                refuse(f"uses {WORDS.get(type(node), type(node).__name__)}", node)

    def note(self, made: Operand) -> None:
        """Keep in mind what was evaluated: even if its value is not used, it can raise."""
        if isinstance(made, Split):
            made = made.text
        if isinstance(made, Listed):
            for item in made.items:
                self.note(item)
        elif not isinstance(made, Thing | Bound) and may_raise(made):
            self.checks.append(made)

    def opened(self, operand: Operand) -> Operand:
        """A tuple or record as its items; what else was evaluated for it is kept in mind."""
        if isinstance(operand, Thing | Split | Listed | Bound):
            return operand
        found = build.opened(operand)
        if found is None:
            return operand
        self.checks.extend(found[0])
        return found[1]

    def _lazily(
        self, node: ast.expr, read: Callable[[ast.expr], Expression] | None = None
    ) -> Expression:
        """An operand that may not be evaluated."""
        self._maybe += 1
        before, self.checks = self.checks, []
        try:
            made = (read or self.expression)(node)
            return build.checked(self.checks, made)
        finally:
            self._maybe -= 1
            self.checks = before

    # Names and what is inside of values -----------------------------------------------------------

    def _name(self, name: str, node: ast.expr) -> Operand:
        if name in self.bound:
            return self.bound[name]
        if self.names.is_local(name) and name != self.names.self_name:
            refuse(f"uses {name}, which may not be bound", node)
        value = self.names.value_of_name(name)
        if value is MISSING:
            refuse(f"uses {name}, which is not known", node)
        if name != self.names.self_name and not is_settled(self.names.function, name, value):
            refuse(f"uses {name}, which may have another value in a worker", node)
        return operand_of(value)

    def _attribute(self, base: Operand, name: str, node: ast.expr) -> Operand:
        base = self.opened(base)
        if isinstance(base, Construct) and isinstance(base.shape, RecordShape):
            if name in base.shape.names:
                return self.picked(base, base.shape.names.index(name))
        if not isinstance(base, Thing):
            return Bound(base, name)
        value = base.value
        if isinstance(value, ModuleType):
            found = static_attribute(value, name)
            if found is MISSING or not is_settled_attribute(value, name, found):
                refuse(f"uses {spelled(node)}, which may have another value in a worker", node)
            return operand_of(found)
        if value is self.names.owner and value is not None:
            if name in self._fields:
                return self._fields[name]
            held = steady_fields(value)
            if name in held:
                return operand_of(held[name])
        return Bound(base, name)

    def held(self) -> tuple[object, ...]:
        """The object that the function is a method of, and what it holds."""
        owner = self.names.owner
        return () if owner is None else (owner, *steady_fields(owner).values())

    def picked(self, base: Construct, place: int) -> Expression:
        """One item of a tuple; the others were evaluated too."""
        for other in base.items[:place] + base.items[place + 1 :]:
            self.note(other)
        return base.items[place]

    def _subscript(self, base: Operand, index: ast.expr, node: ast.expr) -> Operand:
        base = self.opened(base)
        if isinstance(base, Split):
            place = self.expression(index)
            return build.call("split_item", (base.text, base.separator, base.most, place))
        if isinstance(base, Thing):
            return self._held_item(base.value, index, node)
        if isinstance(base, Listed):
            base = build.fixed_list([as_expression(i, node) for i in base.items])
        if isinstance(base, Construct):
            return self._tuple_item(base, index, node)
        if isinstance(base, Bound) or kind_of(base) is not ScalarKind.TEXT:
            refuse(f"takes an item of {spelled(node)}", node)
        if isinstance(index, ast.Slice):
            ends = (index.lower, index.upper, index.step)
            given = [constant(None) if e is None else self.expression(e) for e in ends]
            return build.call("cut", (base, *given))
        return build.call("item", (base, self.expression(index)))

    def _tuple_item(self, base: Construct, index: ast.expr, node: ast.expr) -> Operand:
        shape = base.shape
        if isinstance(shape, DictShape):
            key = None if isinstance(index, ast.Slice) else key_of(self.operand(index))
            if key not in shape.names:
                refuse(f"takes an item of {spelled(node)}", node)
            return self.picked(base, shape.names.index(key))
        if isinstance(shape, RecordShape) and not shape.is_tuple:
            refuse(f"takes an item of {shape.name}", node)
        if isinstance(index, ast.Slice):
            ends = [int_of(self.operand(e)) if e is not None else None
                    for e in (index.lower, index.upper, index.step)]  # fmt: skip
            self.note(base)
            kept = base.items[slice(*ends)]
            return build.fixed_list(kept) if isinstance(shape, FixedList) else build.construct(kept)
        place = int_of(self.operand(index))
        if place is None or not -len(base.items) <= place < len(base.items):
            refuse(f"takes an item that is not known by {spelled(node)}", node)
        return self.picked(base, place % len(base.items))

    def _held_item(self, value: object, index: ast.expr, node: ast.expr) -> Operand:
        key = self.operand(index)
        if isinstance(key, Constant) and type(value) in (tuple, list, dict):
            try:
                return operand_of(value[key.value])  # type: ignore[index]
            except (LookupError, TypeError) as e:
                refuse(f"raises {type(e).__name__}", node)
        if type(value) is not dict:
            refuse(f"takes an item of {spelled(node)}", node)
        return build.lookup(as_expression(key, index), value, None)

    # Operators ------------------------------------------------------------------------------------

    def _binary(
        self, op: ast.operator, left: ast.expr, right: ast.expr, node: ast.expr
    ) -> Expression:
        if type(op) not in _BINARY:
            refuse(f"computes {spelled(node)}", node)
        first, second = self.expression(left), self.expression(right)
        if isinstance(op, ast.Mod) and kind_of(first) is ScalarKind.TEXT:
            given = second.items if isinstance(second, Construct) else (second,)
            plain = isinstance(second.shape, ScalarShape | TupleShape)
            if not isinstance(first, Constant) or not plain:
                refuse(f"fills in a text by {spelled(node)}", node)
            return build.call("fill", (first, *given))
        return build.binary(_BINARY[type(op)], first, second)

    def _unary(self, op: ast.unaryop, operand: Expression, node: ast.expr) -> Expression:
        match op:
            case ast.USub():
                return build.negative(operand)
            case ast.UAdd() if kind_of(operand) in (ScalarKind.INT, ScalarKind.FLOAT):
                nothing = constant(0)
                if kind_of(operand) is ScalarKind.INT:  # of None it raises
                    return build.binary(Operation.ADD, operand, nothing)
                return build.binary(Operation.MULTIPLY, operand, constant(1))
            case ast.Invert() if kind_of(operand) is ScalarKind.INT:
                return build.binary(Operation.XOR_BITS, operand, constant(-1))
            case _:
                refuse(f"computes {spelled(node)}", node)

    def _logic(self, is_and: bool, values: list[ast.expr]) -> Expression:
        found = self.expression(values[0])
        for value in values[1:]:
            found = build.either(is_and, found, self._lazily(value))
        return found

    def _comparison(self, node: ast.Compare) -> Expression:
        left = self.operand(node.left)
        found: Expression | None = None
        for place, (op, right_node) in enumerate(zip(node.ops, node.comparators, strict=True)):
            if place:
                self._maybe += 1
            right = self.operand(right_node)
            if place:
                self._maybe -= 1
            made = self._compared(op, left, right, node)
            found = made if found is None else build.either(True, found, made)
            left = right
        assert found is not None
        return found

    def _compared(
        self, op: ast.cmpop, left: Operand, right: Operand, node: ast.Compare
    ) -> Expression:
        match op:
            case ast.In() | ast.NotIn():
                found = contained(as_expression(left, node.left), right, node, self.note)
                return build.negated(found) if isinstance(op, ast.NotIn) else found
            case ast.Is() | ast.IsNot() if isinstance(left, Thing) and isinstance(right, Thing):
                return constant((left.value is right.value) is isinstance(op, ast.Is))
            case ast.Is() | ast.IsNot():
                a, b = as_expression(left, node), as_expression(right, node)
                found = identical(a, b, node)
                return build.negated(found) if isinstance(op, ast.IsNot) else found
            case _:
                a, b = as_expression(left, node.left), as_expression(right, node)
                return build.binary(_COMPARISONS[type(op)], a, b)

    # Texts ----------------------------------------------------------------------------------------

    def _formatted(self, parts: list[ast.expr]) -> Expression:
        found: Expression | None = None
        for part in parts:
            made = self._format_part(part)
            found = made if found is None else build.binary(Operation.ADD, found, made)
        return constant("") if found is None else found

    def _format_part(self, part: ast.expr) -> Expression:
        if not isinstance(part, ast.FormattedValue):
            return self.expression(part)
        value = self.expression(part.value)
        name = {ord("r"): "repr", ord("s"): "str", ord("a"): "ascii"}.get(part.conversion)
        if name is not None:
            value = build.call(name, (value,))
        spec = constant("") if part.format_spec is None else self.expression(part.format_spec)
        return build.call("format", (value, spec))
