"""`LocalRunner`: headrace in one process, batch and streaming, without Spark and without a JVM.

The same compiler, the same worker's door, the same epoch loop and the same commit as on Spark; only
the host is another one. So a pipeline behaves in a unit test as it does there, in milliseconds.
"""

from __future__ import annotations

import logging
import uuid
from dataclasses import replace
from enum import Enum
from typing import Any

from apache_beam.options.pipeline_options import SetupOptions

from headrace.engine.clock import Clock
from headrace.engine.host import Host
from headrace.engine.status import StreamOptions
from headrace.errors import ResultError
from headrace.io.frames import Frames
from headrace.options import (
    HeadraceOptions,
    asked_outside,
    columns_mode,
    for_workers,
    stream_options,
)
from headrace.plan.settings import Settings
from headrace.plan.supersteps import Plan
from headrace.results import HeadraceResult, StreamResult
from headrace.runner import HeadraceRunner, touched_of
from headrace.state import memory_files
from headrace.state.local import LocalFolder
from headrace.state.memory_copies import MEMORY
from headrace.testing.clock import ManualClock
from headrace.testing.frames import LocalSession
from headrace.testing.host import LocalHost

#: Shards unless told otherwise: one would hide what goes wrong between two.
SHARDS = 2
#: The loop of a stream has looked at all there is within this time, or something hangs.
SETTLE_SECONDS = 30.0


class Stores(Enum):
    """Where the copies of a streaming pipeline's state lie."""

    MEMORY = "memory"  # in dictionaries of this process
    LMDB = "lmdb"  # on disk, as on Spark's workers; --state_dir says where


class LocalStreamResult(StreamResult):
    """A streaming pipeline that runs in a thread of this process."""

    def __init__(
        self, plan: Plan, host: Host, settings: Settings, frames: Frames, options: StreamOptions,
        clock: Clock | None, own: str,
    ) -> None:
        super().__init__(plan, host, settings, "off", frames, options, clock)
        self._own = own  # a checkpoint in memory that ends with the run; empty: none
        self._copies = LocalFolder(state_dir=options.state_dir, checkpoint=options.checkpoint)
        self._clock = clock
        if isinstance(clock, ManualClock):
            clock.tell(self._stream.look)

    def _work(self) -> None:
        try:
            super()._work()
        finally:
            if self._own:
                self._copies.remove()
                memory_files.forget(self._own)

    def settle(self) -> None:
        """Wait until all that has come and all that is due has been done, or the run has ended.

        Raises what the run raised.

        Raises:
            ResultError: it takes longer than half a minute.
        """
        # The look that is under way may have begun before what the caller did last.
        wanted = self._stream.idle_looks() + 2
        for _ in range(round(SETTLE_SECONDS / 0.02)):
            if self._done.is_set():
                self.wait_until_finish()
                return
            self._stream.look()
            if self._stream.idle_looks(wanted, 0.02) >= wanted:
                return
        msg = f"the run has not come to rest within {SETTLE_SECONDS:.0f} s: {self.status}"
        raise ResultError(msg)

    def advance(self, seconds: float) -> None:
        """Do all that has come, move the clock that was given to the runner, and settle again."""
        if not isinstance(self._clock, ManualClock):
            msg = "give the runner a clock to move: LocalRunner(clock=ManualClock())"
            raise ResultError(msg)
        self.settle()
        self._clock.advance(seconds)
        self.settle()


class LocalRunner(HeadraceRunner):
    """Runs Beam pipelines in this process, as headrace runs them on Spark.

    DataFrames come from a `LocalSession` or are a `ScriptedStream`; the options are those of
    `SparkRunner`. Without `--checkpoint`, state is kept in memory and ends with the run.
    `--checkpoint=memory://name` keeps it for as long as the process lives, a path on disk longer.

    Args:
        session: what makes the DataFrames; one is made if not given.
        clock: processing time; the machine's, or the script's of a `TestStream`, if not given.
        stores: where copies of state lie.
        drain: splittable DoFns leave out what they have not begun.
        host: where tasks run, for tests that put something between.
    """

    def __init__(
        self,
        session: LocalSession | None = None,
        *,
        clock: Clock | None = None,
        stores: Stores = Stores.MEMORY,
        drain: bool = False,
        host: Host | None = None,
    ) -> None:
        super().__init__(drain=drain)
        self._host = host or LocalHost(session)
        self._clock = clock
        self._stores = stores

    def run_proto(
        self, proto: Any, options: Any, frames: Frames | None = None
    ) -> HeadraceResult:
        """Run a portable pipeline; `frames` are the DataFrames it speaks of."""
        known = options.view_as(HeadraceOptions)
        plan, frames, streaming = self.compiled(proto, options, frames, known.shards or SHARDS)
        settings = Settings(
            super_tuple_bytes=known.super_tuple_bytes,
            max_bundle_elements=known.max_bundle_elements,
            group_memory_bytes=known.group_memory_mb << 20,
            merge_hot_keys=not known.no_hot_key_merging,
            columns=columns_mode(known),
            log_level=logging.getLogger().getEffectiveLevel(),
            pickle_library=options.view_as(SetupOptions).pickle_library,
            options=for_workers(options),
            run=f"headrace-{uuid.uuid4().hex[:12]}",
            watch_keys=known.ui and streaming,
            samples=known.ui_samples and streaming,
        )
        result: HeadraceResult
        if streaming:
            chosen, own = self._where(stream_options(known))
            result = LocalStreamResult(
                plan, self._host, settings, frames, chosen, self._clock, own
            )
        else:
            result = HeadraceResult(plan, self._host, settings, "off", frames)
        if known.debug:
            result.show_all()
        result.asked = asked_outside(known)
        result.touched = touched_of(result.asked, proto, frames, self._host.session)
        result.start()
        return result

    def _where(self, options: StreamOptions) -> tuple[StreamOptions, str]:
        """Say where a stream keeps its state, and which part of it ends with the run."""
        own = ""
        if not options.checkpoint:
            own = uuid.uuid4().hex
            options = replace(options, checkpoint=f"{memory_files.SCHEME}://{own}")
        if self._stores is Stores.MEMORY and not options.state_dir:
            options = replace(options, state_dir=MEMORY)
        return options, own
