"""Finds what a function remembers or asks of the world: writes, doubtful calls, dice.

Takes a Python function and the object its `self` is bound to, gives the writes to anything that
outlives the call (fields of self, globals, closure cells), the calls whose effects cannot be seen,
and the calls whose answer differs from run to run. Calls are followed into Python code to a fixed
depth. Never runs the code it reads.

Blind spots, accepted: operators (`a + b`, `a[b]`) of the user's own types, and methods of objects
whose class is not seen, are taken for harmless; elements may be changed in place, which Beam
forbids anyway.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType

from headrace.compiler.code import bytecode as code_bytes
from headrace.compiler.code.calls import MOST_DEPTH, Callee, is_cache, managed
from headrace.compiler.code.known import (
    FRESH_RESULTS,
    MUTATING_METHODS,
    UNREADABLE_FUNCTIONS,
    dice,
    is_stateless,
)
from headrace.compiler.code.names import (
    IMMUTABLE_TYPES,
    Names,
    is_librarys,
    is_standard,
    module_of,
    static_attribute,
)
from headrace.compiler.code.order import set_orders
from headrace.compiler.code.reader import Effects, Reader
from headrace.compiler.code.sharing import CONTAINERS
from headrace.compiler.code.source import nodes_of
from headrace.compiler.code.values import is_generated

_MOST_FUNCTIONS = 80  # those beyond are distrusted: the time per DoFn stays small
_MOST_RESULTS = 400  # the same for those of which only the result counts

@dataclass(slots=True)
class _Budget:
    """What is left to follow, and what was followed already."""

    functions: int = _MOST_FUNCTIONS
    seen: set[tuple[object, frozenset[str]]] = field(default_factory=set)
    #: Whether what a function returns may be shared, for those that were asked about.
    results: dict[object, bool] = field(default_factory=dict)
    asking: list[object] = field(default_factory=list)  # those whose result is being looked for


def effects_of(
    function: object, owner: object | None = None, lent: frozenset[str] = frozenset()
) -> Effects:
    """The effects of calling a callable.

    Args:
        function: the callable.
        owner: what its `self` is.
        lent: the parameters that get one and the same object in every call.
    """
    budget = _Budget()
    known = is_standard(module_of(function)) and is_librarys(function) and owner is None
    if isinstance(function, FunctionType) and not known:
        return _follow(Names(function, owner), lent, budget, depth=0)
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
    if depth > MOST_DEPTH or budget.functions < 0:
        return Effects(doubts=[f"{code.co_name} lies too deep to be read"], returns_shared=True)
    nodes = nodes_of(code)
    if not nodes:
        writes, doubts, rolls = code_bytes.effects(names)
        return Effects(writes, doubts, rolls, returns_shared=True)
    total = Effects()
    gives_shared = functools.partial(_gives_shared, budget=budget)
    for node in nodes:
        follow = functools.partial(_call_object, budget=budget, depth=depth)
        reader = Reader(node, names, shared, follow, gives_shared)
        reader.read()
        reader.found.dice += set_orders(node, names)
        total.writes += reader.found.writes
        total.doubts += reader.found.doubts
        total.dice += reader.found.dice
        total.returns_shared |= reader.found.returns_shared
    return total


def _gives_shared(target: FunctionType, *, budget: _Budget) -> bool:
    """Whether what a function returns may outlive the call; each is read once, for that alone.

    A function that asks about itself adds nothing to its own answer. One that asks about another
    whose answer is still looked for is distrusted: its own would otherwise depend on who asked.
    """
    code = target.__code__
    known = budget.results.get(code)
    if known is not None:
        return known
    if code in budget.asking:
        return code is not budget.asking[-1]
    if len(budget.asking) > MOST_DEPTH or len(budget.results) >= _MOST_RESULTS:
        return True
    names = Names(target, None)
    budget.asking.append(code)
    gives_shared = functools.partial(_gives_shared, budget=budget)
    try:
        nodes = nodes_of(code)
        found = not nodes or any(
            Reader(node, names, frozenset(), _unread, gives_shared).returns_shared()
            for node in nodes
        )
    finally:
        budget.asking.pop()
    budget.results[code] = found
    return found


def _unread(*_: object, **__: object) -> bool:
    msg = "a reader that is asked for a result alone follows no calls"
    raise AssertionError(msg)


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
    if is_cache(target):
        target = getattr(target, "__wrapped__", target)  # a cache changes when, not what
    if isinstance(target, MethodType):
        owner = target.__self__
        target = target.__func__
    if isinstance(target, FunctionType):
        made = managed(Callee(target))
        target = target if made is None else made.function  # what runs when the block is entered
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
    known = is_standard(module) or is_stateless(module)
    known = known and is_librarys(target)
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
    if is_standard(module) or is_stateless(module):
        return
    for hook in ("__init__", "__new__", "__post_init__"):
        method = static_attribute(cls, hook)
        if isinstance(method, FunctionType) and not is_generated(method):
            effects = _follow(Names(method, None), frozenset(), budget, depth + 1)
            found.add(effects, spelling)
