"""Reads Beam's protos for a task: coders, windowings, window mappings, combiners."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from apache_beam import pvalue
from apache_beam.portability import common_urns
from apache_beam.portability.api import beam_fn_api_pb2, beam_runner_api_pb2
from apache_beam.runners import pipeline_context
from apache_beam.transforms import core, window

from headrace.plan.combines import Combined
from headrace.plan.supersteps import Channel, SideInput, Stage
from headrace.worker.batched.combining import owns_resources
from headrace.worker.batched.known_combines import builtin_of
from headrace.worker.beam_types import Coder, CombineFn, Proto, Window, WindowedCoder, Windowing
from headrace.worker.exchange.merging import Combining
from headrace.worker.grouping.slices import Combination
from headrace.worker.grouping.value_bytes import ValueBytes

_CONVERT = common_urns.combine_components.COMBINE_PER_KEY_CONVERT_TO_ACCUMULATORS.urn
_MERGE = common_urns.combine_components.COMBINE_PER_KEY_MERGE_ACCUMULATORS.urn


class Descriptors:
    """The protos of a plan, as one task sees them."""

    def __init__(self, components: bytes, channels: tuple[Channel, ...]) -> None:
        self.components = beam_fn_api_pb2.ProcessBundleDescriptor.FromString(components)
        self._context = pipeline_context.PipelineContext(self.components)
        self._channels = channels
        self._transforms: dict[str, Proto] = {}  # by stage: they may carry much data

    def coder(self, channel: int) -> WindowedCoder:
        """Give the coder of a channel's windowed values."""
        found: WindowedCoder = self.coder_of(self._channels[channel].coder_id)
        return found

    def coder_of(self, coder_id: str) -> Any:
        """Give a coder by its id."""
        return self._context.coders.get_by_id(coder_id)

    def windowing(self, channel: int) -> Windowing:
        """Give the windowing strategy of a channel's elements."""
        return self._windowing_of(self._channels[channel].windowing_id)

    def _windowing_of(self, strategy_id: str) -> Windowing:
        found: Windowing = self._context.windowing_strategies.get_by_id(strategy_id)
        return found

    def transforms(self, stage: Stage) -> Proto:
        """Give the transforms of a stage, by their ids."""
        found = self._transforms.get(stage.stage_id)
        if found is None:
            whole = beam_fn_api_pb2.ProcessBundleDescriptor.FromString(stage.transforms)
            found = self._transforms[stage.stage_id] = whole.transforms
        return found

    # -- inputs of a ParDo

    def main_windowing(self, proto: Proto) -> Windowing:
        """Give the windowing of a ParDo's main input."""
        return self._windowing_of(self._main(proto).windowing_strategy_id)

    def main_coder(self, proto: Proto) -> Coder:
        """Give the coder of a ParDo's main input."""
        found: Coder = self.coder_of(self._main(proto).coder_id)
        return found

    def _main(self, proto: Proto) -> Proto:
        payload = beam_runner_api_pb2.ParDoPayload.FromString(proto.spec.payload)
        (main,) = (p for tag, p in proto.inputs.items() if tag not in payload.side_inputs)
        return self.components.pcollections[main]

    def mapping(self, stage: Stage, side: SideInput) -> Callable[[Window], Window]:
        """Give the function from a main window to the window of a side input."""
        proto = self.transforms(stage)[side.transform_id]
        payload = beam_runner_api_pb2.ParDoPayload.FromString(proto.spec.payload)
        data = pvalue.SideInputData.from_runner_api(payload.side_inputs[side.tag], self._context)
        found: Callable[[Window], Window] = data.window_mapping_fn
        return found

    def side_windowing(self, stage: Stage, side: SideInput) -> Windowing:
        """Give the windowing of a side input."""
        proto = self.transforms(stage)[side.transform_id]
        pcoll = self.components.pcollections[proto.inputs[side.tag]]
        return self._windowing_of(pcoll.windowing_strategy_id)

    # -- what follows a grouping

    def combine_fn(self, stage: Stage, channel: int) -> CombineFn | None:
        """Give what merges the values of a key, if all that follows the grouping is a combine."""
        merge = self._merge_of(stage, channel)
        return None if merge is None else self._combine_fn_of(self.transforms(stage)[merge])

    def combined(self, stage: Stage, channel: int) -> Combined | None:
        """Give what the compiler found of that combine."""
        merge = self._merge_of(stage, channel)
        return None if merge is None else dict(stage.combines).get(merge)

    def _merge_of(self, stage: Stage, channel: int) -> str | None:
        """Give the id of what merges the values of a key, if nothing else reads them."""
        transforms = self.transforms(stage)
        port = next(p for p in stage.reads if p.channel == channel)
        (pcoll,) = transforms[port.transform_id].outputs.values()
        readers = [t for t, proto in transforms.items() if pcoll in proto.inputs.values()]
        if len(readers) != 1 or transforms[readers[0]].spec.urn != _MERGE:
            return None
        return str(readers[0])

    def _combine_fn_of(self, transform: Proto) -> CombineFn | None:
        payload = beam_runner_api_pb2.CombinePayload.FromString(transform.spec.payload)
        combine_fn = core.CombineFn.from_runner_api(payload.combine_fn, self._context)
        return None if owns_resources(combine_fn) else combine_fn  # else nobody has set it up here

    def combining(self, stages: Iterable[Stage], channel: int) -> Combining | None:
        """Give how accumulators may be merged that a channel gets, one for each element.

        None where it gets something else, or where windows merge: those of a key's elements then
        differ, and so would what is late.
        """
        windowing = self.windowing(channel)
        if windowing.windowfn.is_merging():
            return None
        writers = [
            (self.transforms(stage), port.transform_id)
            for stage in stages
            for port in stage.writes
            if port.channel == channel
        ]
        if len(writers) != 1:
            return None
        transforms, write = writers[0]
        (pcoll,) = transforms[write].inputs.values()
        makers = [t for t in transforms.values() if pcoll in t.outputs.values()]
        if len(makers) != 1 or makers[0].spec.urn != _CONVERT:
            return None
        combine_fn = self._combine_fn_of(makers[0])
        if combine_fn is None:
            return None
        timed = windowing.timestamp_combiner != window.TimestampCombiner.OUTPUT_AT_EOW
        return Combining(combine_fn.merge_accumulators, makers[0].unique_name, timed)

    def combination(self, channel: int, combine_fn: CombineFn | None) -> Combination:
        """Give how the values of slices become those of windows."""
        if combine_fn is None:
            return Combination()
        values = ValueBytes(self.coder(channel).wrapped_value_coder.value_coder())
        return Combination(
            combine_fn.merge_accumulators,
            builtin_of(combine_fn),
            lambda found: values.decode(values.encode(found)),
        )
