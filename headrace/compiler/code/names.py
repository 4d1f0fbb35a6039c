"""What a name or a dotted expression in a function stands for, found without running anything.

Takes a function and, for methods, the object they are bound to; looks into globals, closure cells,
builtins, modules, classes and instance dictionaries. Never calls a property or `__getattr__`.
"""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
import sys
from dataclasses import dataclass
from types import CodeType, FunctionType, ModuleType

from apache_beam.transforms.core import GroupBy


class _Missing:
    """The type of `MISSING`."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING = _Missing()
"""Nothing is known of what the expression stands for."""

IMMUTABLE_TYPES = (int, float, complex, str, bytes, bool, type(None), frozenset, range, slice)


@dataclass(frozen=True, slots=True)
class Names:
    """The names one function can see."""

    function: FunctionType
    owner: object | None  # what its first parameter is bound to; None: it has no `self`
    hidden: frozenset[str] = frozenset()  # names of an inner function, when that is what is read

    @property
    def self_name(self) -> str | None:
        """The name of the first parameter of a method."""
        code = self.function.__code__
        return code.co_varnames[0] if self.owner is not None and code.co_argcount else None

    def is_local(self, name: str) -> bool:
        """Whether the function binds the name itself, or a comprehension or function inside it."""
        return name in self.hidden or name in _bound_in(self.function.__code__)

    def value(self, node: ast.expr) -> object:
        """The object an expression stands for, `MISSING` if that is not known before it runs."""
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            return self.value_of_name(node.id)
        if isinstance(node, ast.Attribute) and is_super(node.value):
            return self._above(node.attr)
        if isinstance(node, ast.Attribute):
            base = self.value(node.value)
            return MISSING if base is MISSING else static_attribute(base, node.attr)
        if isinstance(node, ast.Call):
            partial = self.value(node.func) is functools.partial
            return self._partial(node) if partial else self._made_by_beam(node)
        return MISSING

    def _partial(self, call: ast.Call) -> object:
        """The partial that a call makes; what it is given stands for nothing known."""
        spread = any(isinstance(a, ast.Starred) for a in call.args)
        function = self.value(call.args[0]) if call.args and not spread else MISSING
        if not callable(function) or any(k.arg is None for k in call.keywords):
            return MISSING
        named = {str(k.arg): MISSING for k in call.keywords}
        return functools.partial(function, *[MISSING] * (len(call.args) - 1), **named)

    def _above(self, name: str) -> object:
        """The method that `super()` finds for the class in which the function is written."""
        mine = self.function.__qualname__.rpartition(".")[0].rpartition(".")[2]
        past = False
        for cls in type(self.owner).__mro__ if self.owner is not None else ():
            if past and name in vars(cls):
                return vars(cls)[name]
            past = past or cls.__name__ == mine
        return MISSING

    def _made_by_beam(self, call: ast.Call) -> object:
        """The function by which `beam.GroupBy` finds a key, which it asks a method for."""
        func = call.func
        if not isinstance(func, ast.Attribute) or func.attr != "_key_func":
            return MISSING
        grouping = self.value(func.value)
        if not isinstance(grouping, GroupBy) or vars(grouping).get("_force_tuple_keys", True):
            return MISSING
        ((_, key),) = vars(grouping)["_key_fields"]
        return key

    def value_of_name(self, name: str) -> object:
        """The object a name stands for when the function is called."""
        if name == self.self_name and name not in self.hidden:
            return self.owner
        if name in self.hidden:
            return MISSING
        function = self.function
        if name in function.__code__.co_freevars:
            index = function.__code__.co_freevars.index(name)
            try:
                return (function.__closure__ or ())[index].cell_contents
            except (ValueError, IndexError):
                return MISSING
        if self.is_local(name):
            return MISSING
        if name in function.__globals__:
            return function.__globals__[name]
        return vars(builtins).get(name, MISSING)


@functools.lru_cache(maxsize=4096)
def _bound_in(code: CodeType) -> frozenset[str]:
    found = {*code.co_varnames, *code.co_cellvars}
    for const in code.co_consts:
        if isinstance(const, CodeType):
            found |= _bound_in(const)
    return frozenset(found)


def static_attribute(base: object, name: str) -> object:
    """An attribute found by looking, not by asking; descriptors other than methods are unknown."""
    if isinstance(base, ModuleType):
        return vars(base).get(name, MISSING)
    try:
        found = inspect.getattr_static(base, name)
    except AttributeError:
        return MISSING
    if isinstance(found, staticmethod | classmethod):
        return found.__func__
    if isinstance(found, property) or type(found).__name__ == "member_descriptor":
        return MISSING
    return found


def receiver(names: Names, func: ast.expr) -> tuple[object | None, bool]:
    """What a method is called on, if known, and whether its first parameter is bound already."""
    if isinstance(func, ast.Attribute) and is_super(func.value):
        return names.owner, True
    base = names.value(func.value) if isinstance(func, ast.Attribute) else MISSING
    if not isinstance(func, ast.Attribute) or base is MISSING or isinstance(base, ModuleType):
        return None, False
    if isinstance(base, type):
        return None, isinstance(inspect.getattr_static(base, func.attr, None), classmethod)
    if func.attr in getattr(base, "__dict__", {}):
        return None, False  # a function that is kept in the object is not bound to it
    found = inspect.getattr_static(type(base), func.attr, None)
    plain = isinstance(found, FunctionType)
    return (base if plain else None), plain or isinstance(found, classmethod)


def is_super(node: ast.expr) -> bool:
    """Whether an expression is `super()`."""
    func = node.func if isinstance(node, ast.Call) else None
    return isinstance(func, ast.Name) and func.id == "super"


def is_immutable(value: object) -> bool:
    """Whether nothing can be changed through this value."""
    if isinstance(value, tuple):
        return all(is_immutable(item) for item in value)
    return isinstance(value, IMMUTABLE_TYPES)


def is_iterator(value: object) -> bool:
    """Whether going through it takes from it: who comes later finds less."""
    return hasattr(type(value), "__next__") and not isinstance(value, type)


def module_of(value: object) -> str:
    """The top-level package that defines a function or class; empty when it does not say."""
    name = getattr(value, "__module__", None)
    if not isinstance(name, str):
        owner = getattr(value, "__objclass__", None) or type(getattr(value, "__self__", None))
        name = getattr(owner, "__module__", "")
    return name if isinstance(name, str) else ""


def is_librarys(function: object) -> bool:
    """Whether a function stands in the module that it names: code made from text names any."""
    if not isinstance(function, FunctionType):
        return True
    home = function.__globals__.get("__name__")
    return isinstance(home, str) and home.split(".")[0] == module_of(function).split(".")[0]


def is_standard(module: str) -> bool:
    """Whether a module belongs to the standard library."""
    return module.split(".")[0] in sys.stdlib_module_names


def spelled(node: ast.expr) -> str:
    """An expression as its author wrote it, cut to a readable length."""
    text = ast.unparse(node)
    return text if len(text) <= 60 else text[:57] + "..."
