"""Pushes into stages what no row brings: impulses, and the elements of test streams."""

from __future__ import annotations

from apache_beam.testing.test_stream import WindowedValueHolder
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.timestamp import Timestamp

from headrace.plan.order import source_number
from headrace.plan.sources import Impulse
from headrace.plan.supersteps import ChannelKind
from headrace.worker.batched.batches import batch_of, numbered
from headrace.worker.beam_types import Element, Value
from headrace.worker.protocol import Epoch, SuperstepTask
from headrace.worker.task.descriptors import Descriptors
from headrace.worker.task.stage import StageRun


def feed(
    stage: StageRun, task: SuperstepTask, shard: int, epoch: Epoch, descriptors: Descriptors
) -> None:
    """Give a stage what the epoch has for it on this shard."""
    for port in stage.stage.reads:
        channel = task.channels[port.channel]
        # An impulse fires on one shard only, on another one for each source.
        if channel.kind is not ChannelKind.SOURCE or port.channel % task.shards != shard:
            continue
        found: list[Element] = []
        if isinstance(channel.source, Impulse) and epoch.first:
            found.append(GlobalWindows.windowed_value(b""))
        for index, coder_id, elements in epoch.arrivals:
            if index == port.channel:
                decode = descriptors.coder_of(coder_id).decode
                found += [_scripted(decode(data), micros) for data, micros in elements]
        if not found:
            continue
        values, meta = batch_of(found)
        if stage.order is not None:
            number = source_number(port.channel, 0)
            meta = numbered(values, meta, range(number, number + len(values)))
        stage.push(port.transform_id, values, meta)


def _scripted(value: Value, micros: int) -> Element:
    """Give an element of a test stream its time, and the windows it may bring along."""
    if isinstance(value, WindowedValueHolder):
        return value.windowed_value  # type: ignore[no-any-return]
    return GlobalWindows.windowed_value(value, Timestamp(micros=micros))  # type: ignore[no-any-return]
