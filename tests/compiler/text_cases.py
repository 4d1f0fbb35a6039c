"""Text cases of the compiler: a pipeline, and what a pass or the scheduler makes of it, as text.

A case is a file: a sentence that says what it shows, then three sections.

    What is shown.

    -- pipeline, streaming
    p | beam.Impulse() | "Pairs" >> beam.Map(pair) | "Count" >> beam.ParDo(Count())

    -- before
    Impulse: impulse()
    ...

    -- after
    ...

The pipeline is Python; behind the comma stands how it is compiled, by names of `WAYS`. In
`passes/PASS/` the other two are the stages as the compiler hands them to that pass and as it gets
them back (`stage_text`); in `schedule/`, the fused stages and the plan that `explain` prints.

Texts are written or at least understood by hand. Once a change of them is meant,

    python -m tests.compiler.text_cases tests/compiler/passes/PASS/CASE.txt ...

writes what the compiler makes now into the files that are named, for the diff to be read. Tests
never write.
"""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.runners.portability.fn_api_runner import translations
from apache_beam.testing.test_stream import TestStream
from apache_beam.transforms import trigger, window

from headrace.compiler import compile as compiler
from headrace.compiler import fuse
from headrace.compiler.schedule import schedule
from headrace.plan.explain import explain
from headrace.plan.supersteps import Plan
from tests.compiler import case_steps
from tests.compiler.stage_text import StageText

HERE = Path(__file__).parent
PASSES, SCHEDULE = HERE / "passes", HERE / "schedule"
SECTIONS = ["pipeline", "before", "after"]
WAYS = frozenset({"streaming", "ordered", "drain"})
_HEADING = re.compile(r"^-- (.*)$", re.MULTILINE)


class CaseError(Exception):
    """A case that cannot be read, or whose pass does not run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A case as it stands in its file."""

    path: Path
    shows: str
    ways: frozenset[str]
    pipeline: str
    before: str
    after: str

    @property
    def folder(self) -> str:
        """The pass, or `schedule`."""
        return self.path.parent.name

    def text(self) -> str:
        """The whole file."""
        ways = "".join(f", {way}" for way in sorted(self.ways))
        return (
            f"{self.shows}\n\n-- pipeline{ways}\n{self.pipeline}\n-- before\n{self.before}\n"
            f"-- after\n{self.after}"
        )


def paths() -> list[Path]:
    """All case files."""
    found = sorted([*PASSES.glob("*/*"), *SCHEDULE.glob("*")])
    return [path for path in found if path.parent.name != "__pycache__"]


def parse(text: str, path: Path) -> Case:
    """Read a case.

    Raises:
        CaseError: there is something in the file that has no meaning, or something is missing.
    """
    shows, *parts = _HEADING.split(text)
    headings = [heading.split(", ") for heading in parts[::2]]
    if [heading[0] for heading in headings] != SECTIONS:
        msg = f"{path}: the sections are {SECTIONS}, in this order, not {parts[::2]}"
        raise CaseError(msg)
    if unknown := {*headings[0][1:]} - WAYS | {*headings[1][1:], *headings[2][1:]}:
        msg = f"{path}: {sorted(unknown)} in a heading; a pipeline may be {sorted(WAYS)}"
        raise CaseError(msg)
    if not shows.strip():
        msg = f"{path}: says nothing about what it shows"
        raise CaseError(msg)
    pipeline, before, after = (part.strip("\n") + "\n" for part in parts[1::2])
    return Case(
        path=path, shows=shows.strip(), ways=frozenset(headings[0][1:]),
        pipeline=pipeline, before=before, after=after,
    )


def compiled(case: Case) -> Case:
    """Give the case as the compiler has it: with what it really makes."""
    watched = _Watched()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fuse, "passes", watched.passes(fuse.passes))
        patch.setattr(compiler, "schedule", watched.schedule(schedule))
        plan = compiler.compile_pipeline(
            _pipeline(case).to_runner_api(), shards=2, name=case.path.stem,
            **dict.fromkeys(case.ways, True),
        )
    watched.seen["schedule"] = watched.fused, _plan_text(plan)
    if case.folder not in watched.seen:
        msg = f"{case.path}: {case.folder} did not run; those that did: {sorted(watched.seen)}"
        raise CaseError(msg)
    before, after = watched.seen[case.folder]
    return replace(case, before=before, after=after)


def difference(case: Case) -> str:
    """Say where a case and the compiler differ, as a unified diff; empty if nowhere."""
    made = compiled(case)
    lines = difflib.unified_diff(
        case.text().splitlines(), made.text().splitlines(),
        f"{case.folder}/{case.path.name}", "what the compiler makes", lineterm="", n=20,
    )
    return "\n".join(lines)


def _pipeline(case: Case) -> beam.Pipeline:
    p = beam.Pipeline()
    names = {"p": p, "beam": beam, "trigger": trigger, "window": window, "TestStream": TestStream}
    code = compile(case.pipeline, str(case.path), "exec")
    exec(code, vars(case_steps) | names)
    return p


def _plan_text(plan: Plan) -> str:
    """What `explain` prints, without the fingerprint and the lines at which functions stand."""
    first, _, *others = explain(plan).splitlines(keepends=True)
    return re.sub(r" in line \d+", "", "".join([first, *others]))


class _Watched:
    """Writes down what comes into each of our passes and into the scheduler, and what leaves."""

    def __init__(self) -> None:
        self.seen: dict[str, tuple[str, str]] = {}
        self.fused = ""
        self._text = StageText()

    def passes(self, passes: Callable[..., Iterable[Any]]) -> Callable[..., tuple[Any, ...]]:
        return lambda *args, **kwargs: tuple(self._each(passes(*args, **kwargs)))

    def _each(self, passes: Iterable[Any]) -> Iterator[Any]:
        yield self._named
        for each in passes:
            folder, _, name = each.__module__.rpartition(".")
            if each is translations.greedily_fuse:
                yield self._in_order
            yield self._watched(each, name) if folder == "headrace.compiler.passes" else each

    def _named(self, stages: list[Any], _context: Any) -> list[Any]:
        self._text.name_outputs(stages)
        return stages

    def _in_order(self, stages: list[Any], _context: Any) -> list[Any]:
        self._text.keep_order(stages)
        return stages

    def _watched(self, each: Any, name: str) -> Any:
        def watched(stages: list[Any], context: Any) -> list[Any]:
            before, coders = self._text.unfused(stages, context), self._text.coders(context)
            given = list(each(stages, context))
            after = self._text.unfused(given, context)
            self.seen[name] = before, after + self._text.recoded(coders, context)
            return given

        return watched

    def schedule(self, given: Callable[..., Any]) -> Callable[..., Any]:
        def watched(stages: list[Any], context: Any, **kwargs: Any) -> Any:
            self.fused = self._text.fused(stages, context)
            return given(stages, context, **kwargs)

        return watched


def main(names: list[str]) -> None:
    """Write what the compiler makes into the named files."""
    for name in names:
        path = Path(name).resolve()
        made = compiled(parse(path.read_text(encoding="utf-8"), path))
        path.write_text(made.text(), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
