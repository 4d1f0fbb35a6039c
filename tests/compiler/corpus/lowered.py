"""Counts which functions are lowered: `python -m tests.compiler.corpus.lowered [FOLDER]`.

Takes the steps of the workloads, of the corpus, of Beam's examples, and of packages in a folder of
wheels and source archives. Prints a table of the share that columns compute, and of the commonest
reasons why the others stay on objects, and writes results/lowered-share.json. Where nothing says
what the elements are made of, some shapes are tried; a function counts as lowered if it is so for
one of them. Each has some seconds.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import re
import sys
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import apache_beam as beam

from headrace.compiler.compile import compile_pipeline
from headrace.compiler.lower.one_step import NotLowered, lower, promised
from headrace.compiler.lower.shapes import shape_of_hint
from headrace.compiler.lowering import UNKNOWN_ELEMENTS
from headrace.lab.catalog import CATALOG
from headrace.lab.data.beam_source import Events
from headrace.plan.lowered_steps import LoweredStep
from headrace.plan.operators import Role
from headrace.plan.shapes import OTHER, Shape, TupleShape, joined
from tests.compiler.corpus.packages import ROOT, dofns_of, in_time, modules_of, of_archives
from tests.compiler.corpus.run import Step, steps

RESULTS = ROOT / "results" / "lowered-share.json"
#: What became of a function.
Made: TypeAlias = LoweredStep | NotLowered
_HINTS: tuple[Any, ...] = (
    str, int, float, tuple[str, int], tuple[str, str], tuple[str, Any], tuple[Any, Any],
)  # fmt: skip


def shape_of_value(value: Any) -> Shape:
    """What a value is made of, as a hint would say."""
    if type(value) is tuple:
        return TupleShape(tuple(map(shape_of_value, value)))
    return shape_of_hint(type(value)) or OTHER


def shape_of_step(step: Step) -> Shape | None:
    """What the elements of a step of the corpus are made of, if they are all alike."""
    found: Shape | None = None
    for element in step.case.elements:
        shape = shape_of_value(element)
        found = shape if found is None else joined(found, shape)
        if found is None:
            return None
    return found


def tried(dofn: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Made:
    """Lower a function whose elements are not known."""
    first = promised(dofn)
    hints = (shape_of_hint(hint) for hint in _HINTS)
    shapes = [first] if first is not None else [s for s in hints if s is not None]
    made: list[Made] = []
    try:
        with in_time():
            for shape in shapes:
                made.append(lower(dofn, shape, args, kwargs))
    except TimeoutError:
        made.append(NotLowered("takes too long to be followed"))
    return next((m for m in made if not isinstance(m, NotLowered)), made[0])


def of_corpus() -> Iterator[tuple[str, Made]]:
    """The steps of the corpus."""
    for step in steps():
        shape = shape_of_step(step)
        if shape is None:
            yield step.case.name, tried(step.fn, step.args, step.kwargs)
        else:
            yield step.case.name, lower(step.fn, shape, step.args, step.kwargs)


def of_package(package: str) -> list[tuple[str, Made]]:
    """The functions of a package."""
    found: dict[str, Made] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for module in modules_of(package):
            for name, dofn in dofns_of(module):
                if name not in found:
                    found[name] = tried(dofn)
    return list(found.items())


def of_workloads() -> Iterator[tuple[str, Made]]:
    """The steps of the workloads, from generated events on."""
    for suite in CATALOG.suites:
        for workload in CATALOG.of_suite(suite):
            settings = workload.settings()
            pipeline = beam.Pipeline()
            events = pipeline | "events" >> Events(workload.generator(settings), streaming=False)
            _ = events | "it" >> workload.build(settings)
            plan = compile_pipeline(pipeline.to_runner_api(), shards=2)
            for operator in plan.operators:
                mine = operator.operator_id.startswith("it/")
                if not mine or operator.role is not Role.ELEMENTWISE:
                    continue
                if operator.lowered is not None:
                    yield f"{workload.full_name} {operator.operator_id}", operator.lowered
                elif operator.not_lowered:
                    reason = NotLowered(operator.not_lowered)
                    yield f"{workload.full_name} {operator.operator_id}", reason


def kind_of_reason(reason: str) -> str:
    """A reason without its line and its names."""
    if reason == UNKNOWN_ELEMENTS:
        return reason
    reason = re.sub(r" in line \d+$", "", reason)
    if reason.startswith("calls"):
        return "calls a function or method that is not known"
    if reason.startswith(("makes a", "takes an item")):
        return "makes or indexes a list, set or dict"
    if "may have another value" in reason:
        return "uses a global that may change"
    return re.sub(r" \S*[A-Z0-9_.(\[{].*$", " ...", reason)


def sources(folder: Path | None) -> Iterator[tuple[str, Iterable[tuple[str, Made]]]]:
    """Everything that is counted, by its title."""
    yield "corpus of tests", of_corpus()
    yield f"examples of Beam {beam.__version__}", of_package("apache_beam.examples")
    if folder is not None:
        yield from of_archives(folder, of_package).items()
    yield "workloads", of_workloads()


def counted(found: Mapping[str, Made]) -> dict[str, Any]:
    """How many functions there are, how many are lowered, and why the others are not."""
    reasons = Counter(
        kind_of_reason(made.reason) for made in found.values() if isinstance(made, NotLowered)
    )
    return {
        "functions": len(found),
        "lowered": len(found) - sum(reasons.values()),
        "reasons": dict(reasons.most_common()),
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, help="of wheels and source archives")
    parser.add_argument("--results", type=Path, default=RESULTS)
    asked = parser.parse_args()
    report: dict[str, Any] = {}
    told = sys.stdout
    with contextlib.redirect_stdout(io.StringIO()):
        for title, source in sources(asked.folder):
            row = report[title] = counted(dict(source))
            share = row["lowered"] / max(1, row["functions"])
            print(
                f"| {title} | {row['functions']} | {row['lowered']} | {share:.0%} |",
                file=told, flush=True,
            )
            asked.results.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    reasons: Counter[str] = Counter()
    for row in report.values():
        reasons.update(row["reasons"])
    for reason, count in reasons.most_common(12):
        print(f"| {reason} | {count} |")


if __name__ == "__main__":
    main()
