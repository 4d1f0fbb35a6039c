"""The operations at the two ends of a stage, made known to Beam's BundleProcessor.

`StageRead` hands windowed values to the stage as objects; `ShardWrite` passes the stage's output to
a writer that the task provides. Both are registered under headrace's own URNs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from apache_beam.coders.coder_impl import create_InputStream
from apache_beam.runners import common
from apache_beam.runners.worker import bundle_processor, operations

STAGE_READ_URN = "headrace:stage_read:v1"
SHARD_WRITE_URN = "headrace:shard_write:v1"


class StageRead(bundle_processor.DataInputOperation):  # type: ignore[misc]
    """Where elements enter a stage."""

    def receive(self) -> Callable[[Any], None]:
        """Give the function that takes one windowed value."""
        return self.receivers[0].receive  # type: ignore[no-any-return]

    def push(self, elements: Iterable[Any]) -> None:
        """Take windowed values."""
        receive = self.receivers[0].receive
        for element in elements:
            receive(element)

    def push_rows(self, payload: bytes, decode: Callable[[Any, bool], Any]) -> None:
        """Take encoded windowed values."""
        receive = self.receivers[0].receive
        stream = create_InputStream(payload)
        while stream.size() > 0:
            receive(decode(stream, True))


class ShardWrite(operations.Operation):  # type: ignore[misc]
    """Where elements leave a stage. The task sets `process` to its writer's."""

    def __init__(self, name: Any, channels: list[int], factory: Any, coder: Any) -> None:
        super().__init__(name, None, factory.counter_factory, factory.state_sampler)
        self.channels = channels
        self.windowed_coder = coder


def _read(factory: Any, transform_id: str, proto: Any, payload: bytes, consumers: Any) -> Any:
    spec = json.loads(payload)
    return StageRead(
        common.NameContext(proto.unique_name, transform_id),
        proto.unique_name,
        consumers,
        factory.counter_factory,
        factory.state_sampler,
        factory.get_coder(spec["coder"]),
        transform_id=transform_id,
        data_channel_factory=None,
    )


def _write(factory: Any, transform_id: str, proto: Any, payload: bytes, consumers: Any) -> Any:  # noqa: ARG001
    spec = json.loads(payload)
    return ShardWrite(
        common.NameContext(proto.unique_name, transform_id),
        spec["channels"],
        factory,
        factory.get_coder(spec["coder"]),
    )


bundle_processor.BeamTransformFactory.register_urn(STAGE_READ_URN, bytes)(_read)
bundle_processor.BeamTransformFactory.register_urn(SHARD_WRITE_URN, bytes)(_write)
