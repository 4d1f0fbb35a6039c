"""What a stream has between two epochs: frozen data that a commit replaces as a whole."""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.engine.checkpoint.manifests import Manifest, former_partitions, watermarks_of
from headrace.engine.positions import Positions
from headrace.errors import CheckpointError
from headrace.plan.clocks import MAX_TIME
from headrace.plan.supersteps import ChannelKind, Plan
from headrace.state.chain import Chain


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What a stream has between two epochs: all that a commit changes, replaced as a whole."""

    positions: Positions = field(default_factory=Positions)
    watermarks: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    former: dict[int, tuple[Chain, ...]] = field(default_factory=dict)  # other number of shards
    confirmed: tuple[str, ...] = ()  # the latest attempts that counted
    callbacks: int = 0  # finalisers that tasks have kept, in all

    @classmethod
    def resumed(cls, manifest: Manifest, plan: Plan, positions: Positions) -> Held:
        """Go on after the epoch of a manifest."""
        if manifest.shards != plan.shards:
            refuse_to_deal_out(plan, manifest.shards)
        return cls(
            positions=positions,
            watermarks=watermarks_of(manifest, plan.shards),
            former=former_partitions(manifest, plan.shards),
        )

    @property
    def ended(self) -> bool:
        """Whether every step's watermark is at the end of time."""
        return self.positions.begun and all(out >= MAX_TIME for _, out in self.watermarks.values())


def refuse_to_deal_out(plan: Plan, before: int) -> None:
    """Refuse another number of shards where keyed state lies on one shard, whatever its keys.

    Raises:
        CheckpointError: says which step, and with how many shards it can go on.
    """
    for stage in plan.stages():
        kinds = {plan.channels[port.channel].kind for port in stage.reads}
        if ChannelKind.MERGE in kinds and stage.stage_id in plan.facts.state:
            step = stage.operators[0] if stage.operators else stage.name
            msg = (
                f"{step} keeps state by key and, in an ordered run, sees all elements on one "
                f"shard: its state cannot be dealt out to {plan.shards} shards. Go on with "
                f"--shards={before}, as the checkpoint was written"
            )
            raise CheckpointError(msg)
