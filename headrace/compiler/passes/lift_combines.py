"""Lifts combines before their grouping, in streaming only where no pane can tell.

Before:  CombinePerKey
After:   PreCombine -> GroupByKey -> MergeAccumulators -> ExtractOutputs, by Beam's own pass
Or:      GroupByKey -> CombineValues, where panes carry the times of their elements

A late element must not move a pane's time. Once elements are combined nobody knows which of them
were late, so the grouping has to see each of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.portability.fn_api_runner import translations

from headrace.compiler.urns import COMBINE_PER_KEY

_END_OF_WINDOW = beam_runner_api_pb2.OutputTime.END_OF_WINDOW


def lift_combines(stages: Iterable[Any], context: Any) -> Iterator[Any]:
    """Lift what may be lifted, expand the rest."""
    liftable = []
    for stage in stages:
        transform = translations.only_transform(stage.transforms)
        if transform.spec.urn != COMBINE_PER_KEY or _ends_windows(transform, context):
            liftable.append(stage)
            continue
        for part in transform.subtransforms:
            inner = context.components.transforms[part]
            yield translations.Stage(
                inner.unique_name, [inner],
                downstream_side_inputs=stage.downstream_side_inputs,
                must_follow=stage.must_follow, parent=stage.name, environment=stage.environment,
            )
    yield from translations.lift_combiners(liftable, context)


def _ends_windows(transform: Any, context: Any) -> bool:
    """Whether panes have the time of their window's end."""
    pcoll = translations.only_element(list(transform.inputs.values()))
    strategy = context.components.pcollections[pcoll].windowing_strategy_id
    return bool(
        context.components.windowing_strategies[strategy].output_time == _END_OF_WINDOW
    )
