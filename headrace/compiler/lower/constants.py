"""Decides whether a name outside a function means the same thing in every process and at all times.

A function that travels by value takes its globals along: what they are here, they are in a worker.
One that is found again by its module's name meets whatever the worker's own import of the module
has made: then the module's text must bind the name once, to a literal, and do nothing but read it.
Reads texts and looks at values; runs nothing of the user's.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
import linecache
import math
import operator
import sys
from collections.abc import Callable, Iterator
from types import BuiltinFunctionType, FunctionType, MemberDescriptorType, ModuleType

from headrace.compiler.code.effects import effects_of
from headrace.compiler.code.names import MISSING, static_attribute

_READING = frozenset({"get", "items", "keys", "values", "index", "count"})
_MATH = frozenset({"pi", "e", "tau", "inf", "nan"})
_BINARY: dict[type[ast.operator], Callable[..., object]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_MADE: dict[str, Callable[..., object]] = {
    "frozenset": frozenset, "set": set, "tuple": tuple, "list": list, "dict": dict,
}  # fmt: skip
_LARGEST = 2**128


@dataclasses.dataclass(frozen=True, slots=True)
class _Slotted:
    field: int


#: What dataclasses give frozen classes with slots, so that they can be pickled.
_SET_FIELDS = vars(_Slotted)["__setstate__"]


def is_settled(function: FunctionType, name: str, value: object) -> bool:
    """Whether a name that a function takes from outside is `value` wherever the function runs."""
    module = sys.modules.get(function.__module__)
    if name in function.__code__.co_freevars:
        # Found again by its name, it would have the closure that the worker's import has made.
        found: object = module
        for part in function.__qualname__.split("."):
            found = getattr(found, "__dict__", {}).get(part, MISSING)
        return found is not function
    if module is None or vars(module) is not function.__globals__:
        return True  # it travels by value, and its globals with it
    return _settled_in(module, name, value)


def held_by(owner: object) -> dict[str, object]:
    """What an object that travels by value holds, as far as it is found by just looking."""
    cls = type(owner)
    slotted = _slotted_fields(cls)
    hooks = ["__getattribute__", "__reduce_ex__", "__getattr__", "__new__"]
    if not slotted:
        hooks.append("__setstate__")
    plain = all(getattr(cls, h, None) is getattr(object, h, None) for h in hooks)
    if plain and slotted and cls.__reduce__ is object.__reduce__:
        return {name: slot.__get__(owner) for name, slot in slotted.items()}
    if not plain or not hasattr(owner, "__dict__"):
        return {}
    if getattr(cls, "__reduce__", None) is not object.__reduce__:
        # It is made anew in the worker: what makes it must make the same.
        init = static_attribute(cls, "__init__")
        made = effects_of(init, owner) if isinstance(init, FunctionType) else None
        if made is None or made.dice or made.doubts:
            return {}
    above = {name for c in cls.__mro__ for name, v in vars(c).items() if hasattr(v, "__set__")}
    return {name: value for name, value in vars(owner).items() if name not in above}


def _slotted_fields(cls: type) -> dict[str, MemberDescriptorType]:
    """The slots of a frozen dataclass that has nothing else, and travels by its fields alone."""
    params = getattr(cls, "__dataclass_params__", None)
    by_fields = getattr(cls, "__setstate__", None) is _SET_FIELDS
    if params is None or not params.frozen or not by_fields:
        return {}
    names = [field.name for field in dataclasses.fields(cls)]
    found = {name: inspect.getattr_static(cls, name, None) for name in names}
    slots = {n: s for n, s in found.items() if isinstance(s, MemberDescriptorType)}
    return slots if len(slots) == len(found) else {}


def is_settled_attribute(module: ModuleType, name: str, value: object) -> bool:
    """Whether an attribute of a module is `value` in every process."""
    if module is math:
        return name in _MATH or isinstance(value, BuiltinFunctionType)
    return _settled_in(module, name, value)


def _settled_in(module: ModuleType, name: str, value: object, depth: int = 0) -> bool:
    if name not in vars(module):
        return True  # a builtin
    text = _text(module)
    if text is None or depth > 8:
        return False
    found = text.bindings.get(name, [])
    if len(found) != 1 or name in text.globals:
        return False
    (statement,) = found
    match statement:
        case ast.FunctionDef() | ast.ClassDef():
            return isinstance(value, FunctionType | type)
        case ast.Import():
            return isinstance(value, ModuleType)
        case ast.ImportFrom(module=source, names=aliases, level=0):
            original = next(a.name for a in aliases if (a.asname or a.name) == name)
            other = sys.modules.get(source or "")
            if other is None:
                return False
            if isinstance(value, ModuleType | FunctionType | type | BuiltinFunctionType):
                return vars(other).get(original, MISSING) is value
            return _settled_in(other, original, value, depth + 1)
        case ast.Assign(targets=[ast.Name()], value=made) | ast.AnnAssign(value=ast.expr() as made):
            literal = _literal(made, text, module, depth)
            return literal is not MISSING and same(literal, value) and (
                _is_frozen(value) or name not in text.touched
            )
        case _:
            return False


def same(a: object, b: object) -> bool:
    """Whether two constants are equal in value and in the types of all their parts."""
    if type(a) is not type(b):
        return False
    if isinstance(a, tuple | list) and isinstance(b, tuple | list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return same(list(a.items()), list(b.items()))
    if isinstance(a, set | frozenset):
        return a == b and {(type(x), x) for x in a} == {(type(x), x) for x in b}
    return repr(a) == repr(b)


def _is_frozen(value: object) -> bool:
    if isinstance(value, tuple | frozenset):
        return all(map(_is_frozen, value))
    return isinstance(value, bool | int | float | str | bytes | None)


# Texts of modules ---------------------------------------------------------------------------------


class _Text:
    """What a module's text does with its global names."""

    def __init__(self, tree: ast.Module) -> None:
        self.bindings: dict[str, list[ast.stmt]] = {}
        self.globals = {n for g in ast.walk(tree) if isinstance(g, ast.Global) for n in g.names}
        for statement in _top_level(tree.body):
            for name in _bound(statement):
                self.bindings.setdefault(name, []).append(statement)
        self.touched = _touched(tree)


