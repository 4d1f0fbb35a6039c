"""Tells which context managers never swallow an exception.

Takes the expression behind `with` and what names stand for. Files, locks and the like are known;
functions made by `contextlib.contextmanager` and classes with an `__exit__` of their own are read.
Never runs the code it reads.
"""

from __future__ import annotations

import ast
import threading
from types import CodeType, FunctionType

from headrace.compiler.code.calls import MOST_DEPTH, called, managed
from headrace.compiler.code.names import MISSING, Names, module_of, static_attribute
from headrace.compiler.code.source import FunctionNode, nodes_of, own_nodes

#: Functions and classes whose results let everything through, as their modules name them.
_CALLS = frozenset(
    {"io.open", "_io.open", "_io.StringIO", "_io.BytesIO", "gzip.open", "bz2.open", "lzma.open"}
    | {"contextlib.nullcontext", "contextlib.closing", "contextlib.redirect_stdout"}
    | {"contextlib.redirect_stderr", "decimal.localcontext", "_decimal.localcontext"}
    | {"warnings.catch_warnings", "tempfile.TemporaryDirectory", "tempfile.NamedTemporaryFile"}
    | {"tempfile.TemporaryFile", "zipfile.ZipFile"}
    | {"apache_beam.io.filesystems.open", "apache_beam.io.filesystems.create"}
)
_OBJECTS = (
    type(threading.Lock()), type(threading.RLock()), threading.Condition, threading.Semaphore,
)


def lets_through(
    names: Names | None, manager: ast.expr, above: tuple[CodeType, ...] = ()
) -> bool:
    """Whether every exception raised in the block leaves it."""
    if names is None or len(above) >= MOST_DEPTH:
        return False
    if not isinstance(manager, ast.Call):
        held = names.value(manager)
        return held is not MISSING and (isinstance(held, _OBJECTS) or _exits_plainly(type(held)))
    target = names.value(manager.func)
    if f"{module_of(target)}.{getattr(target, '__name__', '')}" in _CALLS:
        return True
    if isinstance(target, type):
        return _exits_plainly(target)
    found = called(names, manager.func)
    made = None if found is None else managed(found)
    if made is None or made.code in above:
        return False
    inside = Names(made.function, made.owner)
    nodes = nodes_of(made.code)
    return bool(nodes) and all(_raises_again(n, inside, (*above, made.code)) for n in nodes)


def _exits_plainly(cls: type) -> bool:
    """Whether a class's `__exit__` is Python and never says that it has dealt with anything."""
    method = static_attribute(cls, "__exit__")
    if not isinstance(method, FunctionType):
        return False
    nodes = nodes_of(method.__code__)
    results = [r.value for n in nodes for r in own_nodes(n) if isinstance(r, ast.Return)]
    plain = all(r is None or (isinstance(r, ast.Constant) and not r.value) for r in results)
    return bool(nodes) and plain and not any(isinstance(n, ast.AsyncFunctionDef) for n in nodes)


def _raises_again(node: FunctionNode, names: Names, above: tuple[CodeType, ...]) -> bool:
    """Whether nothing in a generator catches what is raised at its yields."""
    for n in own_nodes(node):
        match n:
            case ast.Try(body=body, handlers=handlers, finalbody=last):
                if handlers and _yields(body):
                    return False
                leaves = ast.Return | ast.Break | ast.Continue
                if _yields(body) and any(isinstance(x, leaves) for s in last for x in ast.walk(s)):
                    return False
            case ast.With(items=items, body=body) if _yields(body):
                if not all(lets_through(names, i.context_expr, above) for i in items):
                    return False
            case ast.AsyncWith():
                return False
            case _ if hasattr(ast, "TryStar") and isinstance(n, ast.TryStar):
                return False
            case _:
                pass
    return True


def _yields(body: list[ast.stmt]) -> bool:
    return any(isinstance(n, ast.Yield | ast.YieldFrom) for s in body for n in ast.walk(s))
