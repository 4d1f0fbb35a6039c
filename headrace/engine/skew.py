"""Says how evenly the shards of a stream are loaded, and which keys are hot.

Takes what tasks report epoch by epoch, gives sums since the start. Decides nothing: what is done
about a hot key was done by the task that met it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from headrace.plan.supersteps import Plan
from headrace.worker.entry import ShardReport

#: Keys that are remembered for each grouping: the hottest ones.
KEYS_KEPT = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class HotKey:
    """A key that had a large share of a combine's elements."""

    step: str  # the grouping, as the pipeline names it
    key: str  # as Python writes it, cut if it is long
    elements: int  # at least so many, since the start
    share: float  # of all elements of the step that were merged before they travelled


@dataclass(frozen=True, slots=True, kw_only=True)
class Skew:
    """What came to which shard since the start; all by the number of the channel."""

    arrived: Mapping[int, Mapping[int, int]] = field(default_factory=dict)  # shard -> elements
    merged: Mapping[int, int] = field(default_factory=dict)  # elements merged before they travelled
    hot: Mapping[int, Mapping[str, int]] = field(default_factory=dict)  # of them, key -> elements

    def hot_keys(self, plan: Plan) -> list[HotKey]:
        """Give the hot keys, those with the largest share first."""
        found = [
            HotKey(
                step=plan.channels[channel].label, key=key, elements=count,
                share=count / self.merged[channel],
            )
            for channel, keys in self.hot.items()
            for key, count in keys.items()
        ]
        return sorted(found, key=lambda one: (-one.share, one.step, one.key))

    def by_shard(self, plan: Plan) -> dict[str, list[int]]:
        """Give for each grouping how many elements came to each shard.

        Accumulators that were merged on the way count as one.
        """
        return {
            plan.channels[channel].label: [found.get(shard, 0) for shard in range(plan.shards)]
            for channel, found in sorted(self.arrived.items())
        }


def skew_after(before: Skew, reports: Iterable[ShardReport]) -> Skew:
    """Add what the tasks of one epoch have told."""
    arrived = {channel: dict(found) for channel, found in before.arrived.items()}
    merged = dict(before.merged)
    hot = {channel: dict(found) for channel, found in before.hot.items()}
    for report in reports:
        for channel, count in report.arrived.items():
            of_channel = arrived.setdefault(channel, {})
            of_channel[report.shard] = of_channel.get(report.shard, 0) + count
        for channel, (elements, keys) in report.merged.items():
            merged[channel] = merged.get(channel, 0) + elements
            known = hot.setdefault(channel, {})
            for key, count in keys.items():
                known[key] = known.get(key, 0) + count
    for channel, known in hot.items():
        if len(known) > KEYS_KEPT:
            hot[channel] = dict(sorted(known.items(), key=lambda one: -one[1])[:KEYS_KEPT])
    return Skew(arrived=arrived, merged=merged, hot=hot)
