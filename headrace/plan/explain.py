"""A plan as text: for people, for fixtures, and as JSON for programs.

Takes a plan, gives text that is the same for the same plan, byte for byte. Stages are named by
their place (`1.0`: superstep 1, first stage), since Beam's own stage names carry running numbers.
Draws nothing: pictures are made in `draw`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from headrace.plan.ids import OperatorId, StageId
from headrace.plan.operators import Operator
from headrace.plan.regions import Region
from headrace.plan.supersteps import Channel, ChannelKind, Plan, Stage

_NOT_PARALLEL = "not parallel: "
_COMBINE_PARTS = ("Precombine", "Merge", "ExtractOutputs")
_BEAM_ID = re.compile(r"^ref_(?:AppliedPTransform|PCollection)_(.*?)_?\d*$")


def ordered_stages(plan: Plan) -> list[list[Stage]]:
    """The stages of each superstep in the pipeline's own order.

    Beam's fusion walks sets, so the order in which it leaves stages differs from run to run; what
    is printed must not.
    """
    rank = _Ranks(plan)
    labels: dict[StageId, list[str]] = {s.stage_id: [] for s in plan.stages()}
    for channel in plan.channels:
        for stage_id in (*channel.source_stages, *channel.target_stages):
            labels[stage_id].append(channel_title(channel))

    def place(stage: Stage) -> tuple[tuple[int, str], list[str]]:
        first = min((rank(o) for o in stage.operators), default=(len(plan.operators), ""))
        return first, sorted(labels[stage.stage_id])

    return [sorted(superstep.stages, key=place) for superstep in plan.supersteps]


def ordered_operators(plan: Plan, stage: Stage) -> list[OperatorId]:
    """The operators of a stage in the pipeline's own order."""
    return sorted(stage.operators, key=_Ranks(plan))


class _Ranks:
    """An operator's place in the pipeline; a part (`Sum/Merge`) has the place of its whole."""

    def __init__(self, plan: Plan) -> None:
        self._known = {o.operator_id: n for n, o in enumerate(plan.operators)}

    def __call__(self, operator: OperatorId) -> tuple[int, str]:
        whole: str = operator
        while whole and whole not in self._known:
            whole = whole.rpartition("/")[0]
        return self._known.get(OperatorId(whole), len(self._known)), _part_order(operator)


def _part_order(operator: str) -> str:
    """Sorts the parts of a lifted combine as they run."""
    part = operator.rpartition("/")[2]
    return f"{_COMBINE_PARTS.index(part)}" if part in _COMBINE_PARTS else operator


def stage_names(plan: Plan) -> dict[StageId, str]:
    """A short name for each stage: its superstep and its place in it."""
    return {
        stage.stage_id: f"{index}.{place}"
        for index, stages in enumerate(ordered_stages(plan))
        for place, stage in enumerate(stages)
    }


def collection_name(channel: Channel) -> str:
    """What a channel carries, without Beam's running numbers; empty if it has no other name."""
    found = _BEAM_ID.match(channel.label)
    name = found.group(1) if found else channel.label
    return "" if name == "PCollection" else name


def channel_title(channel: Channel) -> str:
    """How a channel's elements travel, and what they are where they have a name."""
    name = collection_name(channel)
    far = channel.kind not in (ChannelKind.LOCAL, ChannelKind.SOURCE)
    title = exchange_title(channel) + (", in order" if channel.order_bytes and far else "")
    return f"{title}: {name}" if name else title


def exchange_title(channel: Channel) -> str:
    """How a channel's elements travel, in words."""
    match channel.kind:
        case ChannelKind.LOCAL if channel.groups:
            return "groups in place"
        case ChannelKind.LOCAL:
            return "stays in place"
        case ChannelKind.GROUP:
            return "by key, grouped"
        case ChannelKind.KEYED:
            return "by key"
        case ChannelKind.SPREAD:
            return "to any shard"
        case ChannelKind.BROADCAST:
            return "to every shard"
        case ChannelKind.MERGE:
            return "to one shard"
        case ChannelKind.SOURCE:
            return "source"
        case _:
            return str(channel.kind.value)


#: How the regions' lines begin; they are about an order that Beam does not promise.
REGIONS = "regions: what may run on many shards and still give what one shard would, in its order"


#: How the lines about columns begin.
COLUMNS = "columns: what each step gives, and whether columns compute it or why not"


def explain(plan: Plan, *, regions: bool = False, columns: bool = False) -> str:
    """The plan with every decision and its reason, as text.

    Args:
        plan: what is explained.
        regions: say too what could keep the order of one shard, and what is known of each operator.
        columns: say too which steps columns compute, and what elements are made of.
    """
    lines = [*_lines(plan, regions), *(_columns(plan) if columns else ())]
    return "\n".join(lines) + "\n"


def _on_columns(operator: Operator) -> str | None:
    found = operator.lowered or operator.combined or operator.of_groups
    return None if found is None else str(found)


def _columns(plan: Plan) -> Iterator[str]:
    yield ""
    yield COLUMNS
    for operator in plan.operators:
        if operator.lowered is None and operator.gives is None and not operator.not_lowered:
            continue
        yield f"  {operator.operator_id}"
        on_columns = _on_columns(operator)
        if on_columns is not None:
            yield f"    {'on columns':<12}{on_columns}"
        elif operator.not_lowered:
            yield f"    {'on objects':<12}because it {operator.not_lowered}"
        yield f"    {'gives':<12}{operator.gives or 'not known'}"


