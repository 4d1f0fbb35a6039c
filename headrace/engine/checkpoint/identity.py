"""Decides whether a pipeline may go on with the state that another one has left.

Takes what two pipelines are, gives the differences as sentences; none: they fit. Only what decides
where state lies and how its bytes are read is compared: code inside a DoFn may change. Reads no
file and knows nothing of Beam: coders and windowings are texts that the caller made.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headrace.errors import CheckpointError
from headrace.plan.explain import collection_name, ordered_operators
from headrace.plan.ids import StageId
from headrace.plan.step_names import plain_step
from headrace.plan.supersteps import Channel, Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class StageFacts:
    """What is compared of a stage."""

    number: int  # stands in the names of its rows
    name: str  # for people, not compared: Beam puts running numbers into it
    superstep: int
    operators: tuple[str, ...]
    state: Mapping[str, str] = field(default_factory=dict)  # "key coder", "cell total": how read


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelFacts:
    """What is compared of a channel; its number is its position."""

    label: str
    kind: str
    coder: str
    windowing: str = ""  # for groupings
    words: Mapping[str, str] = field(default_factory=dict)  # of the windowing, for people


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """What a pipeline is, as `pipeline.json` holds it."""

    name: str  # not compared
    fingerprint: str  # not compared: changes with the code
    shards: int  # not compared: state can be dealt out again
    stages: tuple[StageFacts, ...]
    channels: tuple[ChannelFacts, ...]
    #: What streaming DataFrames read, by the names of their steps; what is not known fits.
    inputs: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Give plain dictionaries and lists."""
        return {
            "name": self.name,
            "fingerprint": self.fingerprint,
            "shards": self.shards,
            "stages": [
                {
                    "number": s.number, "name": s.name, "superstep": s.superstep,
                    "operators": list(s.operators), "state": dict(s.state),
                }
                for s in self.stages
            ],
            "channels": [
                {
                    "label": c.label, "kind": c.kind, "coder": c.coder, "windowing": c.windowing,
                    "words": dict(c.words),
                }
                for c in self.channels
            ],
            "inputs": dict(self.inputs),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Description:
        """Read what `to_json` gave; names what is missing."""
        try:
            return cls(
                name=str(data["name"]),
                fingerprint=str(data["fingerprint"]),
                shards=int(data["shards"]),
                stages=tuple(_stage(s) for s in data["stages"]),
                channels=tuple(ChannelFacts(**c) for c in data["channels"]),
                inputs=dict(data.get("inputs", {})),
            )
        except (KeyError, TypeError, ValueError) as e:
            msg = f"this does not describe a pipeline: {type(e).__name__}: {e}"
            raise CheckpointError(msg) from e

    def digest(self) -> str:
        """Give a short text; where it is equal, `difference` finds nothing."""
        compared = self.to_json()
        for free in ("name", "fingerprint", "shards", "inputs"):
            del compared[free]
        for stage in compared["stages"]:
            del stage["name"]
            stage["operators"] = sorted(plain_step(step) for step in stage["operators"])
        for channel in compared["channels"]:
            channel["label"] = plain_step(channel["label"])
            del channel["words"]
        text = json.dumps(compared, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def _stage(data: Mapping[str, Any]) -> StageFacts:
    return StageFacts(
        number=int(data["number"]),
        name=str(data["name"]),
        superstep=int(data["superstep"]),
        operators=tuple(data["operators"]),
        state=dict(data.get("state", {})),
    )


def describe(
    plan: Plan,
    *,
    coders: Mapping[str, str],
    windowings: Mapping[str, str],
    state: Mapping[StageId, Mapping[str, str]],
    words: Mapping[str, Mapping[str, str]] | None = None,
    inputs: Mapping[str, str] | None = None,
) -> Description:
    """Describe a plan.

    Args:
        plan: gives stages and channels; a stage's number is its position in `plan.stages()`.
        coders: by coder id, a text that is equal only for coders with equal encodings.
        windowings: by windowing id, such a text.
        state: by stage, what decides how its rows are read (see `StageFacts.state`).
        words: by windowing id, its parts in words.
        inputs: by step, what its streaming DataFrame reads.
    """
    stages = tuple(plan.stages())
    numbers = {stage.stage_id: number for number, stage in enumerate(stages)}
    facts = []
    for number, stage in enumerate(stages):
        steps = ordered_operators(plan, stage)
        facts.append(
            StageFacts(
                number=number,
                name=steps[0] if steps else stage.name,
                superstep=stage.superstep,
                operators=tuple(steps),
                state=dict(state.get(stage.stage_id, {})),
            )
        )
    channels = tuple(
        ChannelFacts(
            label=_label(channel, numbers),
            kind=channel.kind.value,
            coder=coders.get(channel.coder_id, ""),
            windowing=windowings.get(channel.windowing_id, ""),
            words=dict((words or {}).get(channel.windowing_id, {})),
        )
        for channel in plan.channels
    )
    return Description(
        name=plan.name, fingerprint=plan.fingerprint, shards=plan.shards,
        stages=tuple(facts), channels=channels, inputs=dict(inputs or {}),
    )


def _label(channel: Channel, numbers: Mapping[StageId, int]) -> str:
    """Give a channel's name, or its ends where it has none: Beam's own ids are running numbers."""
    if name := collection_name(channel):
        return name
    ends = (channel.source_stages, channel.target_stages)
    sources, targets = (", ".join(str(n) for n in sorted(numbers[s] for s in e)) for e in ends)
    return f"stage {sources or 'none'} to stage {targets or 'none'}"


def difference(old: Description, new: Description) -> list[str]:
    """Say in sentences why `new` cannot go on with the state of `old`; empty: it can."""
    return [
        *_steps(old.stages, new.stages), *_state(old, new), *_channels(old, new),
        *_inputs(old, new),
    ]


Location = tuple[tuple[int, int], ...]  # (stage, superstep); several where Beam copied a step


def _locations(stages: Iterable[StageFacts]) -> dict[str, Location]:
    found: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for stage in stages:
        for step in stage.operators:
            found[plain_step(step)].append((stage.number, stage.superstep))
    return {step: tuple(sorted(locations)) for step, locations in found.items()}


def _steps(old: Sequence[StageFacts], new: Sequence[StageFacts]) -> Iterator[str]:
    was, now = _locations(old), _locations(new)
    yield from (f"step {step!r} is new" for step in now if step not in was)
    yield from (f"step {step!r} is gone" for step in was if step not in now)
    moves: defaultdict[tuple[Location, Location], list[str]] = defaultdict(list)
    for step in was:
        if step in now and was[step] != now[step]:
            moves[was[step], now[step]].append(repr(step))
    for (source, target), steps in moves.items():
        word = "steps" if len(steps) > 1 else "step"
        yield f"{word} {', '.join(steps)} moved from {_where(source)} to {_where(target)}"


def _where(location: Location) -> str:
    return " and ".join(f"stage {stage} (superstep {superstep})" for stage, superstep in location)


def _names(stage: StageFacts) -> set[str]:
    return set(map(plain_step, stage.operators))


def _state(old: Description, new: Description) -> Iterator[str]:
    """What a stage's rows are: a cell more is none the worse, one less would be lost unseen."""
    later = {stage.number: stage for stage in new.stages}
    for stage in old.stages:
        other = later.get(stage.number)
        if other is None or _names(stage) != _names(other):
            continue  # said already: its steps are gone or moved
        for fact, text in stage.state.items():
            if fact not in other.state:
                yield f"stage {stage.number} ({stage.name}): {fact} is gone, it was {text}"
            elif other.state[fact] != text:
                yield (
                    f"stage {stage.number} ({stage.name}): {fact} was {text}, "
                    f"is now {other.state[fact]}"
                )


def _numbered(channels: Sequence[ChannelFacts]) -> dict[tuple[str, int], tuple[int, ChannelFacts]]:
    """Channels by label; several may have the same, told apart by their order."""
    found: dict[tuple[str, int], tuple[int, ChannelFacts]] = {}
    seen: defaultdict[str, int] = defaultdict(int)
    for number, channel in enumerate(channels):
        label = plain_step(channel.label)
        found[label, seen[label]] = number, channel
        seen[label] += 1
    return found


def _channels(old: Description, new: Description) -> Iterator[str]:
    was, now = _numbered(old.channels), _numbered(new.channels)
    yield from (f"collection {key[0]!r} is new" for key in now if key not in was)
    for key, (number, channel) in was.items():
        if key not in now:
            yield f"collection {key[0]!r} is gone"
            continue
        other_number, other = now[key]
        if number != other_number:
            yield f"collection {key[0]!r} moved from channel {number} to channel {other_number}"
        for what in ("kind", "coder", "windowing"):
            before, after = getattr(channel, what), getattr(other, what)
            if before == after:
                continue
            changed = _changed(channel.words, other.words) if what == "windowing" else ""
            how = changed or f"its {what} was {before or 'none'}, is now {after or 'none'}"
            yield f"collection {key[0]!r}: {how}"


def _changed(old: Mapping[str, str], new: Mapping[str, str]) -> str:
    """Say in words how a windowing has changed; empty if words do not tell."""
    return "; ".join(
        f"its {part} was {text}, is now {new[part]}" if part != "windows"
        else f"{text} became {new[part]}"
        for part, text in old.items() if part in new and text != new[part]
    )


def _inputs(old: Description, new: Description) -> Iterator[str]:
    was = {plain_step(step): text for step, text in old.inputs.items()}
    for step, text in new.inputs.items():
        before = was.get(plain_step(step))
        if before and text and before != text:
            yield f"step {step!r} reads {text}, and the checkpoint counts what was read of {before}"
