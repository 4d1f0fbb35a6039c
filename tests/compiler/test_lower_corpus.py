"""The steps of the corpus on their own elements: columns give what Python gives."""

from __future__ import annotations

from typing import Any

from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Timestamp

from headrace.compiler.lower.one_step import lower
from headrace.plan.expressions import Lowered
from headrace.worker.columns.kernels import kernel_of
from headrace.worker.columns.values import ColumnValues, of_objects
from tests.compiler.corpus.lowered import shape_of_step
from tests.compiler.corpus.run import Step, bundle, outputs, steps


def on_columns(step: Step, lowered: Lowered) -> list[list[Any]]:
    """The outputs for each element; those of rows that are handed back come from the function."""
    batch = of_objects(list(step.case.elements), lowered.shape)
    assert batch is not None
    made = kernel_of(lowered)(ColumnValues(batch.shape, batch.leaves, len(batch)))
    back = set() if made.back is None else set(made.back.tolist())
    results = made.values.objects()
    if made.times is not None:
        moments = [Timestamp(micros=m) for m in made.times.tolist()]
        results = [TimestampedValue(v, m) for v, m in zip(results, moments, strict=True)]
    return [
        outputs(step.fn, element, step.args, step.kwargs) if place in back
        else [results[place]] if made.keep is None or made.keep[place] else []
        for place, element in enumerate(step.case.elements)
    ]  # fmt: skip


def shown(outputs: list[list[Any]]) -> str:
    """Values to the type; of those with a time, whose repr says nothing, both parts."""
    return repr([
        [(o.value, o.timestamp) if isinstance(o, TimestampedValue) else o for o in each]
        for each in outputs
    ])  # fmt: skip


def test_the_steps_of_the_corpus_give_the_same_on_columns() -> None:
    checked = 0
    for step in steps():
        shape = shape_of_step(step) if step.callable else None
        made = None if shape is None else lower(step.fn, shape, step.args, step.kwargs)
        if not isinstance(made, Lowered):
            continue
        with bundle(step.fn):
            expected = [outputs(step.fn, e, step.args, step.kwargs) for e in step.case.elements]
        found = on_columns(step, made)
        assert shown(found) == shown(expected), (step.case.name, str(made))
        checked += 1
    assert checked > 20
