"""Reads the DoFns of Beam's examples and of packages that use Beam, and counts what is claimed.

`python -m tests.compiler.corpus.packages FOLDER` takes wheels and source archives, as `pip download
--no-deps` leaves them, and writes results/analysis-corpus.json. Modules that a package needs and
that are not installed are stood in for: nothing is known of what they would do. What is claimed to
keep nothing and to be deterministic is run on elements of many types.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import importlib
import importlib.abc
import importlib.machinery
import json
import os
import pkgutil
import shutil
import signal
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import apache_beam as beam

from headrace.compiler.code.dofn import dofn_traits
from headrace.errors import FalseTraitError
from headrace.plan.claims import claims_of
from headrace.plan.ids import CollectionId, OperatorId
from headrace.plan.operators import Operator, Role
from headrace.plan.traits import Determinism, State, Traits
from headrace.worker.checks.checked_calls import armed

ROOT = Path(__file__).parents[3]
RESULTS = ROOT / "results" / "analysis-corpus.json"
STEPS = ("Map", "FlatMap", "Filter", "MapTuple", "FlatMapTuple")
ELEMENTS: tuple[Any, ...] = (
    "", "a b", "k=1", "1,2,3", 0, 7, 2.5, None, ("a", 1), ("b", ["x", "y"]), (("a", "b"), 2),
    {"a": 1, "key": "k", "value": 2}, [1, 2], ["a"], b"xy", ("c", {"l": [1], "r": []}),
)


class _AbsentMeta(type):
    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _absent(f"{cls.__name__}.{name}")


class Absent(metaclass=_AbsentMeta):
    """Stands for whatever a missing package has."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        eval("None")  # the analysis then knows that it does not know what this does
        if len(args) == 1 and isinstance(args[0], FunctionType | type) and not kwargs:
            return args[0]  # a decorator
        return super().__new__(cls)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        eval("None")
        return args[0] if args else self

    def __class_getitem__(cls, _item: Any) -> Any:
        return cls


def _absent(name: str) -> Any:
    return _AbsentMeta(name, (Absent,), {"__module__": "absent"})


class _AbsentModule(ModuleType):
    __path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _absent(f"{self.__name__}.{name}")


class _Absentees(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """The last who is asked for a module: makes one up, but not for the package itself."""

    def __init__(self, present: str) -> None:
        self._present = present

    def find_spec(self, name: str, *_: Any) -> Any:
        if name.split(".")[0] in (self._present, "apache_beam"):
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: Any) -> ModuleType:
        return _AbsentModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """There is nothing to run."""


@dataclass(frozen=True, slots=True)
class Found:
    """A DoFn, or a function given to a step, and what was read from it."""

    name: str
    dofn: Any
    traits: Traits


def modules_of(package: str) -> Iterator[ModuleType]:
    """The modules of a package that can be imported; those of its tests are left out."""
    try:
        root = importlib.import_module(package)
    except Exception:  # noqa: BLE001 (whatever other people's modules do)
        return
    yield root
    for info in pkgutil.walk_packages(getattr(root, "__path__", []), f"{package}.", lambda _: None):
        if "test" in info.name.rpartition(".")[2] or info.name.endswith("__main__"):
            continue
        with contextlib.suppress(Exception, SystemExit):
            yield importlib.import_module(info.name)


