"""Holds generated functions on columns against Python: `python -m tests.compiler.lower_exact`.

Each function is lowered, and computed on a batch of columns in several layouts of memory; every row
that is not handed back must be what Python gives, by value and by type. Then the step itself takes
the batch: what it hands on, and the exception it ends with, must be Python's too. Last come
elements that break the promise of their type. The command writes how many functions were held, and
what became of them, into results/lowered-exact.json.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import sys
import warnings
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.transforms.window import GlobalWindows
from hypothesis import HealthCheck, Phase, given, reject, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st

from headrace.compiler.lower.one_step import NotLowered, lower
from headrace.compiler.lower.shapes import shape_of_hint
from headrace.plan.expressions import Lowered
from headrace.plan.shapes import Shape
from headrace.worker.batched.lowered_step import LoweredStep
from headrace.worker.batched.steps import step_of
from headrace.worker.columns.column import Column
from headrace.worker.columns.kernels import kernel_of
from headrace.worker.columns.values import ColumnValues, of_objects
from tests.compiler.lower_functions import Made, compiled, function_of
from tests.compiler.lower_rows import KINDS, Kind, wild_rows

RESULTS = Path(__file__).parents[2] / "results" / "lowered-exact.json"
_TRANSFORMS = {"filter": beam.Filter, "generator": beam.FlatMap, "listed": beam.FlatMap,
               "spread": beam.MapTuple, "dofn": beam.ParDo}  # fmt: skip
_LONGEST_REPR = 2_000


def _shape(kind: Kind) -> Shape:
    made = shape_of_hint(kind.hint)
    assert made is not None, kind.name
    return made


SHAPES = {name: _shape(kind) for name, kind in KINDS.items()}


def same(a: Any, b: Any) -> bool:
    """Whether two values are equal, and of the same types to the last part."""
    if type(a) is not type(b):
        return False
    if isinstance(a, float):
        if math.isnan(a) or math.isnan(b):
            return math.isnan(a) and math.isnan(b)
        return a == b and math.copysign(1, a) == math.copysign(1, b)
    if isinstance(a, tuple | list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return same(list(a.items()), list(b.items()))
    if isinstance(a, beam.Row):
        return same(a.as_dict(), b.as_dict())
    if is_dataclass(a):
        return all(same(getattr(a, f.name), getattr(b, f.name)) for f in fields(a))
    return a is b or bool(a == b)


class Differs(AssertionError):
    """Columns have given something else than Python."""


class Checked:
    """One function, and what was seen of it.

    Args:
        seed: of the function, and of its elements.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.made: Made = function_of(seed)
        self.seen: Counter[str] = Counter()

    def run(self) -> None:
        """Hold the function against Python.

        Raises:
            Differs: for one of the elements columns give something else.
        """
        try:
            function = compiled(self.made.text)
        except SyntaxError:  # an f-string inside of another, before Python 3.12
            reject()
        self.seen["functions"] += 1
        transform = self._transform(function)
        shape = SHAPES[self.made.kind.name]
        lowered = lower(transform.fn, shape, transform.args, transform.kwargs)
        if isinstance(lowered, NotLowered):
            if "gave up" in lowered.reason:
                msg = f"{lowered.reason}\n{self.made.text}"
                raise Differs(msg)
            self.seen["not lowered"] += 1
            return
        if not isinstance(lowered, Lowered):  # several outputs for an element: tested elsewhere
            self.seen["lowered to ranges"] += 1
            return
        self.seen["lowered"] += 1
        self.seen[f"lowered, {self.made.form}"] += 1
        self.seen[f"lowered, of {self.made.kind.name}"] += 1
        self._function = function
        rows = self.made.kind.rows(self.seed)
        self.seen["rows"] += len(rows)
        values = columns_of(rows, shape)
        for layout in layouts(values):
            self._held(lowered, layout, rows)
        self._step(lowered, transform, values, rows)
        for row in wild_rows(self.made.kind, self.seed):
            self._wild(lowered, shape, row)

    def _transform(self, function: Any) -> Any:
        form = self.made.form
        made = _TRANSFORMS.get(form, beam.Map)
        return made(function, 5, n=2) if form == "given" else made(function)

    def _outputs(self, row: Any) -> list[Any]:
        """What Python gives for a row; raises what the function raises."""
        function, form = self._function, self.made.form
        match form:
            case "filter":
                return [row] if function(row) else []
            case "generator" | "listed":
                found = function(row)
                return [] if found is None else list(found)
            case "dofn":
                return list(function.process(row))
            case "given":
                return [function(row, 5, n=2)]
            case "spread":
                return [function(*row)]
            case _:
                return [function(row)]

    def _held(self, lowered: Lowered, values: ColumnValues, rows: Sequence[Any]) -> None:
        """Hold what a kernel gives against Python, row by row."""
        outcome = kernel_of(lowered)(values)
        back = set() if outcome.back is None else set(outcome.back.tolist())
        results = outcome.values.objects()
        self.seen["results"] += len(rows)
        self.seen["results handed back"] += len(back)
        for place, row in enumerate(rows):
            if place in back:
                continue
            kept = outcome.keep is None or bool(outcome.keep[place])
            found = [results[place]] if kept else []
            try:
                expected = self._outputs(row)
            except Exception as error:
                raise self._differs(lowered, row, found, error) from error
            if not same(found, expected):
                raise self._differs(lowered, row, found, expected)

    def _step(
        self, lowered: Lowered, transform: Any, values: ColumnValues, rows: Sequence[Any]
    ) -> None:
        """Hold what the step hands on, and what it raises, against Python."""
        expected: list[Any] = []
        raised: Exception | None = None
        for row in rows:
            try:
                expected += self._outputs(row)
            except Exception as error:  # noqa: BLE001 (whatever the function raises)
                raised = error
                break
        found: list[Any] = []
        ended: Exception | None = None
        try:
            run_step(lowered, transform, values, found)
        except Exception as error:  # noqa: BLE001 (the same)
            ended = error
        self.seen["batches that raise"] += raised is not None
        if not same(found, expected) or not _same_failure(raised, ended):
            raise self._differs(lowered, rows, (found, ended), (expected, raised))

    def _wild(self, lowered: Lowered, shape: Shape, row: Any) -> None:
        """Hold an element against Python that may be no column."""
        self.seen["odd elements"] += 1
        values = of_objects([row], shape)
        if values is None:
            self.seen["odd elements that are no columns"] += 1
        else:
            self._held(lowered, ColumnValues(shape, values.leaves, 1), [row])

    def _differs(self, lowered: Lowered, row: Any, found: Any, expected: Any) -> Differs:
        told = [f"seed {self.seed}, {self.made.form} of {self.made.kind.name}", self.made.text,
                str(lowered), *(f"{name}: {value!r}"[:_LONGEST_REPR] for name, value in (
                    ("element", row), ("columns", found), ("Python", expected)))]  # fmt: skip
        return Differs("\n".join(told))


