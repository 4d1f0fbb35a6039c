"""Binds what a call is given to the parameters of a function whose text is read.

Takes operands, gives what each parameter stands for, defaults included. Refuses a call that Python
would refuse, and functions that take any number of arguments.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from types import FunctionType

from headrace.compiler.code.source import FunctionNode, nodes_of
from headrace.compiler.lower.operands import Operand, operand_of, refuse


def opened_call(
    function: FunctionType,
    args: Sequence[Operand],
    named: Mapping[str, Operand],
    at: ast.AST | None,
) -> tuple[FunctionNode, dict[str, Operand]]:
    """The text of a function, and what its parameters stand for in a call; `self` is the first."""
    nodes = nodes_of(function.__code__)
    if len(nodes) != 1 or isinstance(nodes[0], ast.AsyncFunctionDef):
        refuse(f"the source of {function.__name__} is not at hand", at or ast.Pass())
    return nodes[0], _parameters(function, nodes[0], args, named, at or nodes[0])


def _parameters(
    function: FunctionType,
    node: FunctionNode,
    args: Sequence[Operand],
    named: Mapping[str, Operand],
    at: ast.AST,
) -> dict[str, Operand]:
    code = function.__code__
    if node.args.vararg is not None or node.args.kwarg is not None:
        refuse(f"{function.__name__} takes any number of arguments", at)
    params = code.co_varnames[: code.co_argcount]
    only = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    defaults = function.__defaults__ or ()
    found: dict[str, Operand] = {
        name: operand_of(v) for name, v in zip(params[-len(defaults) :], defaults, strict=False)
    } if defaults else {}
    found |= {name: operand_of(v) for name, v in (function.__kwdefaults__ or {}).items()}
    given = dict(zip(params, args, strict=False))
    if len(args) > len(params) or set(named) - {*params, *only} or set(named) & set(given):
        refuse(f"calls {function.__name__} with other arguments than it takes", at)
    found |= {**given, **named}
    missing = [name for name in (*params, *only) if name not in found]
    if missing:
        refuse(f"calls {function.__name__} without {missing[0]}", at)
    return found
