"""Finds the syntax tree of a Python function, and makes sure it is that function's.

Takes a code object, gives the matching function or lambda nodes of its source file, or none: the
caller then reads bytecode. The source is compiled again and must give the same bytecode, so a file
that was edited after it was loaded is never taken for the code that runs. Never runs any of it.
"""

from __future__ import annotations

import ast
import functools
import linecache
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import CodeType, MappingProxyType
from typing import TypeAlias, TypeGuard

FunctionNode: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda

# The flags a `from __future__` line leaves on a code object; they change what a compile gives.
_FUTURE_FLAGS = 0x1FF0000

#: Pieces of source that are kept parsed: the functions of a pipeline often stand in one class or
#: one function, and a large one takes a quarter of a second.
PARSED_PIECES = 16

#: Functions whose nodes are kept in a row: each is gone through a dozen times for one DoFn, and the
#: DoFns of a pipeline share functions, Beam's own above all.
KEPT_FUNCTIONS = 1024

_IMPORT = re.compile(
    r"^(?:import\s+[^\n]*|from\s+\S+\s+import\s+(?:\([^)]*\)|[^\n]*))", re.MULTILINE
)

_found: dict[CodeType, tuple[FunctionNode, ...]] = {}
_imported: dict[str, tuple[str, ...]] = {}  # by file: what its top level imports


def nodes_of(code: CodeType) -> tuple[FunctionNode, ...]:
    """The nodes that may be the source of `code`.

    Usually one. Several when lambdas share a line and Python keeps no columns: whoever asks must
    then believe only what holds for all of them. None when the source is not at hand.
    """
    if code not in _found:
        try:
            _found[code] = _search(code)
        except (SyntaxError, ValueError, RecursionError, OSError):
            _found[code] = ()
    return _found[code]


def is_generator(node: FunctionNode) -> bool:
    """Whether the function itself yields; inner functions do not count."""
    return any(isinstance(n, ast.Yield | ast.YieldFrom) for n in own_nodes(node))


@functools.lru_cache(maxsize=KEPT_FUNCTIONS)
def own_nodes(node: FunctionNode) -> tuple[ast.AST, ...]:
    """All nodes of a function's body, without the bodies of functions inside it."""
    waiting: list[ast.AST] = list(_body(node))
    found: list[ast.AST] = []
    while waiting:
        current = waiting.pop()
        found.append(current)
        if not isinstance(
            current, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef
        ):
            waiting.extend(ast.iter_child_nodes(current))
    return tuple(found)


@functools.lru_cache(maxsize=KEPT_FUNCTIONS)
def all_nodes(node: FunctionNode) -> tuple[ast.AST, ...]:
    """A function and all nodes in it, those of functions inside it too."""
    return tuple(ast.walk(node))


@functools.lru_cache(maxsize=KEPT_FUNCTIONS)
def body_nodes(node: FunctionNode) -> tuple[ast.AST, ...]:
    """All nodes of a function's body, one statement after the other."""
    return tuple(n for part in _body(node) for n in ast.walk(part))


@functools.lru_cache(maxsize=KEPT_FUNCTIONS)
def parents_in(node: FunctionNode) -> Mapping[int, ast.AST]:
    """What each node in a function stands in, by the `id` of the inner one."""
    return MappingProxyType(
        {id(child): n for n in all_nodes(node) for child in ast.iter_child_nodes(n)}
    )


def _body(node: FunctionNode) -> Sequence[ast.stmt | ast.expr]:
    return [node.body] if isinstance(node, ast.Lambda) else node.body


def arguments_of(node: FunctionNode) -> set[str]:
    """The names of a function's parameters."""
    a = node.args
    found = {x.arg for x in (*a.posonlyargs, *a.args, *a.kwonlyargs)}
    return found | {x.arg for x in (a.vararg, a.kwarg) if x is not None}


def _search(code: CodeType) -> tuple[FunctionNode, ...]:
    lines = linecache.getlines(code.co_filename)
    if not 0 < code.co_firstlineno <= len(lines):
        return ()
    # The statement around the function is parsed first: whole files may have thousands of lines.
    for start, end in (_top_level_statement(lines, code.co_firstlineno - 1), (0, len(lines))):
        text = _padding(code.co_filename, lines, start) + "".join(lines[start:end])
        try:
            parsed = _parsed(text, code.co_filename, code.co_flags & _FUTURE_FLAGS)
        except SyntaxError:
            continue
        if any(_same(code, candidate) for candidate in parsed.codes.get(code.co_firstlineno, ())):
            nodes = tuple(n for n in parsed.functions if _may_be(n, code))
            if nodes:
                return tuple(n for n in nodes if _stands_at(n, code)) or nodes
    return ()


