"""The splittable DoFns of one stage on one shard: how long they may run, and what they leave.

Takes what Beam gives for later, and runs it when it is due: again while it asks for no delay and
there is time. Knows nothing of timers, windows and watermarks; the stage asks it for its hold.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from math import inf
from typing import Any

from apache_beam.internal import pickler
from apache_beam.portability import common_urns
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.common import DoFnSignature

from headrace.plan.order import StageOrder
from headrace.worker.batched.cause import caused_by
from headrace.worker.beam_types import Element, Operation, Proto
from headrace.worker.protocol import Epoch
from headrace.worker.task.bundles import Bundles, call_finalisers
from headrace.worker.task.memory import Residuals
from headrace.worker.userstate.splitter import splitting

_PROCESS_SIZED = common_urns.sdf_components.PROCESS_SIZED_ELEMENTS_AND_RESTRICTIONS.urn


def splittables_of(
    bundles: Bundles,
    residuals: Callable[[], Residuals],
    order: StageOrder | None,
    *,
    bounded: bool,
) -> Splittables | None:
    """Give those of a stage; None if it has none.

    Args:
        bundles: runs the stage's operations.
        residuals: opens what was left for later.
        order: how what leaves is numbered, if the run is ordered.
        bounded: whether residuals are waited for, since there is no later epoch.
    """
    found = [
        (transform_id, op)
        for transform_id, op in bundles.ops.items()
        if bundles.transforms[transform_id].spec.urn == _PROCESS_SIZED
    ]
    return Splittables(found, bundles, residuals(), order, bounded=bounded) if found else None


class Splittables:
    """At least one splittable DoFn, epoch after epoch."""

    def __init__(
        self,
        ops: Sequence[tuple[str, Operation]],
        bundles: Bundles,
        residuals: Residuals,
        order: StageOrder | None,
        *,
        bounded: bool,
    ) -> None:
        self._ops = ops
        self._bundles = bundles
        self._residuals = residuals
        self._order = order
        self._bounded = bounded
        self._providers: dict[str, Any] = {}  # of restrictions, by transform; for a drain
        self._now = 0
        self._bundle_seconds = 1.0
        self._until: float | None = None
        self._drain = False

    def begin(self, epoch: Epoch) -> None:
        """Begin an epoch."""
        self._now = epoch.now
        self._bundle_seconds = epoch.bundle_seconds
        self._until = None
        self._drain = epoch.drain

    def sharing(self, sharers: int) -> AbstractContextManager[None]:
        """Let the block run for as long as the next of so many may take, then split it."""
        share = max(0.01, (self._deadline() - time.monotonic()) / sharers)
        return splitting(self._ops, share, self.split_off)

    def split_off(self, transform_id: str, residual: Proto) -> None:
        """Keep what Beam gives for later."""
        application = self._bundles.application(transform_id, residual)
        self._residuals.add(transform_id, application, self._clock(), at_once=self._drain)

    def go_on(self) -> None:
        """Run the residuals that are due; again while they ask for no delay and there is time."""
        residuals, bundles = self._residuals, self._bundles
        until = self._deadline()
        while due := residuals.take_all() if self._drain else residuals.take_due(self._clock()):
            if self._bounded:  # it may wait for a callback of the bundle that it was left by
                call_finalisers(bundles.take_finalisers())
            bundles.begin()
            for i, residual in enumerate(due):
                op = bundles.ops[residual.transform_id]
                impl = op.input_info.main_input_coder.get_impl()
                element = impl.decode_nested(residual.element)
                if self._drain:
                    element = self._truncated(residual.transform_id, element)
                    if element is None:
                        continue
                with caused_by(self._number(residual.element)):
                    if self._bounded:
                        op.process(element)
                        continue
                    with self.sharing(len(due) - i):
                        op.process(element)
            bundles.end()
            if time.monotonic() >= until:
                break

    def wait(self) -> bool:
        """In a bounded run, sleep until the next residual is due; say whether there is one."""
        due = self._residuals.next_wakeup() if self._bounded else None
        if due is None:
            return False
        time.sleep(max(0, due - self._clock()) / 1e6)
        return True

    def hold(self) -> int:
        """Give what the output watermark may not pass."""
        return self._residuals.hold()

    def next_wakeup(self) -> int | None:
        """Give the earliest processing time at which a residual may go on."""
        return self._residuals.next_wakeup()

    def _deadline(self) -> float:
        """Give when all must have come to rest in this epoch: so long after it was first asked."""
        if self._bounded:
            return inf
        if self._until is None:
            self._until = time.monotonic() + self._bundle_seconds
        return self._until

    def _clock(self) -> int:
        """Give processing time: it stands still in an epoch, and goes on in a bounded run."""
        return time.time_ns() // 1_000 if self._bounded else self._now

    def _number(self, encoded: bytes) -> int | None:
        return None if self._order is None else self._order.fired(0, encoded)

    def _truncated(self, transform_id: str, element: Element) -> Any | None:
        """Ask the DoFn what of a residual is still to be done when the pipeline is to end."""
        provider = self._providers.get(transform_id)
        if provider is None:
            proto = self._bundles.transforms[transform_id]
            payload = beam_runner_api_pb2.ParDoPayload.FromString(proto.spec.payload)
            fn = pickler.loads(payload.do_fn.payload)[0]
            provider = DoFnSignature(fn).get_restriction_provider()
            self._providers[transform_id] = provider
        (value, (restriction, estimator)), _ = element.value
        left = provider.truncate(value, restriction)
        if not left:
            return None
        size = provider.restriction_size(value, left)
        return element.with_value(((value, (left, estimator)), size))