def columns_of(rows: list[Any], shape: Shape) -> ColumnValues:
    """Elements as columns, without the objects they came from."""
    made = of_objects(rows, shape)
    assert made is not None
    return ColumnValues(made.shape, made.leaves, len(made))


def layouts(values: ColumnValues) -> list[ColumnValues]:
    """The same values as they may lie in memory."""
    size = len(values)
    double = [_doubled(leaf) for leaf in values.leaves]
    cut = ColumnValues(values.shape, double, 2 * size).slice(size, 2 * size)
    return [values, ColumnValues(cut.shape, cut.leaves, size)]


def _doubled(leaf: Column) -> Column:
    """The values behind others, texts with wide offsets."""
    if isinstance(leaf.data, np.ndarray):
        missing = None if leaf.missing is None else np.concatenate([~leaf.missing, leaf.missing])
        return Column(leaf.kind, np.concatenate([leaf.data[::-1], leaf.data]), missing)
    wide = pa.large_string() if leaf.data.type == pa.string() else pa.large_binary()
    other = ["ß" if wide == pa.large_string() else b"\xff"] * len(leaf)
    data = pa.concat_arrays([pa.array(other, wide), leaf.data.cast(wide)])
    gone = None if leaf.missing is None else np.concatenate([leaf.missing & False, leaf.missing])
    return Column(leaf.kind, data, gone)


class _Edge:
    """Keeps what a step hands on."""

    def __init__(self, found: list[Any]) -> None:
        self._found = found

    def columns(self, values: ColumnValues, _meta: Any) -> None:
        self._found.extend(values.objects())

    def results(self, values: list[Any], _meta: Any) -> None:
        self._found.extend(values)


def run_step(lowered: Lowered, transform: Any, values: ColumnValues, found: list[Any]) -> None:
    """Run the step of a transform on columns; what it hands on is added to a list."""

    def no_rows(_values: Any, _meta: Any) -> None:
        msg = "the kernel failed"
        raise AssertionError(msg)

    step = step_of(transform.fn, transform.args, transform.kwargs)
    assert step is not None
    operation: Any = SimpleNamespace(scoped_process_state=nullcontext())
    edge: Any = _Edge(found)
    made = LoweredStep(lowered, step, no_rows, operation, "made", edge)
    made.columns(values, GlobalWindows.windowed_value(None))


def _same_failure(raised: Exception | None, ended: Exception | None) -> bool:
    """Whether an exception is the user's, with the step's name in it as Beam writes it."""
    if raised is None or ended is None:
        return raised is ended
    message = str(raised.args[0]) if raised.args else ""
    if type(ended) is type(raised):
        return str(ended.args[0]) == f"{message} [while running 'made']"
    return type(ended) is RuntimeError and type(raised).__name__ in str(ended)


# The command --------------------------------------------------------------------------------------


def held(functions: int, number: int, told: list[str]) -> Counter[str]:
    """Hold so many functions, drawn by Hypothesis, against Python; tell of those that differ."""
    seen: Counter[str] = Counter()

    @seeded(number)
    @settings(
        max_examples=functions, deadline=None, database=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.integers(0, 2**63))
    def draw(seed: int) -> None:
        checked = Checked(seed)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                checked.run()
        except Differs as error:
            checked.seen["differ"] += 1
            told.append(str(error))
        seen.update(checked.seen)

    draw()
    return seen


def main() -> int:
    """Hold functions against Python, and write down what was seen."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--functions", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1, help="of the first thousand")
    parser.add_argument("--results", type=Path, default=RESULTS)
    asked = parser.parse_args()
    seen: Counter[str] = Counter()
    told: list[str] = []
    for part in range(-(-asked.functions // 1_000)):
        count = min(1_000, asked.functions - 1_000 * part)
        seen += held(count, asked.seed + part, told)
        report = {
            "functions": seen["functions"],
            "functions that differ": len(told),
            "seed": asked.seed,
            "versions": {
                "python": platform.python_version(), "beam": beam.__version__,
                "numpy": np.__version__, "pyarrow": pa.__version__,
            },
            "seen": dict(sorted(seen.items())),
        }  # fmt: skip
        asked.results.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
        print(seen["functions"], "functions,", len(told), "differ", flush=True)
    print("\n\n".join(told))
    return 1 if told else 0


if __name__ == "__main__":
    sys.exit(main())
