"""What a user holds while a pipeline runs, and after it: state, progress, metrics, the end."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from math import inf
from typing import Any

from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiMetrics
from apache_beam.runners.runner import PipelineResult, PipelineState
from apache_beam.utils.timestamp import Timestamp

from headrace.engine.batch import Outcome, run_batch
from headrace.engine.clock import Clock
from headrace.engine.failures import show_all
from headrace.engine.host import Host
from headrace.engine.leftovers import remove_own_folders
from headrace.engine.listening import ear
from headrace.engine.metrics import of_steps
from headrace.engine.signals import EndRequestedError, end_on_request, say_end
from headrace.engine.skew import HotKey
from headrace.engine.status import StreamOptions, StreamStatus
from headrace.engine.stream import Stream
from headrace.io.frames import Frames
from headrace.plan.datasets import Touched
from headrace.plan.settings import Settings
from headrace.plan.supersteps import Plan, step_names
from headrace.telemetry.asked import Asked
from headrace.terminal.steps import StepView
from headrace.terminal.view import moment, size

_LOG = logging.getLogger(__name__)
#: Between two looks whether a signal has come.
_LOOK_SECONDS = 0.5

#: How long a cancelled job may take before it is cancelled once more.
CANCEL_SECONDS = 0.5
#: After this time a user who waits for the end of an epoch is told so.
HINT_SECONDS = 3.0


class HeadraceResult(PipelineResult):  # type: ignore[misc]
    """A running or finished pipeline."""

    def __init__(
        self, plan: Plan, host: Host, settings: Settings, progress: str, frames: Frames
    ) -> None:
        super().__init__(PipelineState.STARTING)
        self._frames = frames
        self.plan = plan
        self._host = host
        self._settings = settings
        self._progress = progress
        self._group = settings.run or f"headrace-{uuid.uuid4().hex[:12]}"
        self._outcome = Outcome()
        self._failure: BaseException | None = None
        self._cancelled = False
        self._debug = False
        self.asked = Asked()  # who is told of the run
        self.touched = Touched()  # what it reads and writes, if somebody is told of that
        self._done = threading.Event()
        self._deciding = threading.Lock()  # of how it ends: a cancel and the end may coincide
        self._thread = threading.Thread(target=self._run, name=self._group, daemon=True)

    def start(self) -> None:
        """Start the run in a thread of its own."""
        self._state = PipelineState.RUNNING
        self._thread.start()

    def show_all(self) -> None:
        """Let failures be shown whole: the frames of Beam and headrace, and what Spark logs."""
        self._debug = True
        self._host.show_log()

    def _work(self) -> None:
        with self._host.watching(self.plan, self._progress), self._telling() as watchers:
            self._outcome = run_batch(
                self.plan, self._host, self._settings, f"headrace: {self.plan.name}", self._frames,
                watchers,
            )

    def _telling(self) -> AbstractContextManager[Sequence[Any]]:
        """Give those who are to be told of the run while a block runs."""
        if not self.asked:
            return nullcontext(())
        from headrace.telemetry.telling import Running, telling  # not by runs that tell nobody

        run = Running(
            name=self._group, streaming=isinstance(self, StreamResult), touched=self.touched,
            spark=getattr(self._host.session, "version", ""),
        )
        return telling(self.asked, self.plan, run, lambda: self._cancelled)

    def _run(self) -> None:
        failure: BaseException | None = None
        try:
            self._work()
        except BaseException as error:  # noqa: BLE001 (raised again where the user waits)
            failure = error
        self._host.close()
        if self._settings.ear and (heard := ear()) is not None:
            heard.settle()  # what was printed comes before the end, and before an exception
            heard.forget(self._group)
        with self._deciding:
            if failure is None:
                self._state = PipelineState.DONE
            elif self._cancelled:
                _LOG.debug("cancelled: %s", failure)
                self._state = PipelineState.CANCELLED
            else:
                self._failure = failure
                self._state = PipelineState.FAILED
            self._done.set()

    @property
    def state(self) -> str:
        """Beam's name for how far the pipeline is."""
        return str(self._state)

    def __str__(self) -> str:
        return f"{self.plan.name}: {self._summary()}"

    @property
    def status(self) -> str:
        """How the run stands, in words: a line, and one for each step that has put elements out."""
        return "\n".join([str(self), *self._step_lines()])

    def _summary(self) -> str:
        what = f"{self.state}, a batch on {self.plan.shards} shards"
        if self._failure is not None:
            what += f": {type(self._failure).__name__}: {self._failure}"
        return what

    def _step_lines(self) -> list[str]:
        transforms = tuple(stage.transforms for stage in self.plan.stages())
        found = of_steps(transforms, self._outcome.monitoring_infos)
        return [
            f"  {name}: {elements:,} elements, {busy:.1f} s busy"
            for name in step_names(self.plan)
            for elements, busy in [found.get(name, (0, 0.0))]
        ]

    def wait_until_finish(self, duration: int | None = None) -> str:
        """Wait for the end, or for `duration` milliseconds; raise what the pipeline raised.

        Ctrl-C cancels a batch, and stops a stream between two epochs, a second one at once. So do
        SIGTERM and SIGHUP where the program has no handlers of its own; then they end it.
        """
        try:
            with end_on_request():
                return self._await(duration)
        except (EndRequestedError, KeyboardInterrupt) as request:
            try:
                self._stop(at_once=False)
            except KeyboardInterrupt:
                self._stop(at_once=True)
            say_end(request, self._what_is_kept(), remove_own_folders)
            raise

    def _what_is_kept(self) -> str:
        return "the run was cancelled; a batch keeps no state, start it again"

    def _wait(self, seconds: float | None = None) -> None:
        """Wait for the end.

        Slice by slice: a signal that comes just before its thread falls asleep does not wake it.
        """
        until = inf if seconds is None else time.monotonic() + seconds
        while not self._done.wait(max(0.0, min(_LOOK_SECONDS, until - time.monotonic()))):
            if time.monotonic() >= until:
                return

    def _await(self, duration: int | None) -> str:
        self._wait(None if duration is None else duration / 1000)
        if self._failure is not None:
            if self._debug:
                show_all(self._failure)
                raise self._failure
            # The frames of the thread that ran it are ours, and the same for every failure.
            raise self._failure.with_traceback(None)
        return str(self._state)

    def cancel(self) -> str:
        """Stop the pipeline; its Spark tasks end too."""
        return self._stop(at_once=True)

    def _stop(self, *, at_once: bool) -> str:
        del at_once  # a batch has no moment at which it could stop by itself
        if self._begin_to_cancel():
            self._cancel_jobs()
        return str(self._state)

    def _cancel_jobs(self) -> None:
        """Cancel what is running until the run has ended: a job may be about to start."""
        self._host.cancel()
        while not self._done.wait(CANCEL_SECONDS):
            self._host.cancel()

    def _begin_to_cancel(self) -> bool:
        """Note that the run shall end; False if it has ended already."""
        with self._deciding:
            if self._done.is_set():
                return False
            self._cancelled = True
            self._state = PipelineState.CANCELLING
            return True

    def metrics(self) -> FnApiMetrics:
        """Give the user's metrics."""
        return FnApiMetrics(self._outcome.monitoring_infos, user_metrics_only=True)

    def monitoring_metrics(self) -> FnApiMetrics:
        """Give all metrics, the runner's own too."""
        return FnApiMetrics(self._outcome.monitoring_infos, user_metrics_only=False)

    @property
    def _monitoring_infos_by_stage(self) -> dict[str, list[Any]]:
        """What Beam's local runner keeps under this name, and tools built for it read.

        The empty name stands for the pipeline as a whole, of which nothing is measured.
        """
        return {"": [], **self._outcome.monitoring_infos}

    def monitoring_infos(self) -> list[Any]:
        """Give Beam's monitoring infos, as portable runners do."""
        return [info for infos in self._outcome.monitoring_infos.values() for info in infos]


