"""Runs one epoch of a stream: tries it, tries again, commits.

The commit of an epoch, with a crash test for each gap:
1. Spark has logged the offsets of its batch (if the epoch has one).
2. The tasks write their change logs; nothing names them yet.
3. The sinks take the epoch's rows, under its number.
4. The manifest is created. This is the commit. Then sinks publish what they have set aside.
5. `foreachBatch` returns and Spark logs its own commit.
What step 4 publishes goes on while the next epoch runs; `publishing` says how far.
The gaps are the points of `headrace.state.crash_points`: `HEADRACE_CRASH=after_manifest:7` ends the
driver between steps 4 and 5 of epoch 7, `tests/lab/experiments/faults/test_crash_points.py` does so
for each.

What it decides is pure and elsewhere: `positions`, `reports`, `retries`, `status`.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from headrace.engine.checkpoint.checkpoints import Checkpoint
from headrace.engine.checkpoint.manifests import Manifest
from headrace.engine.checkpoint.spark_log import position_of, recorded
from headrace.engine.clock import Clock, WallClock
from headrace.engine.failures import translate
from headrace.engine.held import Held
from headrace.engine.host import Host
from headrace.engine.layouts import Outlook, Work, layout_of, task_seconds
from headrace.engine.metrics import dump, load
from headrace.engine.outputs import Handover, Outputs
from headrace.engine.parts import parts_of
from headrace.engine.positions import Intake, Positions, Sources, run_away
from headrace.engine.publishing import Publish, Publishing
from headrace.engine.recording import Counted, Laps, Recorder, Spent
from headrace.engine.reports import EpochSum, Infos, added_up, check_complete, gather
from headrace.engine.retries import Tries
from headrace.engine.skew import Skew, skew_after
from headrace.engine.status import StreamOptions, StreamStatus, by_step, shown_after
from headrace.engine.tasks import EpochTasks
from headrace.engine.traces import forget_traces, where_lost
from headrace.errors import CheckpointError, WorkerLostError
from headrace.io.kafka.offsets import partitions_in
from headrace.io.sources import Read
from headrace.plan.clocks import MAX_TIME
from headrace.plan.supersteps import Plan
from headrace.state.crash_points import Point, crash_point
from headrace.state.local import LocalFolder
from headrace.worker.entry import Epoch

_LOG = logging.getLogger(__name__)

#: Where tasks write down what they are about, after a worker was lost; see `traces`.
TRACES = "traces"
#: Attempts that workers are told of as confirmed; callbacks older than that are forgotten.
CONFIRMED = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What stays the same from the first epoch of a driver to its last."""

    plan: Plan
    host: Host
    tasks: EpochTasks
    sources: Sources
    outputs: Outputs
    options: StreamOptions
    checkpoint: Checkpoint
    clock: Clock
    name: str  # of this driver's run: workers keep their stages under it
    writer: str  # names the run for its sinks, after a restart too
    logs: Mapping[str, str]  # read -> the folder of its log below the checkpoint
    local: LocalFolder  # where the copies of the state partitions lie, on whichever machine
    outbox: str = ""  # where sinks keep what they publish later, as Spark knows it; empty: nowhere
    reads: Mapping[str, Read] = field(default_factory=dict)  # what is asked for beside rows
    pause: Callable[[float], None] = time.sleep  # waits, or until the run is told to stop

    @property
    def token(self) -> str:
        """Tells this driver from one on a copy of the checkpoint."""
        return self.name[:8]

    def handover(self, epoch: int, attempt: str, *, fresh: bool) -> Handover:
        """Say to the sinks which try at which epoch this is; `fresh`: none of the run counts."""
        return Handover(
            epoch=epoch, attempt=attempt, run=self.writer,
            incarnation=self.checkpoint.incarnation, token=self.token,
            fence=self.checkpoint.check_newest, fresh=fresh,
            remove_later=self.options.remove_later_epochs, outbox=self.outbox, pause=self.pause,
        )