def _top_level(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that run when a module is imported, blocks opened."""
    for statement in body:
        yield statement
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        for field in ("body", "orelse", "finalbody"):
            inside = getattr(statement, field, [])
            # A binding inside a block is one that may not happen: it counts twice.
            for inner in _top_level(inside):
                yield inner
                yield inner
        for handler in getattr(statement, "handlers", []):
            yield from _top_level(handler.body)
            yield from _top_level(handler.body)


def _bound(statement: ast.stmt) -> Iterator[str]:
    match statement:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Import(names=aliases):
            yield from (a.asname or a.name.partition(".")[0] for a in aliases)
        case ast.ImportFrom(names=aliases):
            yield from (a.asname or a.name for a in aliases)
        case ast.If() | ast.Try() | ast.With() | ast.While():
            heads = [getattr(statement, "test", None), *getattr(statement, "items", [])]
            yield from (n for h in heads if h is not None for n in _stored(h))
        case ast.For(target=target):
            yield from _stored(target)
        case _:
            yield from _stored(statement)


def _stored(node: ast.AST) -> Iterator[str]:
    for n in ast.walk(node):
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store | ast.Del):
            yield n.id


def _touched(tree: ast.Module) -> set[str]:
    """The names that are used in another way than to look something up in them."""
    reads: set[int] = set()
    for n in ast.walk(tree):
        match n:
            case ast.Subscript(value=ast.Name() as name, ctx=ast.Load()):
                reads.add(id(name))
            case ast.Compare(left=left, comparators=others):
                reads.update(id(o) for o in (left, *others) if isinstance(o, ast.Name))
            case ast.Call(func=ast.Attribute(value=ast.Name() as name, attr=method)) if (
                method in _READING
            ):
                reads.add(id(name))
            case ast.Call(
                func=ast.Name(id="len" | "sorted" | "sum" | "min" | "max" | "dict" | "list"),
                args=[ast.Name() as name],
            ):
                reads.add(id(name))
            case ast.Dict(keys=keys, values=values):
                pairs = zip(keys, values, strict=True)
                reads.update(id(value) for key, value in pairs if key is None)
            case ast.For(iter=ast.Name() as name) | ast.comprehension(iter=ast.Name() as name):
                reads.add(id(name))
            case _:
                continue
    return {
        n.id
        for n in ast.walk(tree)
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load) and id(n) not in reads
    }


@functools.lru_cache(maxsize=512)
def _text(module: ModuleType) -> _Text | None:
    file = getattr(module, "__file__", None)
    lines = linecache.getlines(file) if isinstance(file, str) and file.endswith(".py") else []
    try:
        return _Text(ast.parse("".join(lines))) if lines else None
    except (SyntaxError, ValueError, RecursionError):
        return None


def _literal(node: ast.expr, text: _Text, module: ModuleType, depth: int) -> object:
    """The value of an expression made of literals, computed as Python would; else MISSING."""

    def inner(n: ast.expr | None) -> object:
        return MISSING if n is None else _literal(n, text, module, depth)

    match node:
        case ast.Constant(value=value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            number = inner(operand)
            return -number if isinstance(number, int | float) else MISSING
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            a, b = inner(left), inner(right)
            if not isinstance(a, int | float) or not isinstance(b, int | float):
                return MISSING
            return _computed(_BINARY[type(op)], a, b)
        case ast.BinOp(left=left, op=ast.Pow(), right=ast.Constant(value=int(exponent))):
            a = inner(left)
            fits = isinstance(a, int) and 0 <= exponent <= 64 and abs(a) <= 1024
            return _computed(operator.pow, a, exponent) if fits else MISSING
        case ast.Tuple(elts=elts) | ast.List(elts=elts) | ast.Set(elts=elts):
            parts = [inner(e) for e in elts]
            kind = {ast.Tuple: tuple, ast.List: list, ast.Set: set}[type(node)]
            return MISSING if MISSING in parts else _computed(kind, parts)
        case ast.Dict(keys=keys, values=values):
            pairs = [(inner(k), inner(v)) for k, v in zip(keys, values, strict=True)]
            if any(MISSING in pair for pair in pairs):
                return MISSING
            return _computed(dict, pairs)
        case ast.Call(func=ast.Name(id=name), args=[argument], keywords=[]) if name in _MADE:
            items = inner(argument)
            shadowed = name in text.bindings or items is MISSING
            return MISSING if shadowed else _computed(_MADE[name], items)
        case ast.Name(id=name):
            held = vars(module).get(name, MISSING)
            plain = held is not MISSING and _is_frozen(held)
            return held if plain and _settled_in(module, name, held, depth + 1) else MISSING
        case _:
            return MISSING


def _computed(function: Callable[..., object], *values: object) -> object:
    try:
        found = function(*values)
    except (TypeError, ValueError, ArithmeticError):
        return MISSING
    return MISSING if isinstance(found, int) and abs(found) > _LARGEST else found
