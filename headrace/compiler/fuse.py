"""Optimises a Beam pipeline and fuses its transforms into stages.

Takes a pipeline proto, gives Beam's fused stages with their context. Most passes are Beam's own;
ours stand beside them in `passes`. Decides nothing about shards or supersteps.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterable
from typing import Any

from apache_beam.portability import common_urns
from apache_beam.runners.portability.fn_api_runner import translations

from headrace.compiler.passes.lift_combines import lift_combines
from headrace.compiler.passes.place_frames import FRAME_URNS, place_frames
from headrace.compiler.passes.place_scripts import SCRIPT_URNS, place_scripts
from headrace.compiler.passes.root_sequential import root_sequential
from headrace.compiler.passes.root_stateful import root_stateful
from headrace.compiler.passes.root_waiting import root_waiting
from headrace.compiler.passes.spread_reshuffles import RESHUFFLE_URNS, spread_reshuffles

Pass = Callable[[Iterable[Any], Any], Iterable[Any]]

#: What the runner itself performs; Beam's fusion must not put these inside a stage.
RUNNER_URNS = frozenset(
    {common_urns.primitives.FLATTEN.urn, common_urns.primitives.GROUP_BY_KEY.urn}
) | RESHUFFLE_URNS | FRAME_URNS | SCRIPT_URNS


def passes(
    at_home: Collection[str], *, streaming: bool = False, roots: Collection[str] | None = None
) -> tuple[Pass, ...]:
    """All passes, in order; `roots` are those of an ordered run, see `fuse`."""
    ordered = roots is not None
    return (
        translations.annotate_downstream_side_inputs,
        translations.fix_side_input_pcoll_coders,
        # Beam's streaming runners leave combiners apart, and its tests hold them to it.
        *(() if streaming else (translations.pack_combiners,)),
        lift_combines(ordered=ordered) if streaming or ordered else translations.lift_combiners,
        translations.expand_sdf,
        root_stateful(at_home),
        *((root_sequential(roots),) if roots is not None else ()),
        *((root_waiting,) if streaming else ()),
        spread_reshuffles,
        place_frames,
        place_scripts,
        translations.expand_gbk,
        translations.fix_flatten_coders,
        translations.sink_flattens,
        translations.greedily_fuse,
        in_name_order,
        translations.read_to_impulse,
        translations.impulse_to_input,
        translations.sort_stages,
        translations.add_impulse_to_dangling_transforms,
        translations.populate_data_channel_coders,
    )


def in_name_order(stages: Iterable[Any], context: Any) -> list[Any]:
    """Undo the set order that Beam's fusion leaves: the same pipeline must give the same plan."""
    del context
    return sorted(stages, key=lambda stage: stage.name)


def fuse(
    pipeline_proto: Any,
    *,
    at_home: Collection[str],
    drain: bool,
    streaming: bool = False,
    roots: Collection[str] | None = None,
) -> tuple[Any, list[Any]]:
    """Give Beam's transform context and the fused stages in topological order.

    Args:
        pipeline_proto: what is fused.
        at_home: transforms whose exchange is elided.
        drain: splittable DoFns leave out what they have not begun.
        streaming: many epochs.
        roots: transforms that begin stages in an ordered run; None: the run is not ordered.
    """
    context, stages = translations.create_and_optimize_stages(
        copy.deepcopy(pipeline_proto),
        phases=passes(at_home, streaming=streaming, roots=roots),
        known_runner_urns=RUNNER_URNS,
        use_state_iterables=False,
        is_drain=drain,
    )
    return context, list(stages)