@dataclass(frozen=True, slots=True)
class _Parsed:
    """A piece of source: its functions, and the code objects that they become, by first line."""

    functions: tuple[FunctionNode, ...]
    codes: dict[int, list[CodeType]]


@functools.lru_cache(maxsize=PARSED_PIECES)
def _parsed(text: str, filename: str, flags: int) -> _Parsed:
    tree = ast.parse(text)
    compiled = compile(text, filename, "exec", flags=flags, dont_inherit=True)
    codes: dict[int, list[CodeType]] = {}
    for code in _codes(compiled):
        codes.setdefault(code.co_firstlineno, []).append(code)
    return _Parsed(tuple(n for n in ast.walk(tree) if _is_function(n)), codes)


def _is_function(node: ast.AST) -> TypeGuard[FunctionNode]:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)


def _top_level_statement(lines: list[str], at: int) -> tuple[int, int]:
    """The lines from the last unindented one at or before `at` to the next, decorators included."""

    def opens(i: int) -> bool:
        return bool(lines[i].strip()) and lines[i][0] not in " \t#)]}"

    start = at
    while start > 0 and not opens(start):
        start -= 1
    while start > 0 and lines[start - 1].startswith("@"):
        start -= 1
    end = at + 1
    decorating = lines[at].startswith("@")
    while end < len(lines) and (decorating or not opens(end)):
        decorating = decorating and not lines[end].startswith(("def ", "class ", "async "))
        end += 1
    return start, end


def _padding(filename: str, lines: list[str], start: int) -> str:
    """What stands for the lines before `start`, so that later lines keep their numbers.

    The compiler turns calls on imported names into other instructions than calls on other names;
    the imports of the file must therefore be there.
    """
    if start == 0:
        return ""
    if filename not in _imported:
        _imported[filename] = tuple(dict.fromkeys(_imports("".join(lines))))
    names = ", ".join(_imported[filename])
    return (f"import {names}" if names else "") + "\n" * start


def _imports(text: str) -> Iterator[str]:
    for statement in _IMPORT.findall(text):
        try:
            tree = ast.parse(statement)
        except SyntaxError:
            continue
        for node in tree.body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                for alias in node.names:
                    if alias.name != "*":
                        yield alias.asname or alias.name.partition(".")[0]


def _codes(code: CodeType) -> Iterator[CodeType]:
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield const
            yield from _codes(const)


def _same(a: CodeType, b: CodeType) -> bool:
    return (
        a.co_firstlineno == b.co_firstlineno
        and a.co_code == b.co_code
        and a.co_names == b.co_names
        and a.co_varnames == b.co_varnames
        and a.co_freevars == b.co_freevars
        and _plain(a) == _plain(b)
    )


def _plain(code: CodeType) -> tuple[str, ...]:
    """The constants in comparable form: `1` and `True` differ, inner functions count by name."""
    return tuple(c.co_name if isinstance(c, CodeType) else repr(c) for c in code.co_consts)


def _may_be(node: FunctionNode, code: CodeType) -> bool:
    if isinstance(node, ast.Lambda):
        name, first = "<lambda>", node.lineno
    else:
        name = node.name
        first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
    return name == code.co_name and first == code.co_firstlineno and _args(node) == _arg_names(code)


def _stands_at(node: FunctionNode, code: CodeType) -> bool:
    """Whether an instruction of `code` bears the very columns of a lambda's body."""
    if not isinstance(node, ast.Lambda) or not hasattr(code, "co_positions"):
        return False
    body = node.body
    span = (body.lineno, body.end_lineno, body.col_offset, body.end_col_offset)
    return any(position == span for position in code.co_positions())


def _args(node: FunctionNode) -> tuple[str, ...]:
    a = node.args
    names = [x.arg for x in (*a.posonlyargs, *a.args, *a.kwonlyargs)]
    names += [x.arg for x in (a.vararg, a.kwarg) if x is not None]
    return tuple(names)


def _arg_names(code: CodeType) -> tuple[str, ...]:
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & 0x04) + bool(code.co_flags & 0x08)  # *args, **kwargs
    return code.co_varnames[:count]
