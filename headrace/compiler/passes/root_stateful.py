"""Makes every stateful ParDo the root of its own stage, unless the exchange before it is elided.

Before:  a -> StatefulParDo fused into a's stage
After:   a | StatefulParDo, with an exchange by key between the two

State lives on the shard that owns the key, so elements must be brought there first. Where the
compiler proved that the key was forwarded unchanged since the last grouping, they are there already
and the ParDo stays fused: that exchange is elided.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

from apache_beam.portability import common_urns
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.utils import proto_utils

_PROCESS_SIZED = (
    common_urns.sdf_components.PROCESS_SIZED_ELEMENTS_AND_RESTRICTIONS.urn
)


def root_stateful(elided: Collection[str]) -> Callable[[Iterable[Any], Any], Iterator[Any]]:
    """Build the pass; `elided` names the transforms whose exchange is elided."""

    def root_stateful_pass(stages: Iterable[Any], _context: Any) -> Iterator[Any]:
        for stage in stages:
            for transform in stage.transforms:
                if transform.unique_name not in elided and is_stateful(transform):
                    stage.forced_root = True
                # Restrictions must be dealt out to the shards before they are processed, else all
                # the reading happens on the one shard that split them.
                if transform.spec.urn == _PROCESS_SIZED:
                    stage.forced_root = True
            yield stage

    return root_stateful_pass


def is_stateful(transform: Any) -> bool:
    """Whether the transform is a ParDo with state cells or timers."""
    if transform.spec.urn != common_urns.primitives.PAR_DO.urn:
        return False
    payload = proto_utils.parse_Bytes(
        transform.spec.payload, beam_runner_api_pb2.ParDoPayload
    )
    return bool(payload.state_specs or payload.timer_family_specs)
