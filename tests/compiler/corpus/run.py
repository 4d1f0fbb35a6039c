"""Runs the steps of the corpus by hand, and prints what they give: `python -m ...corpus.run`.

A second process with another hash seed must give the same for all that is called deterministic.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.internal import pickler
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.windowed_value import WindowedValue

from headrace.compiler.analyse import analyse
from headrace.compiler.ingest import ingest
from headrace.compiler.proto import urns
from headrace.plan.operators import Operator
from tests.compiler.corpus import helpers, outside, pairs, records, words
from tests.compiler.corpus.table import Case

CASES: list[Case] = [
    *words.CASES, *pairs.CASES, *records.CASES, *helpers.CASES, *outside.CASES,
]


def shown(value: Any) -> str:
    """A text that is the same for equal values, whatever the order of sets."""
    match value:
        case beam.pvalue.TaggedOutput():
            return f"{value.tag}: {shown(value.value)}"
        case TimestampedValue() | WindowedValue():
            return f"{shown(value.value)} at {value.timestamp}"
        case set() | frozenset():
            return f"{{{', '.join(sorted(map(shown, value)))}}}"
        case tuple() | list():
            return f"{type(value).__name__}({', '.join(map(shown, value))})"
        case dict():
            return f"{{{', '.join(f'{shown(k)}: {shown(v)}' for k, v in value.items())}}}"
        case _:
            return repr(value)


@dataclass(frozen=True, slots=True)
class Step:
    """A step of the corpus as the compiler sees it, and as a worker gets it."""

    case: Case
    operator: Operator
    fn: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    @property
    def callable(self) -> bool:
        """Whether it can be called by hand: it takes nothing that only a runner has."""
        defaults = (p.default for p in inspect.signature(self.fn.process).parameters.values())
        return bool(self.case.elements) and not any(
            type(d).__module__.startswith("apache_beam.") for d in defaults
        )


def steps() -> list[Step]:
    """All steps of the corpus, analysed."""
    pipeline = beam.Pipeline(options=PipelineOptions(["--no_pipeline_type_check"]))
    source = pipeline | "source" >> beam.Create([("a", 1)])
    for case in CASES:
        source | case.name >> case.step
    graph = analyse(ingest(pipeline.to_runner_api()))
    found = []
    for case in CASES:
        names = (case.name, f"{case.name}/")
        node = next(
            n for n in graph.graph.nodes
            if n.urn in urns.PAR_DO_LIKE
            and (n.operator_id == names[0] or n.operator_id.startswith(names[1]))
        )
        payload = urns.par_do_payload(node.transform)
        fn, args, kwargs, *_ = pickler.loads(payload.do_fn.payload)
        found.append(Step(case, graph.operator(node.operator_id), fn, tuple(args), kwargs))
    return found


@contextlib.contextmanager
def bundle(fn: Any) -> Iterator[None]:
    fn.setup()
    fn.start_bundle()
    yield
    fn.finish_bundle()
    fn.teardown()


def outputs(fn: Any, element: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    made = fn.process(copy.deepcopy(element), *args, **kwargs)
    return [] if made is None else list(made)


def main() -> None:
    given: dict[str, list[list[str]]] = {}
    for step in steps():
        if step.callable:
            with bundle(step.fn):
                given[step.case.name] = [
                    [shown(o) for o in outputs(step.fn, e, step.args, step.kwargs)]
                    for e in step.case.elements
                ]
    print(json.dumps(given))


if __name__ == "__main__":
    main()
