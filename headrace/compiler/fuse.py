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

from headrace.compiler.flow_order import in_flow_order
from headrace.compiler.passes.lift_combines import lift_combines
from headrace.compiler.passes.place_frames import FRAME_URNS, place_frames
from headrace.compiler.passes.place_scripts import SCRIPT_URNS, place_scripts
from headrace.compiler.passes.root_sequential import root_sequential
from headrace.compiler.passes.root_stateful import root_stateful
from headrace.compiler.passes.root_waiting import root_waiting
from headrace.compiler.passes.spread_reshuffles import RESHUFFLE_URNS, spread_reshuffles
from headrace.errors import PlanError

Pass = Callable[[Iterable[Any], Any], Iterable[Any]]

#: What the runner itself performs; Beam's fusion must not put these inside a stage.
RUNNER_URNS = frozenset(
    {common_urns.primitives.FLATTEN.urn, common_urns.primitives.GROUP_BY_KEY.urn}
) | RESHUFFLE_URNS | FRAME_URNS | SCRIPT_URNS


def passes(
    elided: Collection[str],
    *,
    streaming: bool = False,
    roots: Collection[str] | None = None,
    waiting: bool = False,
) -> tuple[Pass, ...]:
    """All passes, in order.

    Args:
        elided: see `fuse`.
        streaming: see `fuse`.
        roots: see `fuse`.
        waiting: what has side inputs begins stages.
    """
    ordered = roots is not None
    return (
        translations.annotate_downstream_side_inputs,
        translations.fix_side_input_pcoll_coders,
        # Beam's streaming runners leave combiners apart, and its tests hold them to it.
        *(() if streaming else (translations.pack_combiners,)),
        lift_combines(ordered=ordered) if streaming or ordered else translations.lift_combiners,
        translations.expand_sdf,
        root_stateful(elided),
        *((root_sequential(roots),) if roots is not None else ()),
        *((root_waiting,) if waiting else ()),
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
    elided: Collection[str],
    drain: bool,
    streaming: bool = False,
    roots: Collection[str] | None = None,
) -> tuple[Any, list[Any]]:
    """Give Beam's transform context and the fused stages in the order of the flow.

    Args:
        pipeline_proto: what is fused.
        elided: transforms whose exchange is elided.
        drain: splittable DoFns leave out what they have not begun.
        streaming: many epochs.
        roots: transforms that begin stages in an ordered run; None: the run is not ordered.
    """
    # Beam's fusion may make stages that wait for side inputs of each other; there are none where
    # only what enters a stage has side inputs. That costs an exchange: batch tries without first.
    for waiting in (True,) if streaming else (False, True):
        context, stages = translations.create_and_optimize_stages(
            copy.deepcopy(pipeline_proto),
            phases=passes(elided, streaming=streaming, roots=roots, waiting=waiting),
            known_runner_urns=RUNNER_URNS,
            use_state_iterables=False,
            is_drain=drain,
        )
        in_order = in_flow_order(stages)
        if in_order is not None:
            return context, in_order
    msg = "there are stages that wait for each other"
    raise PlanError(msg)
