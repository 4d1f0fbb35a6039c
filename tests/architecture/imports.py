"""Decides which modules each module of a package imports, from syntax alone.

Takes a package's folder, gives `Import`s. Runs no code of the package: an import inside a function,
a class or `if TYPE_CHECKING` counts like any other, and so does `import_module("...")`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """One import, as one module makes it."""

    importer: str  # full dotted name
    imported: str  # full dotted name of a module, never of an object inside one
    line: int


def modules_of(package: Path) -> Mapping[str, Path]:
    """Every module below the package's folder, by full dotted name."""
    found: dict[str, Path] = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        if parts[-1] == "__init__":
            parts = parts[:-1]
        found[".".join(parts)] = path
    return found


def imports_of(package: Path) -> tuple[Import, ...]:
    """Every import made anywhere in the package."""
    modules = modules_of(package)
    return tuple(
        Import(importer=name, imported=imported, line=line)
        for name, path in modules.items()
        for imported, line in _imports_in(name, path, modules)
    )


def reachable(start: str, imports: tuple[Import, ...]) -> Mapping[str, tuple[str, ...]]:
    """Every module reached from `start`, with one shortest chain of imports that reaches it."""
    by_importer: dict[str, list[str]] = {}
    for made in imports:
        by_importer.setdefault(made.importer, []).append(made.imported)
    chains: dict[str, tuple[str, ...]] = {start: (start,)}
    waiting = [start]
    while waiting:
        module = waiting.pop(0)
        for imported in by_importer.get(module, ()):
            if imported not in chains:
                chains[imported] = (*chains[module], imported)
                waiting.append(imported)
    return chains


def _imports_in(
    name: str, path: Path, modules: Mapping[str, Path]
) -> Iterator[tuple[str, int]]:
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), filename=str(path))):
        match node:
            case ast.Import(names=names):
                for alias in names:
                    yield alias.name, node.lineno
            case ast.ImportFrom(module=module, names=names, level=level):
                base = _absolute(package, module or "", level)
                for alias in names:
                    member = f"{base}.{alias.name}"
                    # `from room import module` and `from module import thing` look the same;
                    # the package's files tell them apart.
                    yield (member if member in modules else base), node.lineno
            case ast.Call(func=func, args=[ast.Constant(value=str(target)), *_]):
                called = func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")
                if called in ("import_module", "__import__"):
                    yield target, node.lineno


def _absolute(package: str, module: str, level: int) -> str:
    if level == 0:
        return module
    parts = package.split(".")
    base = parts[: len(parts) - (level - 1)]
    return ".".join([*base, module] if module else base)