def dofns_of(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """The DoFn classes of a module, and the functions and lambdas that it gives to steps."""
    for name, value in sorted(vars(module).items()):
        own = isinstance(value, type) and getattr(value, "__module__", "") == module.__name__
        if own and issubclass(value, beam.DoFn):
            yield f"{module.__name__}.{name}", _made(value)
    try:
        text = Path(str(module.__file__)).read_text(encoding="utf-8")
        tree = ast.parse(text)
        codes = list(_codes(compile(text, str(module.__file__), "exec", dont_inherit=True)))
    except (OSError, SyntaxError, ValueError):
        return
    for n in ast.walk(tree):
        match n:
            case ast.Call(func=ast.Attribute(attr=step) | ast.Name(id=step), args=[given, *_]):
                function = _function(given, module, codes) if step in STEPS else None
                if function is not None:
                    with contextlib.suppress(Exception):
                        made = getattr(beam, step)(function)
                        yield f"{module.__name__}:{n.lineno} {step}", made.fn
            case _:
                pass


def _made(cls: Any) -> Any:
    """An instance; where making one needs arguments, one without its fields."""
    try:
        return cls()
    except Exception:  # noqa: BLE001 (whatever other people's classes do)
        return cls.__new__(cls)


def _function(given: ast.expr, module: ModuleType, codes: list[CodeType]) -> Any:
    if isinstance(given, ast.Name):
        found = vars(module).get(given.id)
        return found if isinstance(found, FunctionType) else None
    if isinstance(given, ast.Lambda):
        fits = [
            c for c in codes
            if c.co_name == "<lambda>" and c.co_firstlineno == given.lineno and not c.co_freevars
        ]
        return FunctionType(fits[0], vars(module)) if len(fits) == 1 else None
    return None


def _codes(code: CodeType) -> Iterator[CodeType]:
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield const
            yield from _codes(const)


def found_in(package: str) -> list[Found]:
    found: dict[str, Found] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for module in modules_of(package):
            for name, dofn in dofns_of(module):
                found.setdefault(name, Found(name, dofn, dofn_traits(dofn)))
    return list(found.values())


def disproved(found: Found) -> tuple[int, str]:
    """Run what is claimed to keep nothing; give the number of calls, and what was false."""
    traits = found.traits
    harmless = traits.state is State.NONE and traits.determinism is Determinism.DETERMINISTIC
    operator = Operator(
        operator_id=OperatorId(found.name), urn="", role=Role.ELEMENTWISE,
        inputs=(CollectionId("in"),), traits=traits,
    )
    claims = claims_of(operator)
    if not harmless or claims is None:
        return 0, ""
    calls = 0
    for element in ELEMENTS:
        try:
            with in_time():
                for _ in armed(copy.copy(found.dofn), claims).process(element) or ():
                    pass
            calls += 1
        except FalseTraitError as false:
            return calls + 1, str(false)
        except Exception:  # noqa: BLE001 (it was not made for such elements)
            continue
    return calls, ""


@contextlib.contextmanager
def in_time() -> Iterator[None]:
    """End what takes longer than some seconds.

    Raises:
        TimeoutError: it did.
    """

    def late(*_: Any) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(5)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def counts(found: list[Found]) -> dict[str, Any]:
    ran = [disproved(f) for f in found]
    return {
        "functions": len(found),
        "state": dict(sorted(Counter(f.traits.state.value for f in found).items())),
        "outputs": dict(sorted(Counter(f.traits.selectivity.value for f in found).items())),
        "key": dict(sorted(Counter(f.traits.forwarding.value for f in found).items())),
        "repeatable": dict(sorted(Counter(f.traits.determinism.value for f in found).items())),
        "run": sum(bool(calls) for calls, _ in ran),
        "calls": sum(calls for calls, _ in ran),
        "disproved": [false for _, false in ran if false],
    }


def unpacked(archive: Path, into: Path) -> None:
    kind = "zip" if archive.suffix == ".whl" else None
    shutil.unpack_archive(archive, into, kind)


def of_archives(
    folder: Path, look: Callable[[str], list[Any]] = found_in
) -> dict[str, list[Any]]:
    """Read the packages of a folder of wheels and source archives.

    Args:
        folder: where they are.
        look: reads one of them, while its text is there.
    """
    read: dict[str, list[Any]] = {}
    for archive in sorted([*folder.glob("*.whl"), *folder.glob("*.tar.gz")]):
        name = "-".join(archive.name.split("-")[:2]).removesuffix(".tar.gz")
        with tempfile.TemporaryDirectory() as place:
            unpacked(archive, Path(place))
            sources = Path(place)
            if archive.suffix != ".whl":
                (sources,) = (p for p in Path(place).iterdir() if p.is_dir())
            sources = sources / "src" if (sources / "src").is_dir() else sources
            packages = [
                p.name for p in sorted(sources.iterdir())
                if (p / "__init__.py").exists() and p.name not in ("tests", "test", "examples")
            ]
            sys.path.insert(0, str(sources))
            found: list[Any] = []
            for package in packages:
                sys.meta_path.append(_Absentees(package))
                found += look(package)
                sys.meta_path.pop()
            sys.path.remove(str(sources))
            read[name] = found
    return read


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, help="of wheels and source archives")
    parser.add_argument("--results", type=Path, default=RESULTS)
    asked = parser.parse_args()
    read = {f"apache_beam.examples {beam.__version__}": found_in("apache_beam.examples")}
    if asked.folder is not None:
        read |= of_archives(asked.folder)
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        report = {name: counts(found) for name, found in read.items()}
    asked.results.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    for name, row in report.items():
        told = "nothing false" if not row["disproved"] else "; ".join(row["disproved"])
        print(f"{name}: {row['functions']} functions, {row['calls']} calls, {told}")


if __name__ == "__main__":
    main()
