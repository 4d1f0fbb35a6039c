"""Splits combines around their grouping, so that streaming state is accumulators, not elements.

Before:  CombinePerKey
After:   PreCombine -> GroupByKey -> MergeAccumulators -> ExtractOutputs, by Beam's own pass
Or:      ConvertToAccumulators -> GroupByKey -> MergeAccumulators -> ExtractOutputs

The second where the grouping has to see each element: where triggers count them, and where panes
carry their times, which a late element must not move. Each element then travels as an accumulator
of its own, and the grouping merges those that have come. An ordered run has the second everywhere:
sums of floats depend on the order in which they are added up, and that must not depend on shards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from apache_beam.portability import common_urns
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.portability.fn_api_runner import translations

from headrace.compiler.proto.urns import COMBINE_PER_KEY

_END_OF_WINDOW = beam_runner_api_pb2.OutputTime.END_OF_WINDOW
_CONVERT = common_urns.combine_components.COMBINE_PER_KEY_CONVERT_TO_ACCUMULATORS.urn
_ANY_LIFTS = beam_runner_api_pb2.Trigger(default=beam_runner_api_pb2.Trigger.Default())


def lift_combines(*, ordered: bool) -> Callable[[Iterable[Any], Any], Iterator[Any]]:
    """Build the pass; with `ordered` nothing is lifted, as accumulators add up in another order."""

    def lift_combines_pass(stages: Iterable[Any], context: Any) -> Iterator[Any]:
        return _lifted(stages, context, ordered)

    return lift_combines_pass


def _lifted(stages: Iterable[Any], context: Any, ordered: bool) -> Iterator[Any]:
    """Lift what may be lifted; elsewhere combine after the exchange, as elements come."""
    for stage in stages:
        transform = translations.only_transform(stage.transforms)
        if transform.spec.urn != COMBINE_PER_KEY:
            yield stage
            continue
        strategy = _strategy(transform, context)
        with _trigger_hidden(strategy):
            first, *rest = translations.lift_combiners([stage], context)
        counted = strategy.output_time != _END_OF_WINDOW or not _is_blind(strategy.trigger)
        if ordered or counted:
            translations.only_transform(first.transforms).spec.urn = _CONVERT
        yield from (first, *rest)


def _is_blind(trigger: Any) -> bool:
    """Whether it is all the same to a trigger how many elements have come, if any has.

    Beam's pass asks the same and says no to `AfterWatermark` unless it has firings both early and
    late: it takes one that is not there for one that it does not know.
    """
    kind = trigger.WhichOneof("trigger")
    match kind:
        case None | "default" | "always" | "never":
            return True
        case "after_processing_time" | "after_synchronized_processing_time":
            return True
        case "element_count":
            return bool(trigger.element_count.element_count == 1)
        case "after_end_of_window":
            at_end = trigger.after_end_of_window
            return _is_blind(at_end.early_firings) and _is_blind(at_end.late_firings)
        case "after_any":
            return all(map(_is_blind, trigger.after_any.subtriggers))
        case "repeat":
            return _is_blind(trigger.repeat.subtrigger)
        case _:
            return False


def _strategy(transform: Any, context: Any) -> Any:
    pcoll = translations.only_element(list(transform.inputs.values()))
    strategy = context.components.pcollections[pcoll].windowing_strategy_id
    return context.components.windowing_strategies[strategy]


@contextmanager
def _trigger_hidden(strategy: Any) -> Iterator[None]:
    """Let Beam's pass see a trigger under which it lifts, and put the right one back."""
    trigger = beam_runner_api_pb2.Trigger()
    trigger.CopyFrom(strategy.trigger)
    strategy.trigger.CopyFrom(_ANY_LIFTS)
    try:
        yield
    finally:
        strategy.trigger.CopyFrom(trigger)