class EpochRunner:
    """Runs epochs one after the other; never two at once, its caller sees to that.

    Args:
        run: what stays the same.
        held: what the stream has before the next epoch.
        status: what it has shown of itself so far.
        stop_requested: whether a failed epoch must not be tried again.
        wake: ends a pause before the next try.
    """

    def __init__(
        self, run: Run, held: Held, status: StreamStatus, *, stop_requested: Callable[[], bool],
        wake: threading.Event,
    ) -> None:
        self.facts = run
        self.held = held
        self.status = status
        self.tries = 0  # of this driver, at all epochs
        self._stages_ended_after = 0  # so many tries
        self.publishing = Publishing(wake.set)
        self.recorder = Recorder()  # tells nobody, unless another one is given
        self._work = Work()  # of this driver's epochs
        self._stop_requested = stop_requested
        self._wake = wake

    @property
    def next_epoch(self) -> int:
        """The epoch that is to be committed next."""
        return self.facts.checkpoint.next_epoch

    def run(self, intake: Intake, positions: Positions | None = None) -> None:
        """Run an epoch until it counts.

        Args:
            intake: what it takes in.
            positions: where the sources are before it, if a step has moved them.
        """
        before = self.held.positions if positions is None else positions
        at = self._position(intake)
        if at is not None and self.facts.reads[intake.source].names_partitions:
            names = partitions_in(at)
            before = before.expecting(intake.source, names, self.facts.clock.now())
        done = self._until_it_counts(intake, before)
        # Nothing from here on is done again by running the epoch again: it counts.
        if at is not None and (watcher := self.facts.reads[intake.source].watcher) is not None:
            watcher.reached(at)
        try:
            if self.facts.outputs.has_outbox:
                done = done.after_publishing(self.publishing.begin(self._publication()))
        finally:
            self.recorder.counted(done, self.held.positions)

    def publish(self) -> None:
        """Let sinks publish what epochs that count have set aside, and wait for it."""
        self._publication()()

    def _publication(self) -> Publish:
        """Give what publishes all that counts now; epochs that come to count later it leaves."""
        run = self.facts
        last = run.handover(self.next_epoch - 1, "", fresh=False)
        return partial(run.outputs.publish, last, self._gives_up)

    def _gives_up(self) -> bool:
        return self._stop_requested() or self.publishing.given_up

    def _position(self, intake: Intake) -> Any:
        """Give where the source of a batch is at its end, if anybody wants to know."""
        read = self.facts.reads.get(intake.source)
        if read is None or intake.batch is None:
            return None
        if not read.names_partitions and read.watcher is None:
            return None
        log = self.facts.logs[intake.source]
        return position_of(self.facts.checkpoint.files, log, intake.batch)

    def _until_it_counts(self, intake: Intake, before: Positions) -> Counted:
        tries = Tries(self.facts.options.max_retries)
        while True:
            traces = self._traces() if tries.lost else ""
            try:
                return self._try(intake, before, traces)
            except Exception as error:
                self._see_who_is_newest(error)
                if isinstance(error, WorkerLostError):
                    crash_point(Point.WORKER_LOST, self.next_epoch)
                pause = tries.pause_after(error)
                if self._stop_requested():
                    raise
                if pause is None:
                    raise tries.given_up(
                        self.next_epoch, error, where_lost(traces, str(error))
                    ) from error.__cause__
                self._count_retry(error, tries, pause)
            finally:
                forget_traces(traces)

    def _see_who_is_newest(self, error: Exception) -> None:
        """Raise a CheckpointError in place of a failure that a newer driver is the cause of.

        It takes folders away that this one writes to, and whatever fails for it would name them.
        """
        try:
            self.facts.checkpoint.check_newest()
        except CheckpointError as taken_over:
            raise taken_over from error
        except Exception as unknown:  # noqa: BLE001 (the checkpoint may be out of reach)
            _LOG.debug("nobody knows whether there is a newer driver: %s", unknown)

    def _traces(self) -> str:
        """Give a folder that the tasks' machines share with this one; empty if there is none."""
        files = self.facts.checkpoint.files
        return str(files.path(TRACES)) if files.is_local else ""

    def _count_retry(self, error: Exception, tries: Tries, pause: float) -> None:
        self.status = replace(self.status, retries=self.status.retries + 1)
        self.recorder.failed(self.next_epoch, error)
        _LOG.warning(
            "epoch %s failed and is run again in %.1f s (%s lost workers, %s exceptions of "
            "--max_retries=%s so far): %s", self.next_epoch, pause, tries.lost, tries.failed,
            tries.max_retries, error, exc_info=error,
        )
        self._wake.clear()
        if pause and not self._stop_requested():
            self._wake.wait(pause)

    def _try(self, intake: Intake, before: Positions, traces: str) -> Counted:
        run = self.facts
        self.tries += 1
        started, laps = WallClock().now(), Laps()
        epoch = self._epoch(intake, before, traces)
        title = f"headrace: {run.plan.name}: epoch {epoch.number}"
        layout, reason = layout_of(self._outlook(intake, lost=bool(traces)))
        _LOG.debug("epoch %s runs as %s: %s", epoch.number, layout.value, reason)
        crash_point(Point.BEFORE_TASKS, epoch.number, epoch.attempt)
        try:
            rows = run.host.run_epoch(
                run.tasks, epoch, run.plan.shards, intake.frame, whole=intake.whole, title=title,
                layout=layout,
            )
            run.outputs.keep(rows)
            reports, infos = gather(
                rows.reports(), [stage.name for stage in run.plan.stages()],
                self.status.monitoring_infos,
            )
            check_complete(reports, len(run.plan.supersteps), run.plan.shards)
            summed = added_up(reports)
            laps.lap("tasks")
            crash_point(Point.BEFORE_SINKS, epoch.number, epoch.attempt)
            run.outputs.deliver_epoch(
                run.handover(epoch.number, epoch.attempt, fresh=not before.begun),
                summed.outputs,
                {channel: summed.files.get(channel, []) for channel in epoch.direct},
            )
        except Exception as error:
            found = translate(error)
            if found is error:
                raise
            raise found from found.__cause__
        finally:
            run.outputs.close()
        laps.lap("sinks")
        skew = skew_after(self.status.skew, reports)
        self._commit(epoch, intake, before, summed, infos, skew, started)
        self._work = self._work.after(intake.source, task_seconds(reports))
        laps.lap("commit")
        parts = parts_of(epoch.number, started / 1e6, laps.seconds, reports, layout)
        self.status = self.status.with_epoch(parts, layout, reason)
        return Counted(epoch, Spent(laps, run.outputs.seconds, started), reports, infos)

    def _outlook(self, intake: Intake, *, lost: bool) -> Outlook:
        """Say what is known of an epoch before it starts."""
        run, status = self.facts, self.status
        fed = intake.frame is not None
        return Outlook(
            wish=run.options.small_epochs,
            near=run.host.is_one_machine and run.checkpoint.files.is_local,
            fed_in_order=fed and run.plan.ordered,
            known=not (intake.first or intake.drain or intake.last),
            elements=intake.rows if fed else sum(len(found) for _, _, found in intake.arrivals),
            shard_runs=run.plan.shards * len(run.plan.supersteps),
            state_rows=status.state_rows,
            state_bytes=status.state_bytes,
            seconds=self._work.of_late(intake.source),
            lost=lost,
        )

    def _epoch(self, intake: Intake, before: Positions, traces: str) -> Epoch:
        """Say to the tasks what they must know."""
        run, held = self.facts, self.held
        newest = run.checkpoint.newest
        now = run.clock.now()
        attempt = f"{run.checkpoint.incarnation}.{self.tries}"
        drain = intake.drain or before.drained
        marks = run.sources.watermarks(before, now)
        fed = intake.frame is not None
        return Epoch(
            run=run.name,
            number=self.next_epoch,
            incarnation=run.checkpoint.incarnation,
            attempt=attempt,
            confirmed=held.confirmed,
            now=now,
            first=intake.first,
            drain=drain,
            sources=dict.fromkeys(marks, MAX_TIME) if drain or intake.last else marks,
            clocks=run.sources.clocks(before),
            feeding=run.sources.channel_of_frame(intake.source) if fed else None,
            ending=intake.ending,
            last=intake.last,
            arrivals=intake.arrivals,
            chains={} if newest is None or held.former else newest.partitions,
            former=held.former,
            watermarks=held.watermarks,
            files=run.checkpoint.files,
            local=run.local,
            direct=run.outputs.folders(attempt),
            next_driver=run.checkpoint.next_driver,
            bundle_seconds=run.options.bundle_seconds,
            traces=traces,
        )

    def _commit(
        self, epoch: Epoch, intake: Intake, before: Positions, summed: EpochSum, infos: Infos,
        skew: Skew, started: int,
    ) -> None:
        run, held = self.facts, self.held
        checkpoint = run.checkpoint
        newest = checkpoint.newest
        partitions = dict(newest.partitions) if newest is not None and not held.former else {}
        watermarks = {**held.watermarks, **summed.watermarks}
        log = None
        if intake.batch is not None:
            log = recorded(
                checkpoint.files, run.logs[intake.source], intake.batch,
                before.logs.get(intake.source),
            )
        after = before.after(intake, summed.highs, epoch.now, wakeup=summed.wakeup, log=log)
        manifest = checkpoint.manifest(
            partitions={**partitions, **summed.partitions},
            watermarks={f"{stage}/{shard}": pair for (stage, shard), pair in watermarks.items()},
            sources=after.record(run.clock.now(), run.writer),
            metrics=dump(infos),
            batches=after.batches,
            logs=after.logs,
        )
        crash_point(Point.AFTER_SINKS, epoch.number, epoch.attempt)
        try:
            checkpoint.commit(manifest)
        except OSError as error:
            msg = (
                f"the manifest of epoch {epoch.number} cannot be written: {error}. The epoch "
                "before is whole; make room or mend the folder, and start the pipeline again"
            )
            raise CheckpointError(msg) from error
        crash_point(Point.AFTER_MANIFEST, epoch.number, epoch.attempt)
        self._warn_of_time(held.positions, after, epoch.now)
        self.held = Held(
            positions=after,
            watermarks=watermarks,
            confirmed=(*held.confirmed, epoch.attempt)[-CONFIRMED:],
            callbacks=held.callbacks + summed.finalisers,
        )
        checkpoint.sweep()
        self.status = shown_after(
            self.status, epoch=epoch.number, seconds=(WallClock().now() - started) / 1e6,
            summed=summed, watermarks=by_step(run.plan, watermarks), infos=infos, skew=skew,
        )

    def _warn_of_time(self, before: Positions, after: Positions, now: int) -> None:
        """Say once, if a source's watermark has run away from the wall clock."""
        if self.facts.clock.follows_script:
            return
        for name in run_away(before, after, now):
            _LOG.warning(
                "%s: a row's event time has moved the watermark more than a day ahead of the "
                "clock; rows of today are late from now on. Give the watermark policy a limit: "
                "BoundedOutOfOrderness(..., max_ahead=seconds)", name,
            )

    def end_stages(self) -> None:
        """Run the callbacks that still wait; after a failure too: the epochs before it count.

        Asked again it does nothing, unless epochs have run since.
        """
        if self.tries == self._stages_ended_after:
            return
        self._stages_ended_after = self.tries
        try:
            self.facts.host.end_stages(self.facts.name, self.held.confirmed)
        except Exception as error:  # noqa: BLE001 (the session may be gone, and nobody is promised a callback)
            level = logging.WARNING if self.held.callbacks else logging.DEBUG
            _LOG.log(level, "callbacks of committed epochs have not been run: %s", error)


def first_status(manifest: Manifest, plan: Plan, held: Held) -> StreamStatus:
    """Say how a run stands that goes on after the epoch of a manifest."""
    return StreamStatus(
        epoch=manifest.epoch, monitoring_infos=load(manifest.metrics),
        watermarks=by_step(plan, held.watermarks),
    )