def _lines(plan: Plan, regions: bool) -> Iterator[str]:
    kind = (", streaming" if plan.streaming else "") + (", ordered" if plan.ordered else "")
    yield f"plan {plan.name}: {plan.shards} shards, {len(plan.supersteps)} supersteps{kind}"
    yield f"fingerprint {plan.fingerprint}"
    names = stage_names(plan)
    by_id = {o.operator_id: o for o in plan.operators}
    for index, stages in enumerate(ordered_stages(plan)):
        yield ""
        yield f"superstep {index}"
        for stage in stages:
            yield f"  stage {names[stage.stage_id]}"
            yield from (f"    {operator}" for operator in ordered_operators(plan, stage))
            yield from _channels(plan, stage.stage_id, names)
    if not regions:
        return
    yield ""
    yield REGIONS
    if not plan.ordered:
        yield f"(without that order every step runs on all {plan.shards} shards)"
    for number, region in enumerate(plan.regions, 1):
        yield from _region(number, region)
    yield ""
    yield "operators: what is known of each, and why"
    for operator in by_id.values():
        yield from _operator(operator)


def _channels(plan: Plan, stage: StageId, names: dict[StageId, str]) -> Iterator[str]:
    """What leaves a stage, and what enters it from outside the plan."""
    ways: list[tuple[str, str]] = []
    for channel in plan.channels:
        targets = ", ".join(sorted({names[t] for t in channel.target_stages})) or "outside"
        if stage in channel.source_stages:
            ways.append((f"=> {targets} {channel_title(channel)}", channel.reason))
        elif stage in channel.target_stages and not channel.source_stages:
            ways.append((f"<= {channel_title(channel)}", channel.reason))
    for way, reason in sorted(ways):
        yield f"    {way}"
        yield f"       because {reason}"


def _region(number: int, region: Region) -> Iterator[str]:
    if region.first_joint is None or region.last_joint is None:
        yield f"  {number}. keeps its order on one shard only"
    else:
        key = f" by {', '.join(region.key)}" if region.key else ""
        yield f"  {number}. parallel: {region.first_joint.value}{key} -> {region.last_joint.value}"
        yield f"     order: {region.strategy.value}"
    yield from (f"       {operator}" for operator in region.operators)
    yield from (f"     {_in_order(reason)}" for reason in region.reasons)


def _in_order(reason: str) -> str:
    """Say of what "not parallel" speaks: Beam lets every step run on all shards."""
    if reason.startswith(_NOT_PARALLEL):
        return f"because {reason.removeprefix(_NOT_PARALLEL)}"
    return reason.replace(f" is {_NOT_PARALLEL}", " keeps its order on one shard only: ")


def _operator(operator: Operator) -> Iterator[str]:
    traits = operator.traits
    yield f"  {operator.operator_id}"
    yield f"    {'state':<12}{traits.state.value:<14}{traits.state_reason}"
    yield f"    {'outputs':<12}{traits.selectivity.value:<14}{traits.selectivity_reason}"
    yield f"    {'key':<12}{traits.forwarding.value:<14}{traits.forwarding_reason}"
    yield f"    {'repeatable':<12}{traits.determinism.value:<14}{traits.determinism_reason}"


def explain_json(plan: Plan) -> str:
    """The same facts as JSON, with sorted keys."""
    names = stage_names(plan)
    content = {
        "name": plan.name,
        "shards": plan.shards,
        "streaming": plan.streaming,
        "ordered": plan.ordered,
        "fingerprint": plan.fingerprint,
        "supersteps": [
            {
                "index": index,
                "stages": [
                    {"stage": names[s.stage_id], "operators": ordered_operators(plan, s)}
                    for s in stages
                ],
            }
            for index, stages in enumerate(ordered_stages(plan))
        ],
        "channels": [
            {
                "kind": c.kind.value,
                "groups": c.groups,
                "from": sorted(names[s] for s in c.source_stages),
                "to": sorted(names[s] for s in c.target_stages),
                "label": collection_name(c),
                "reason": c.reason,
            }
            for c in sorted(plan.channels, key=channel_title)
        ],
        "regions": [
            {
                "operators": list(r.operators),
                "parallel": r.parallel,
                "key": list(r.key),
                "first_joint": r.first_joint.value if r.first_joint else None,
                "last_joint": r.last_joint.value if r.last_joint else None,
                "strategy": r.strategy.value,
                "reasons": list(r.reasons),
            }
            for r in plan.regions
        ],
        "operators": [
            {
                "operator": o.operator_id,
                "urn": o.urn,
                "role": o.role.value,
                "key": list(o.key),
                "state": [o.traits.state.value, o.traits.state_reason],
                "selectivity": [o.traits.selectivity.value, o.traits.selectivity_reason],
                "forwarding": [o.traits.forwarding.value, o.traits.forwarding_reason],
                "determinism": [o.traits.determinism.value, o.traits.determinism_reason],
                "columns": _on_columns(o),
                "not_on_columns": o.not_lowered,
                "gives": None if o.gives is None else str(o.gives),
            }
            for o in plan.operators
        ],
    }
    return json.dumps(content, indent=2, sort_keys=True) + "\n"


def region_numbers(plan: Plan) -> dict[OperatorId, int]:
    """For each operator of a parallel region, the region's number as `explain` prints it.

    Beam lifts a combine into parts (`Sum/Precombine`): a part counts for its whole.
    """
    numbers = {o: n for n, r in enumerate(plan.regions, 1) if r.parallel for o in r.operators}
    for stage in plan.stages():
        for part in stage.operators:
            whole = OperatorId(part.rpartition("/")[0])
            if part not in numbers and whole in numbers:
                numbers[part] = numbers[whole]
    return numbers
