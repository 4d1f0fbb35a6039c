"""Beam's stages as text that people can read: one line for each transform, edges by name.

    Sum/Precombine: combine_per_key_precombine(Pairs)
    Count: pardo(Pairs), state seen [root]
    R/Write: write R/Restrict to spread:R
    R/Read: read spread:R -> R [after R/Write]

A collection has the name of the transform that first made it, with a tag behind a dot where that
one has several outputs; a line says what a transform makes only where the names differ. In
brackets stands what a pass decides about the stage and fusion heeds. Ids of Beam's, which carry
running numbers, are nowhere in the text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from apache_beam.portability import common_urns
from apache_beam.portability.api import beam_runner_api_pb2 as beam_pb
from apache_beam.runners.portability.fn_api_runner import translations
from apache_beam.runners.worker import bundle_processor

from headrace.compiler.proto.urns import COMBINE_PER_KEY, GROUP_BY_KEY
from headrace.compiler.proto.windowing_words import words_of

_READ, _WRITE = bundle_processor.DATA_INPUT_URN, bundle_processor.DATA_OUTPUT_URN
_MAIN_OUTPUT = "None"


class StageText:
    """Writes the stages of one compilation; what has been named once keeps its name."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._rank: dict[str, int] = {}

    def keep_order(self, stages: Iterable[Any]) -> None:
        """Hear in which order unfused stages come: `fused` writes them in that order."""
        self._rank = {_only(stage).unique_name: n for n, stage in enumerate(stages)}

    def unfused(self, stages: list[Any], context: Any) -> str:
        """Write stages of one transform each, in their order."""
        self.name_outputs(stages)
        return "".join(f"{self._stage_line(stage, context)}\n" for stage in stages)

    def coders(self, context: Any) -> dict[str, str]:
        """The coders of all collections that have a name, by their names."""
        pcolls = context.components.pcollections
        return {name: _coder(pcolls[id_].coder_id, context) for id_, name in self._names.items()}

    def recoded(self, before: dict[str, str], context: Any) -> str:
        """Write which collections have another coder than before; empty if none."""
        return "".join(
            f"coder of {name}: {before[name]} -> {coder}\n"
            for name, coder in self.coders(context).items()
            if before.get(name, coder) != coder
        )

    def fused(self, stages: list[Any], context: Any) -> str:
        """Write fused stages in the order of the pipeline: Beam's own differs from run to run."""
        self.name_outputs(stages)
        texts = [list(self._fused_lines(stage, context)) for stage in stages]
        return "\n".join("".join(f"{line}\n" for _, line in text) for text in sorted(texts))

    def name_outputs(self, stages: Iterable[Any]) -> None:
        """Give a name to each collection that has none."""
        for stage in stages:
            for transform in stage.transforms:
                for tag, pcoll in transform.outputs.items():
                    many = len(transform.outputs) > 1 and tag != _MAIN_OUTPUT
                    name = transform.unique_name + (f".{tag}" if many else "")
                    self._names.setdefault(pcoll, name)

    def _stage_line(self, stage: Any, context: Any) -> str:
        transform = _only(stage)
        marks = ["root"] if stage.forced_root else []
        if stage.must_follow:
            marks.append(f"after {', '.join(sorted(s.name for s in stage.must_follow))}")
        if stage.downstream_side_inputs:
            sides = sorted(self._names.get(p, p) for p in stage.downstream_side_inputs)
            marks.append(f"leads to side input {', '.join(sides)}")
        text = f"{transform.unique_name}: {self._transform(transform, context)}"
        return text + (f" [{'; '.join(marks)}]" if marks else "")

    def _fused_lines(self, stage: Any, context: Any) -> Iterator[tuple[int, str]]:
        """The lines of a stage, each with what it is sorted by: the place of its first operator."""
        between = [t for t in stage.transforms if t.spec.urn not in (_READ, _WRITE)]
        between.sort(key=lambda t: self._rank[t.unique_name])
        first = self._rank[between[0].unique_name] if between else len(self._rank)
        yield first, "stage"
        for urn in (_READ, "", _WRITE):
            found = [
                (f"{t.unique_name}: " if not urn else "") + self._transform(t, context)
                for t in (stage.transforms if urn else between)
                if not urn or t.spec.urn == urn
            ]
            yield from ((first, f"  {line}") for line in (sorted(found) if urn else found))

    def _transform(self, transform: Any, context: Any) -> str:
        urn = transform.spec.urn
        outputs = sorted(self._names[p] for p in transform.outputs.values())
        gives = "" if outputs in ([], [transform.unique_name]) else f" -> {', '.join(outputs)}"
        if urn == _READ:
            return f"read {self._buffer(transform, context)} -> {', '.join(outputs)}"
        sides = translations.side_inputs(transform)
        main = [self._names[p] for tag, p in sorted(transform.inputs.items()) if tag not in sides]
        if urn == _WRITE:
            return f"write {', '.join(main)} to {self._buffer(transform, context)}"
        aside = [f"side {self._names[p]}" for _, p in sorted(sides.items())]
        extras = "".join(f", {extra}" for extra in _extras(transform, context))
        return f"{_short(urn)}({', '.join(main + aside)}){gives}{extras}"

    def _buffer(self, transform: Any, context: Any) -> str:
        """The id of a buffer, with names in the place of ids."""
        kind, _, of = transform.spec.payload.decode().partition(":")
        if of in context.components.transforms:
            of = context.components.transforms[of].unique_name
        return f"{kind}:{self._names.get(of, of)}" if of else kind


def _only(stage: Any) -> Any:
    return translations.only_transform(stage.transforms)


def _extras(transform: Any, context: Any) -> Iterator[str]:
    """What a pass may ask of a transform beside its edges."""
    if transform.spec.urn == common_urns.primitives.PAR_DO.urn:
        payload = beam_pb.ParDoPayload.FromString(transform.spec.payload)
        yield from (f"state {name}" for name in sorted(payload.state_specs))
        yield from (f"timer {name}" for name in sorted(payload.timer_family_specs))
    if transform.spec.urn in (COMBINE_PER_KEY, GROUP_BY_KEY):
        yield from _windowing(transform, context)


def _windowing(transform: Any, context: Any) -> Iterator[str]:
    pcoll = translations.only_element(transform.inputs.values())
    strategy_id = context.components.pcollections[pcoll].windowing_strategy_id
    strategy = context.components.windowing_strategies[strategy_id]
    if strategy.window_fn.urn != common_urns.global_windows.urn:
        yield words_of(strategy)["windows"]
    if strategy.trigger.WhichOneof("trigger") not in (None, "default"):
        yield f"trigger {words_of(strategy)['trigger']}"
    if strategy.output_time != beam_pb.OutputTime.END_OF_WINDOW:
        yield beam_pb.OutputTime.Enum.Name(strategy.output_time).lower()


def _coder(coder_id: str, context: Any) -> str:
    coder = context.components.coders[coder_id]
    parts = [_coder(part, context) for part in coder.component_coder_ids]
    return _short(coder.spec.urn) + (f"<{', '.join(parts)}>" if parts else "")


def _short(urn: str) -> str:
    """`beam:transform:flatten:v1` reads as `flatten`, `beam:coder:varint:v1` as `varint`."""
    parts = urn.split(":")
    return parts[-2] if len(parts) > 1 else urn
