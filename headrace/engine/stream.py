"""The loop of a streaming run: decides by `epochs` what is next, and lets `epoch_run` do it.

Streaming DataFrames bring their epochs by themselves (Structured Streaming's `foreachBatch`), or
the loop here asks them (`own_feeds`); everything else (impulses, bounded DataFrames, test streams,
timers and residuals that are due) gets epochs from the loop alone. One lock keeps epochs apart. The
commit and its numbered steps are those of `epoch_run`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from headrace.engine.checkpoint.spark_log import problems
from headrace.engine.clock import Clock, ScriptClock, WallClock
from headrace.engine.epoch_run import EpochRunner
from headrace.engine.epochs import Action, Situation, next_action
from headrace.engine.failures import translate
from headrace.engine.host import Feeds, Host
from headrace.engine.opening import OwnFolder, Start, claimed_checkpoint, local_of, opened
from headrace.engine.outputs import Outputs
from headrace.engine.positions import Intake, Positions
from headrace.engine.recording import RunRecorder, Watcher
from headrace.engine.sources.queries import ENDING, EndingError
from headrace.engine.status import StreamOptions, StreamStatus, WhoAsks, by_step
from headrace.engine.tasks import epoch_tasks
from headrace.errors import CheckpointError, PlanError
from headrace.io.frames import Frames
from headrace.plan.clocks import MAX_TIME
from headrace.plan.operators import Role
from headrace.plan.settings import ColumnsMode, Settings
from headrace.plan.supersteps import Plan
from headrace.state.crash_points import Point, crash_point

#: The loop looks around at least so often; a requested stop must not wait longer.
LOOK_SECONDS = 0.2


class Stream:
    """One streaming run.

    Args:
        plan: what is run.
        host: where its tasks run.
        settings: limits for the tasks.
        frames: the DataFrames it reads, and its sinks.
        options: how it goes on.
        clock: what tells processing time; that of the test stream, if there is one, else the
            machine's, if not given.
    """

    def __init__(
        self,
        plan: Plan,
        host: Host,
        settings: Settings,
        frames: Frames,
        options: StreamOptions,
        clock: Clock | None = None,
    ) -> None:
        self._plan = plan
        self._frames = frames
        self._options = options
        outputs = Outputs(
            plan, frames, host.session, shared_disk=host.shares_disk,
            checkpoint=options.checkpoint,
        )
        self._start = Start(
            plan=plan, host=host, outputs=outputs, frames=frames, options=options,
            tasks=epoch_tasks(plan, settings, outputs.schemas, outputs.direct),
            clock=clock or (ScriptClock() if plan.scripts else WallClock()),
        )
        self._lock = threading.RLock()
        self._wake = threading.Event()
        self._no_pause = threading.Event()  # nobody is waited for any more
        if plan.ordered or settings.columns is ColumnsMode.OFF:
            # The order is that of Spark's partitions; rows as objects come from Spark.
            options = replace(options, who_asks=WhoAsks.SPARK)
        self._feeds: Feeds = host.feeds(options, self.look)
        self._idle = threading.Condition()
        self._idle_looks = 0  # how often the loop has found nothing to do
        self._stop_requested = False
        self._drain_requested = False
        self._failure: BaseException | None = None
        self._epochs: EpochRunner | None = None  # once the checkpoint is open
        self.ended = False  # the pipeline has come to its end; else it was stopped, or runs
        self.on_epoch: Callable[[StreamStatus], None] = lambda _: None
        self.watchers: list[Watcher] = []  # are told of each epoch

    # -- from outside

    @property
    def status(self) -> StreamStatus:
        """What the run shows of itself after its last epoch."""
        return StreamStatus() if self._epochs is None else self._epochs.status

    @property
    def queries(self) -> Mapping[str, Any]:
        """What brings the batches of streaming DataFrames, by the names of the reads."""
        return self._feeds.started

    def stop(self) -> None:
        """Stop between two epochs; state stays as the last epoch left it."""
        self._stop_requested = True
        self._no_pause.set()
        self._wake.set()

    def drain(self) -> None:
        """End all sources, let everything that waits come out, then finish."""
        self._drain_requested = True
        self._wake.set()

    def look(self) -> None:
        """Look around now: something may have come, or be due."""
        self._wake.set()

    def idle_looks(self, least: int = 0, seconds: float = 0.0) -> int:
        """Give how often the loop has found nothing to do; wait until it is so often, or a time."""
        with self._idle:
            self._idle.wait_for(lambda: self._idle_looks >= least, seconds)
            return self._idle_looks

    # -- the loop

    def run(self) -> bool:
        """Run until the end; give whether the pipeline has come to its end, or was stopped."""
        with ExitStack() as at_end:  # what is made last ends first
            epochs = self._open(at_end)
            while True:
                self._listen()
                action = next_action(self._situation())
                # After the situation was looked at: a query that is over there has failed by now,
                # if it has failed at all.
                self._raise_failure()
                if action in (Action.FINISH, Action.STOP):
                    break
                self._perform(action)
            self._end_feeds(epochs)
            self._raise_failure()
            epochs.end_stages()  # beside the last publication: both take a job's time
            epochs.publishing.wait()
            self.ended = action is Action.FINISH
            return self.ended

    def _open(self, at_end: ExitStack) -> EpochRunner:
        location = self._options.checkpoint
        if not location:
            own = OwnFolder()
            at_end.callback(own.remove)
            location = own.location
        at_end.callback(self._start.host.close)
        checkpoint = claimed_checkpoint(self._start, location)
        if not self._options.checkpoint:  # copies of a checkpoint that ends are of no use
            at_end.callback(local_of(checkpoint, self._options).remove)
        at_end.callback(checkpoint.close)
        at_end.callback(self._feeds.abandon)
        at_end.callback(self._start.outputs.end_epochs)
        for read in self._frames.reads.values():
            if read.watcher is not None:
                at_end.callback(read.watcher.close)
        found = opened(self._start, checkpoint, self._pause)
        self._epochs = EpochRunner(
            found.run, found.held, found.status, wake=self._wake,
            stop_requested=lambda: self._stop_requested,
        )
        if self.watchers:
            infos = found.status.monitoring_infos
            self._epochs.recorder = RunRecorder(self._plan, self.watchers, infos)
        at_end.callback(self._epochs.publishing.abandon)
        at_end.callback(self._no_pause.set)
        at_end.callback(self._epochs.end_stages)
        self._epochs.publish()  # what counts and was not made known before a crash
        return self._epochs

    def _pause(self, seconds: float) -> None:
        """Wait; a run that is told to stop does not."""
        self._no_pause.wait(seconds)

    @property
    def _run(self) -> EpochRunner:
        assert self._epochs is not None, "the checkpoint is not open"
        return self._epochs

    @property
    def _positions(self) -> Positions:
        return self._run.held.positions

    def _raise_failure(self) -> None:
        """Raise what has failed since the last look: an epoch that a query brought, or a query."""
        if self._failure is None and (failure := self._feeds.failure()) is not None:
            self._failure = translate(failure)
        if self._failure is not None:
            raise self._failure
        self._run.publishing.raise_failure()

    def _listen(self) -> None:
        """See that streaming DataFrames are listened to, once all else has been read."""
        ending = self._stop_requested or self._drain_requested or self._positions.drained
        if self._failure is not None or ending or not self._positions.begun:
            return
        run = self._run.facts
        if run.sources.unread(self._positions):
            return
        for name in self._frames.streaming():
            if not self._feeds.is_started(name):
                self._feeds.listen(
                    name, self._frames.sources[name], run.checkpoint.files, run.logs[name],
                    self._arrived,
                )

    def _situation(self) -> Situation:
        held, run = self._run.held, self._run.facts
        now = run.clock.now()
        streaming = self._frames.streaming()
        listening = [n for n in streaming if self._feeds.is_listening(n)]
        marks = run.sources.watermarks(held.positions, now)
        return Situation(
            begun=held.positions.begun,
            unread=len(run.sources.unread(held.positions)),
            steps=run.sources.steps_left(held.positions),
            listening=len(listening),
            suspended=len(streaming) - len(listening),
            ended=held.ended and all(mark >= MAX_TIME for mark in marks.values()),
            wakeup=held.positions.next_wakeup(now),
            now=now,
            stop_requested=self._stop_requested,
            drain_requested=self._drain_requested,
            drains_when_read=self._options.drain_available,
            drained=held.positions.drained,
        )

    def _perform(self, action: Action) -> None:
        match action:
            case Action.BEGIN:
                self._epoch(Intake(first=True))
            case Action.READ:
                name = self._run.facts.sources.unread(self._positions)[0]
                self._epoch(Intake(frame=self._frames.sources[name], source=name, ending=True))
            case Action.STEP:
                with self._lock:
                    step = self._run.facts.sources.next_step(self._positions)
                    self._run.facts.clock.move(step.clock_micros)
                    self._epoch(Intake(arrivals=step.arrivals), step.positions)
            case Action.TICK:
                # What is due is due again after each epoch in some pipelines; rows come in between.
                if not (self._feeds.is_hungry() and self._feeds.bring()):
                    self._epoch(Intake())
            case Action.DRAIN:
                self._end_feeds(self._run)
                self._epoch(Intake(drain=True))
            case Action.STUCK:
                steps = by_step(self._plan, self._run.held.watermarks)
                held = sorted(step for step, (_, out) in steps.items() if out < MAX_TIME)
                msg = (
                    f"all sources have ended, but {', '.join(held) or 'a source'} holds its "
                    "watermark back and nothing is due there: a defect of headrace"
                )
                raise PlanError(msg)
            case _:
                if not self._feeds.bring():
                    self._wait()

    def _wait(self) -> None:
        """Wait until something is due, or somebody wakes the loop."""
        clock = self._run.facts.clock
        now = clock.now()
        wakeup = self._positions.next_wakeup(now)
        if clock.follows_script and wakeup is not None:
            clock.move(max(0, wakeup - now))  # nobody else moves this clock: it jumps
            return
        with self._idle:
            self._idle_looks += 1
            self._idle.notify_all()
        due = LOOK_SECONDS if wakeup is None else (wakeup - now) / 1e6
        rest = self._feeds.rest()
        self._wake.wait(max(0.0, min(LOOK_SECONDS, due, LOOK_SECONDS if rest is None else rest)))
        self._wake.clear()

    def _epoch(self, intake: Intake, positions: Positions | None = None) -> None:
        with self._lock:
            self._run.run(intake, positions)
            self.on_epoch(self.status)

    # -- streaming DataFrames

    def _arrived(self, name: str, asked: Callable[[], Any], batch_id: int) -> None:
        """Run the epoch of one of Spark's batches; called by Spark."""
        with self._lock:
            if self._feeds.closing or self._failure is not None:
                # Neither counted nor lost: Spark brings it again at the next start.
                raise EndingError(ENDING)
            last = self._positions.batches.get(name, -1)
            try:
                if batch_id not in (last, last + 1):
                    raise self._gap(name, last, batch_id)
                if batch_id == last:
                    self._check_same(name)
                    return  # it counts already: the crash came between our commit and Spark's
                rows, ends = self._feeds.promised(name), self._ends_with(name)
                self._epoch(
                    Intake(frame=asked(), source=name, batch=batch_id, rows=rows, last=ends)
                )
            except BaseException as failure:  # noqa: BLE001 (told to the loop, which raises it)
                self._failure = failure
                self._wake.set()
                # The run raises it; Spark, which would log it, need only know that it shall stop.
                msg = f"{ENDING}: {type(failure).__name__}: {failure}"
                raise EndingError(msg) from None
        self._wake.set()

    def _ends_with(self, name: str) -> bool:
        """Whether all sources end with the batch that has come: no epoch need be run for that."""
        run = self._run.facts
        if not self._options.drain_available or run.sources.steps_left(self._positions):
            return False
        if any(operator.role is Role.SPLITTABLE for operator in run.plan.operators):
            return False  # what it puts off in this epoch a drain has to cut
        started = map(self._feeds.is_started, self._frames.streaming())
        return all(started) and self._feeds.is_last(name)

    def _check_same(self, name: str) -> None:
        """See that a batch that Spark brings again is the one that counts."""
        record = self._positions.logs.get(name)
        files = self._run.facts.checkpoint.files
        if record is not None and (found := problems(files, record)):
            msg = f"{name}: {found[0]}"
            raise CheckpointError(msg)

    def _gap(self, name: str, last: int, batch_id: int) -> CheckpointError:
        run = self._run.facts
        what = (
            "the rows between would be lost. A manifest was removed"
            if batch_id > last
            else "what it calls by old numbers may be other rows. Its log was cut back"
        )
        return CheckpointError(
            f"{name}: Spark goes on with batch {batch_id}, but the newest manifest of checkpoint "
            f"{run.checkpoint.files.location} counts its batches up to {last}: {what}, or "
            f"{run.checkpoint.files.below(run.logs[name])} is of another run. Restore what was "
            "removed, or remove the whole checkpoint folder and the sink's rows to begin anew"
        )

    def _end_feeds(self, epochs: EpochRunner) -> None:
        with self._lock:  # no epoch is running; none begins from here on
            self._feeds.closing = True
        self._feeds.end()
        crash_point(Point.AFTER_RETURN, epochs.next_epoch - 1)