class StreamResult(HeadraceResult):
    """A running or finished streaming pipeline."""

    def __init__(
        self,
        plan: Plan,
        host: Host,
        settings: Settings,
        progress: str,
        frames: Frames,
        options: StreamOptions,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(plan, host, settings, progress, frames)
        self._stream = Stream(plan, host, settings, frames, options, clock)
        self._stopping = False
        self._kept = options.checkpoint
        self._page = options.page
        self.page_url = ""  # of the live page; empty: there is none

    def _work(self) -> None:
        from headrace.engine.stream_progress import following

        with self._telling() as watchers:
            self._stream.watchers += watchers
            with self._paged(), following(self._stream, self.plan, self._progress):
                ended = self._stream.run()
            if self._stopping and not ended:
                msg = "a stop was requested"
                raise RuntimeError(msg)

    @contextmanager
    def _paged(self) -> Iterator[None]:
        """Serve the live page while the block runs, if it was asked for."""
        if self._page is None:
            yield
            return
        from headrace.ui.serving import watching  # not loaded by runs without a page

        with watching(self._stream, self.plan, self._page) as url:
            self.page_url = url
            yield

    def _what_is_kept(self) -> str:
        epoch = self._stream.status.epoch
        where = "before its first epoch" if epoch < 0 else f"after epoch {epoch}"
        if not self._kept:
            return f"stopped {where}; without --checkpoint, no state is kept"
        return f"stopped {where}; to go on: --checkpoint={_near(self._kept)}"

    def _stop(self, *, at_once: bool) -> str:
        if self._begin_to_cancel() or (at_once and self._stopping):
            self._stopping = True
            self._stream.stop()
            if at_once:
                self._cancel_jobs()
            if not self._done.wait(HINT_SECONDS):
                print(
                    "headrace: stopping after the epoch that is running; Ctrl-C stops it at once",
                    file=sys.stderr, flush=True,
                )
            self._wait()
        return str(self._state)

    def drain(self, duration: int | None = None) -> str:
        """End all sources, let windows close and timers fire, then finish.

        Args:
            duration: milliseconds to wait for the end; None: as long as it takes.
        """
        if not self._done.is_set():
            self._stream.drain()
        state = self.wait_until_finish(duration)
        # One that had stopped before, as --available_now does, still has windows open.
        if state == PipelineState.DONE and self._stream.ended:
            self._state = PipelineState.DRAINED
        return str(self._state)

    def _summary(self) -> str:
        what = f"{self.state}, a stream on {self.plan.shards} shards"
        status = self._stream.status
        if status.epoch >= 0:
            mark = moment(min((out for _, out in status.watermarks.values()), default=None))
            what += f", epoch {status.epoch}" + (f", watermark {mark}" if mark else "")
            what += f", state {status.state_rows:,} rows, {size(status.state_bytes)}"
        if self._failure is not None:
            what += f": {type(self._failure).__name__}: {self._failure}"
        return what

    def _step_lines(self) -> list[str]:
        rows = []
        for step in self.steps():
            mark = moment(step.watermark)
            rows.append(
                f"  {step.name}: {step.elements:,} elements, {step.busy_seconds:.1f} s busy"
                + (f", watermark {mark}" if mark else "")
            )
        return rows

    @property
    def stream_status(self) -> StreamStatus:
        """How the run stands after its last epoch: watermarks, sizes of state, epoch time."""
        return self._stream.status

    def steps(self) -> list[StepView]:
        """Say how each step stands after the last epoch; a rate is not known from one look."""
        from headrace.engine.stream_progress import step_views

        return step_views(self.plan, self._stream.status)

    @property
    def queries(self) -> Mapping[str, Any]:
        """Structured Streaming's queries, by the names of the reads whose DataFrames they follow.

        To look at: `recentProgress`, `lastProgress`. What ends them is `cancel` or `drain`.
        """
        return self._stream.queries

    def watermarks(self) -> dict[str, tuple[Timestamp, Timestamp]]:
        """Give for each step its input and output watermark after the last committed epoch.

        Steps that run in the first superstep are not there: they hold nothing back.
        """
        return {
            step: (Timestamp(micros=into), Timestamp(micros=out))
            for step, (into, out) in self._stream.status.watermarks.items()
        }

    def hot_keys(self) -> list[HotKey]:
        """Give the keys that had a large share of a combine's elements, the hottest first.

        Of combines that cannot be lifted before the exchange, as their triggers count or their
        panes carry the times of elements; those that are lifted do not mind a hot key.
        """
        return self._stream.status.skew.hot_keys(self.plan)

    def shard_elements(self) -> dict[str, list[int]]:
        """Give for each grouping how many elements have come to each shard.

        What was combined before it travelled counts once. One number far above the others is a
        hot key, or a few.
        """
        return self._stream.status.skew.by_shard(self.plan)

    def metrics(self) -> FnApiMetrics:
        """Give the user's metrics up to the last committed epoch."""
        return FnApiMetrics(self._stream.status.monitoring_infos, user_metrics_only=True)

    def monitoring_metrics(self) -> FnApiMetrics:
        """Give all metrics, the runner's own too."""
        return FnApiMetrics(self._stream.status.monitoring_infos, user_metrics_only=False)

    @property
    def _monitoring_infos_by_stage(self) -> dict[str, list[Any]]:
        return {"": [], **self._stream.status.monitoring_infos}

    def monitoring_infos(self) -> list[Any]:
        """Give Beam's monitoring infos, as portable runners do."""
        return [info for found in self._stream.status.monitoring_infos.values() for info in found]


def _near(location: str) -> str:
    """Give a folder as a user who is here would write it."""
    near = location if "://" in location else os.path.relpath(location)
    return min(near, location, key=len)
