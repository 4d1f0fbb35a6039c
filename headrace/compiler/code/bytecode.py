"""Reads bytecode where no source is at hand: coarser than the syntax tree, and never bolder.

Takes a function, gives the same logs as the readers of syntax trees. Only what a handful of
instructions proves is claimed; the rest is doubt. The instruction names differ between Python
versions, so it looks for families of names.
"""

from __future__ import annotations

import dis
from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType

from headrace.compiler.code.known import (
    MUTATING_METHODS,
    READING_METHODS,
    UNREADABLE_FUNCTIONS,
    dice,
    is_stateless,
)
from headrace.compiler.code.names import MISSING, Names, is_librarys, is_standard, module_of
from headrace.plan.traits import Selectivity

_STORES_OUTSIDE = frozenset({"STORE_GLOBAL", "DELETE_GLOBAL"})
_STORES_INTO = frozenset(
    {"STORE_ATTR", "DELETE_ATTR", "STORE_SUBSCR", "DELETE_SUBSCR", "STORE_SLICE"}
)
_CONDITIONS = ("POP_JUMP", "JUMP_IF", "FOR_ITER", "SETUP_FINALLY", "SETUP_WITH", "BEFORE_WITH")


def effects(names: Names) -> tuple[list[str], list[str], list[str]]:
    """Writes, doubts and dice of a function, as far as its bytecode shows them."""
    writes: list[str] = []
    doubts: list[str] = []
    rolls: list[str] = []
    code = names.function.__code__
    for inner in _all(code):
        for step in dis.get_instructions(inner):
            if step.opname in _STORES_OUTSIDE:
                writes.append(f"writes global {step.argval}")
            elif step.opname in _STORES_INTO:
                # Into what is not traced: a field of self and a local dict look alike from here.
                writes.append(f"may write into a shared object ({step.opname}), no source at hand")
            elif step.opname == "STORE_DEREF" and step.argval in code.co_freevars:
                writes.append(f"writes enclosing {step.argval}")
            elif step.opname.startswith(("LOAD_METHOD", "LOAD_ATTR")):
                _attribute(str(step.argval), writes, doubts)
            elif step.opname.startswith(("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF")):
                _name(names, str(step.argval), doubts, rolls)
    return writes, doubts, rolls


def _attribute(name: str, writes: list[str], doubts: list[str]) -> None:
    if name in MUTATING_METHODS:
        writes.append(f"may change a shared object by {name}(), no source at hand")
    elif name not in READING_METHODS:
        doubts.append(f"uses .{name}, no source at hand")


def _name(names: Names, name: str, doubts: list[str], rolls: list[str]) -> None:
    value = names.value_of_name(name)
    if value is MISSING:
        doubts.append(f"uses {name}, which was not found")
        return
    if isinstance(value, ModuleType):
        module, called = value.__name__, value.__name__ + ".*"
    else:
        module = module_of(value)
        called = f"{module}.{getattr(value, '__name__', '')}"
    if dice(called):
        rolls.append(dice(called))
    known = (is_standard(module) or is_stateless(module)) and is_librarys(value)
    if called in UNREADABLE_FUNCTIONS or (callable(value) and not known):
        doubts.append(f"uses {name}, no source at hand")


def selectivity(function: FunctionType) -> tuple[Selectivity, str]:
    """How many outputs a function makes whose yields or whose result's items are the output."""
    code = function.__code__
    steps = [s for s in dis.get_instructions(code) if s.opname not in ("CACHE", "RESUME", "NOP")]
    # A handler, or a context manager, may swallow what keeps an output from being made.
    branches = any(s.opname.startswith((*_CONDITIONS, "PUSH_EXC_INFO")) for s in steps)
    loops = any(s.opname == "FOR_ITER" or "BACKWARD" in s.opname for s in steps)
    if code.co_flags & 0x20:  # a generator
        yields = sum(s.opname == "YIELD_VALUE" for s in steps)
        sends = any(s.opname in ("SEND", "YIELD_FROM") for s in steps)
        if not loops and not sends and yields == 1:
            if branches:
                return Selectivity.AT_MOST_ONE, "one yield, behind a branch (bytecode)"
            return Selectivity.EXACTLY_ONE, "one yield and no branch (bytecode)"
        return Selectivity.MANY, "several yields, or a loop (bytecode)"
    builds = [
        a for a, b in zip(steps, steps[1:], strict=False) if b.opname.startswith("RETURN_VALUE")
    ]
    returns = sum(s.opname.startswith("RETURN") for s in steps)
    if returns == 1 and builds and builds[0].opname in ("BUILD_LIST", "BUILD_TUPLE"):
        if builds[0].arg == 1:
            return Selectivity.EXACTLY_ONE, "returns a list of one (bytecode)"
    return Selectivity.MANY, "returns an iterable of open length (bytecode)"


def _all(code: CodeType) -> Iterator[CodeType]:
    yield code
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from _all(const)
