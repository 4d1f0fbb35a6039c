"""Runs a streaming pipeline: epoch after epoch, each one Spark job and one commit.

Performs what `epochs` decides. Streaming DataFrames bring their epochs by Structured Streaming's
`foreachBatch`; everything else (impulses, bounded DataFrames, test streams, timers and residuals
that are due) gets epochs from the loop here. One lock keeps epochs apart.

The commit of an epoch, with a crash test for each gap:
1. Spark has logged the offsets of its batch (if the epoch has one).
2. The tasks write their change logs; nothing names them yet.
3. The sinks take the epoch's rows, under its number.
4. The manifest is created. This is the commit.
5. `foreachBatch` returns and Spark logs its own commit.
The gaps are the points of `headrace.state.crash_points`: `HEADRACE_CRASH=after_manifest:7` ends the
driver between steps 4 and 5 of epoch 7, `tests/chaos/test_crash_points.py` does so for each.
"""

from __future__ import annotations

import logging
import os
import tempfile
import threading
import uuid
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from headrace.engine.checkpoints import Checkpoint
from headrace.engine.clock import ScriptClock, WallClock
from headrace.engine.epochs import Action, Situation, next_action
from headrace.engine.failures import translate
from headrace.engine.identity import describe
from headrace.engine.inputs import input_of
from headrace.engine.launch import end_stages, epoch_tasks, homes, launch_epoch
from headrace.engine.leftovers import note_process
from headrace.engine.manifests import (
    LogRecord,
    Manifest,
    SourceRecord,
    former_units,
    watermarks_of,
)
from headrace.engine.metrics import dump, load
from headrace.engine.outputs import Handover, Outputs
from headrace.engine.probe import is_local
from headrace.engine.queries import ENDING, EndingError, Queries
from headrace.engine.reports import Infos, check_complete, gather
from headrace.engine.retries import Tries
from headrace.engine.session import Place, own_query, shares_disk
from headrace.engine.spark_folders import see_that_spark_can_open, spark_folder
from headrace.engine.spark_log import problems as log_problems
from headrace.engine.spark_log import recorded
from headrace.engine.standing import Standing, StreamOptions, by_step
from headrace.engine.traces import forget_traces, where_lost
from headrace.errors import CheckpointError, PlanError, WorkerLostError
from headrace.io.frames import Frames
from headrace.plan.clocks import MAX_TIME, MIN_TIME, SourceClock
from headrace.plan.ids import StageId
from headrace.plan.scripts import ScriptStep, StepKind
from headrace.plan.settings import Settings
from headrace.plan.sources import Frame, Impulse, ScriptOutput, Source
from headrace.plan.supersteps import Plan
from headrace.state.crash_points import Point, crash_point
from headrace.state.files import shown
from headrace.state.local import EXECUTOR, LocalPlace, sweep_copies
from headrace.state.private import lets_in
from headrace.worker.entry import REPORT_CHANNEL, Epoch, ShardReport

_LOG = logging.getLogger(__name__)

#: The file of a checkpoint that names the run for its sinks.
WRITER = "writer"
#: Where tasks write down what they are about, after a worker was lost; see `traces`.
TRACES = "traces"
#: Attempts that workers are told of as confirmed; callbacks older than that are forgotten.
CONFIRMED = 64
#: The loop looks around at least so often; a told stop must not wait longer.
LOOK_SECONDS = 0.2
#: A watermark further ahead of the clock than a day is told of.
FAR_AHEAD = 86_400_000_000


class Stream:
    """One streaming run."""

    def __init__(
        self,
        plan: Plan,
        place: Place,
        settings: Settings,
        frames: Frames,
        options: StreamOptions,
        group: str,
        clock: Any = None,
    ) -> None:
        self._plan = plan
        self._place = place
        self._frames = frames
        self._options = options
        self._group = group
        self._outputs = Outputs(
            plan, frames, place.parent, shared_disk=shares_disk(place.parent)
        )
        self._tasks = epoch_tasks(plan, settings, self._outputs.schemas, self._outputs.direct)
        self._clock: Any = clock or (ScriptClock() if plan.scripts else WallClock())
        self._run = uuid.uuid4().hex
        self._token = self._run[:8]  # tells this driver from one on a copy of the checkpoint
        self._own_folder: tempfile.TemporaryDirectory[str] | None = None
        self._checkpoint: Checkpoint | None = None
        self._lock = threading.RLock()
        self._wake = threading.Event()
        self._told_to_stop = False
        self._told_to_drain = False
        self._drained = False
        self._begun = False  # the first epoch is committed
        self._failure: BaseException | None = None
        self.ended = False  # the pipeline has come to its end; else it was stopped, or runs
        self._queries = Queries(options)
        self._channels: dict[Source, int] = {}
        for index, channel in enumerate(plan.channels):
            if channel.source is not None:
                self._channels[channel.source] = index
        self._clocks: dict[str, SourceClock] = {}  # by the frame's name
        self._read: set[str] = set()  # bounded frames that were read
        self._steps = {script.name: 0 for script in plan.scripts}
        self._marks: dict[ScriptOutput, int] = {}  # watermarks that test streams have told
        self._wakeup: int | None = None
        self._watermarks: dict[tuple[int, int], tuple[int, int]] = {}
        self._former: dict[int, tuple[Any, ...]] = {}
        self._confirmed: tuple[str, ...] = ()
        self._batches: dict[str, int] = {}
        self._logs: dict[str, LogRecord] = {}  # what these batches were
        self._tries = 0
        self._sticky = False
        self._homes: Any = None  # cached while the run goes on
        self._callbacks = 0
        # Names the run for sinks that count epochs: a new one for each new checkpoint, even at an
        # old path, else a sink would take the new run's epochs for those it has.
        self._writer = uuid.uuid4().hex
        self.standing = Standing()
        self.on_epoch: Callable[[Standing], None] = lambda _: None

    # -- told from outside

    @property
    def queries(self) -> Mapping[str, Any]:
        """Spark's queries that were started, by the names of their DataFrames."""
        return self._queries.started

    def stop(self) -> None:
        """Stop between two epochs; state stays as the last epoch left it."""
        self._told_to_stop = True
        self._wake.set()

    def drain(self) -> None:
        """End all sources, let everything that waits come out, then finish."""
        self._told_to_drain = True
        self._wake.set()

    # -- the loop

    def run(self) -> bool:
        """Run until the end; give whether the pipeline has come to its end, or was stopped."""
        try:
            self._open()
            while True:
                self._listen()
                action = next_action(self._situation())
                # After the situation was looked at: a query that is over there has failed by now,
                # if it has failed at all.
                self._raise_failure()
                if action in (Action.FINISH, Action.STOP):
                    break
                self._perform(action)
            self._end_queries()
            self._raise_failure()
            self.ended = action is Action.FINISH
            return self.ended
        finally:
            self._end_stages()
            self._close()

    def _open(self) -> None:
        place = self._options.checkpoint
        if not place:
            self._own_folder = tempfile.TemporaryDirectory(
                prefix="headrace-checkpoint-", ignore_cleanup_errors=True
            )
            place = self._own_folder.name
            note_process(Path(place))
        if "://" not in place:
            place = os.path.abspath(place)  # Spark's own folder need not be the driver's
        if self._frames.streaming():
            see_that_spark_can_open(self._place.session, place)
        facts = self._plan.facts
        description = describe(
            self._plan, coders=facts.coders, windowings=facts.windowings,
            state={StageId(stage): cells for stage, cells in facts.state.items()},
            words=facts.words,
            inputs={name: input_of(self._frames.sources[name])
                    for name in self._frames.streaming()},
        )
        self._checkpoint = Checkpoint.open(
            place, description.to_json(), now=WallClock().now()
        )
        self._prepare_local()
        # Kept before the first epoch is: sinks that took it before a crash must know us again.
        self._checkpoint.files.create(WRITER, self._writer.encode())
        self._writer = self._checkpoint.files.read(WRITER).decode()
        for name, read in self._frames.reads.items():
            self._clocks[name] = read.clock()
        given_away = self._checkpoint.shut_out(self._nothing_yet)
        if self._checkpoint.newest is not None:
            self._resume(self._checkpoint.newest)
        self._check_logs()
        self._outputs.prepare(self._handover(self._number(), ""))
        for epoch in given_away:
            self._outputs.deliver_nothing(self._handover(epoch, f"{self._token}.{epoch}"))
        # Where all workers share a machine every shard is at home everywhere.
        self._sticky = not is_local(self._place.parent.sparkContext.master)
        if self._sticky:
            self._homes = homes(self._place.session, self._plan.shards).persist()
            self._homes.count()

    def _nothing_yet(self) -> Manifest:
        """Make the manifest of a run that has not done anything."""
        assert self._checkpoint is not None
        return self._checkpoint.manifest(
            units={}, watermarks={}, sources=self._sources(drained=False, wakeup=None), batches={}
        )

    def _check_logs(self) -> None:
        """See that Spark's logs are those that the manifest counts, before Spark reads them."""
        assert self._checkpoint is not None
        found = []
        for name in self._frames.streaming():
            folder, batch = f"spark/{self._log_of(name)}", self._batches.get(name, -1)
            # Without a record, as in a checkpoint of version 0.1 or a new one, the number must do.
            record = self._logs.get(name, LogRecord(folder=folder, batch=batch, sums={}))
            problems = log_problems(self._checkpoint.files, record)
            found += [f"{name}: {problem}" for problem in problems]
        if found:
            newest, place = self._checkpoint.newest, shown(self._checkpoint.files.place)
            which = "no manifest" if newest is None else f"the manifest of epoch {newest.epoch}"
            listed = "".join(f"\n  * {sentence}" for sentence in found)
            msg = (
                f"checkpoint {place} has {which}, and Spark's log in it does not fit; rows would "
                f"be lost or come twice:{listed}"
            )
            raise CheckpointError(msg)

    def _handover(self, epoch: int, attempt: str) -> Handover:
        assert self._checkpoint is not None
        return Handover(
            epoch=epoch, attempt=attempt, run=self._writer,
            incarnation=self._checkpoint.incarnation, token=self._token,
            fence=self._checkpoint.check_newest, fresh=not self._begun,
            remove_later=self._options.remove_later_epochs,
        )

    def _local(self) -> LocalPlace:
        """Say where the copies of the units lie, on whichever machine."""
        assert self._checkpoint is not None
        files = self._checkpoint.files
        return LocalPlace(
            state_dir=self._options.state_dir,
            checkpoint=files.path("") if files.is_local else files.place,
        )

    def _prepare_local(self) -> None:
        """Tidy up this machine's copies; where tasks run here, refuse a folder that is not safe."""
        local, here = self._local(), is_local(self._place.parent.sparkContext.master)
        if here and EXECUTOR not in self._options.state_dir:  # else only executors know its name
            local.open("")
        for base in local.bases():
            if not lets_in(base):
                sweep_copies(base, shared=bool(self._options.state_dir))

    def _resume(self, manifest: Manifest) -> None:
        told = manifest.sources
        now = told.now
        if isinstance(self._clock, ScriptClock):
            self._clock = ScriptClock(now)
        elif isinstance(self._clock, WallClock):
            # What is due was written down by the clock of the last driver, which may be ahead.
            self._clock = WallClock(now)
        for name, clock in told.clocks.items():
            if name in self._clocks:
                restored = self._clocks[name].restored(clock)
                self._clocks[name] = restored.resumed(self._clock.now())
        self._read = set(told.read)
        self._steps.update(told.steps)
        self._marks = dict(told.marks)
        self._wakeup = told.wakeup
        self._drained = told.drained
        self._begun = told.begun
        self._writer = told.writer
        self._logs = dict(manifest.logs)
        self._batches = dict(manifest.batches)
        self._former = former_units(manifest, self._plan.shards)
        self._watermarks = watermarks_of(manifest, self._plan.shards)
        self.standing = Standing(
            epoch=manifest.epoch, monitoring_infos=load(manifest.metrics),
            watermarks=by_step(self._plan, self._watermarks),
        )

    def _raise_failure(self) -> None:
        """Raise what has failed since the last look: an epoch that a query brought, or a query."""
        if self._failure is None and (failure := self._queries.failure()) is not None:
            self._failure = translate(failure)
        if self._failure is not None:
            raise self._failure

    def _listen(self) -> None:
        """See that the queries of the streaming DataFrames run, once all else has been read."""
        assert self._checkpoint is not None
        ending = self._told_to_stop or self._told_to_drain or self._drained
        if self._failure is not None or ending or not self._begun:
            return
        if all(r.streaming or n in self._read for n, r in self._frames.reads.items()):
            for name in self._frames.streaming():
                if not self._queries.is_started(name):
                    local = self._checkpoint.files.is_local
                    frame = own_query(self._place, self._frames.sources[name], local)
                    self._queries.listen(name, frame, self._folder_of(name), self._arrived)

    def _situation(self) -> Situation:
        assert self._checkpoint is not None
        begun = self._begun
        bounded = [n for n, r in self._frames.reads.items() if not r.streaming]
        streaming = self._frames.streaming()
        listening = [n for n in streaming if self._queries.is_listening(n)]
        ended = begun and all(out >= MAX_TIME for _, out in self._watermarks.values())
        ended = ended and all(self._source_mark(one) >= MAX_TIME for one in self._channels)
        return Situation(
            begun=begun,
            unread=len([n for n in bounded if n not in self._read]),
            steps=sum(len(s.steps) - self._steps[s.name] for s in self._plan.scripts),
            listening=len(listening),
            suspended=len(streaming) - len(listening),
            ended=ended,
            wakeup=self._next_wakeup(),
            now=self._clock.now(),
            told_to_stop=self._told_to_stop,
            told_to_drain=self._told_to_drain,
            drained=self._drained,
        )

    def _next_wakeup(self) -> int | None:
        now = self._clock.now()
        idle = [clock.next_idle(now) for clock in self._clocks.values()]
        return min((t for t in (self._wakeup, *idle) if t is not None), default=None)

    def _perform(self, action: Action) -> None:
        match action:
            case Action.BEGIN:
                self._epoch(first=True)
            case Action.READ:
                name = next(
                    n for n, r in self._frames.reads.items()
                    if not r.streaming and n not in self._read
                )
                self._epoch(frame=self._frames.sources[name], source=name, ending=True)
            case Action.STEP:
                script = next(
                    s for s in self._plan.scripts if self._steps[s.name] < len(s.steps)
                )
                self._step(script.name, script.coder_id, script.steps[self._steps[script.name]])
            case Action.TICK:
                self._epoch()
            case Action.DRAIN:
                self._end_queries()
                self._epoch(drain=True)
            case Action.STUCK:
                steps = by_step(self._plan, self._watermarks)
                held = sorted(step for step, (_, out) in steps.items() if out < MAX_TIME)
                msg = (
                    f"all sources have ended, but {', '.join(held) or 'a source'} holds its "
                    "watermark back and nothing is due there: a defect of headrace"
                )
                raise PlanError(msg)
            case _:
                wakeup = self._next_wakeup()
                seconds = LOOK_SECONDS
                if isinstance(self._clock, ScriptClock):
                    if wakeup is not None:  # nobody else moves this clock: it jumps to what is due
                        self._clock.move(max(0, wakeup - self._clock.now()))
                        return
                elif wakeup is not None:
                    seconds = max(0.0, min(seconds, (wakeup - self._clock.now()) / 1e6))
                self._wake.wait(seconds)
                self._wake.clear()

    def _step(self, name: str, coder_id: str, step: ScriptStep) -> None:
        arrivals: tuple[Any, ...] = ()
        marks, clock = dict(self._marks), self._clock.now()
        match step.kind:
            case StepKind.ELEMENTS:
                channel = self._channels.get(ScriptOutput(name, step.tag))
                if channel is not None:
                    arrivals = ((channel, coder_id, step.elements),)
            case StepKind.WATERMARK:
                marks[ScriptOutput(name, step.tag)] = step.micros
            case StepKind.CLOCK:
                clock += step.micros
        with self._lock:
            self._marks = marks
            self._steps[name] += 1
            if isinstance(self._clock, ScriptClock):
                self._clock.move(clock - self._clock.now())
            self._epoch(arrivals=arrivals, whole=bool(arrivals))

    # -- streaming DataFrames

    def _arrived(self, name: str, batch: Any, batch_id: int) -> None:
        """Run the epoch of one of Spark's batches; called by Spark."""
        with self._lock:
            if self._queries.closing or self._failure is not None:
                # Neither counted nor lost: Spark brings it again at the next start.
                raise EndingError(ENDING)
            last = self._batches.get(name, -1)
            try:
                if batch_id not in (last, last + 1):
                    raise self._gap(name, last, batch_id)
                if batch_id == last:
                    self._check_same(name)
                    return  # it counts already: the crash came between our commit and Spark's
                self._epoch(frame=batch, source=name, batch_id=batch_id)
            except BaseException as failure:  # noqa: BLE001 (told to the loop, which raises it)
                self._failure = failure
                self._wake.set()
                # The run raises it; Spark, which would log it, need only know that it shall stop.
                msg = f"{ENDING}: {type(failure).__name__}: {failure}"
                raise EndingError(msg) from None
        self._wake.set()

    def _check_same(self, name: str) -> None:
        """See that a batch that Spark brings again is the one that counts."""
        assert self._checkpoint is not None
        record = self._logs.get(name)
        if record is not None and (found := log_problems(self._checkpoint.files, record)):
            msg = f"{name}: {found[0]}"
            raise CheckpointError(msg)

    def _gap(self, name: str, last: int, batch_id: int) -> CheckpointError:
        assert self._checkpoint is not None
        what = (
            "the rows between would be lost. A manifest was removed"
            if batch_id > last
            else "what it calls by old numbers may be other rows. Its log was cut back"
        )
        return CheckpointError(
            f"{name}: Spark goes on with batch {batch_id}, but the newest manifest of checkpoint "
            f"{self._checkpoint.files.place} counts its batches up to {last}: {what}, or "
            f"{self._folder_of(name)} is of another run. Restore what was removed, or remove the "
            "whole checkpoint folder and the sink's rows to begin anew"
        )

    def _folder_of(self, name: str) -> str:
        assert self._checkpoint is not None
        folder = self._checkpoint.source_folder(self._log_of(name))
        return spark_folder(self._place.session, folder)

    def _log_of(self, name: str) -> str:
        return str(sorted(self._frames.reads).index(name))

    def _end_queries(self) -> None:
        with self._lock:  # no epoch is running; none begins from here on
            self._queries.closing = True
        self._queries.end()
        crash_point(Point.AFTER_RETURN, self._number() - 1)

    # -- one epoch

    def _epoch(
        self,
        *,
        first: bool = False,
        frame: Any = None,
        source: str = "",
        ending: bool = False,
        arrivals: tuple[Any, ...] = (),
        whole: bool = False,
        drain: bool = False,
        batch_id: int | None = None,
    ) -> None:
        with self._lock:
            tries = Tries(self._options.max_retries)
            while True:
                traces = self._traces() if tries.lost else ""
                try:
                    self._try(
                        first=first, frame=frame, source=source, ending=ending,
                        arrivals=arrivals, whole=whole or first, drain=drain or self._drained,
                        batch_id=batch_id, traces=traces,
                    )
                    return
                except Exception as error:
                    if isinstance(error, WorkerLostError):
                        crash_point(Point.WORKER_LOST, self._number())
                    pause = tries.pause_after(error)
                    if self._told_to_stop:
                        raise
                    if pause is None:
                        raise tries.given_up(
                            self._number(), error, where_lost(traces, str(error))
                        ) from error.__cause__
                    self._count_retry(error, tries, pause)
                finally:
                    forget_traces(traces)

    def _traces(self) -> str:
        """Give a folder that the tasks' machines share with this one; empty if there is none."""
        assert self._checkpoint is not None
        files = self._checkpoint.files
        return str(files.path(TRACES)) if files.is_local else ""

    def _count_retry(self, error: Exception, tries: Tries, pause: float) -> None:
        self.standing = replace(self.standing, retries=self.standing.retries + 1)
        _LOG.warning(
            "epoch %s failed and is run again in %.1f s (%s lost workers, %s exceptions of "
            "--max_retries=%s so far): %s", self._number(), pause, tries.lost, tries.failed,
            tries.max_retries, error, exc_info=error,
        )
        self._wake.clear()
        if pause and not self._told_to_stop:
            self._wake.wait(pause)

    def _number(self) -> int:
        assert self._checkpoint is not None
        return self._checkpoint.next_epoch

    def _try(
        self, *, first: bool, frame: Any, source: str, ending: bool, arrivals: tuple[Any, ...],
        whole: bool, drain: bool, batch_id: int | None, traces: str,
    ) -> None:
        assert self._checkpoint is not None
        newest = self._checkpoint.newest
        self._tries += 1
        now = self._clock.now()
        started = WallClock().now()
        attempt = f"{self._checkpoint.incarnation}.{self._tries}"
        epoch = Epoch(
            run=self._run,
            number=self._number(),
            incarnation=self._checkpoint.incarnation,
            attempt=attempt,
            confirmed=self._confirmed,
            now=now,
            first=first,
            drain=drain,
            sources={
                channel: MAX_TIME if drain else self._source_mark(source)
                for source, channel in self._channels.items()
            },
            clocks={
                self._channels[Frame(name)]: clock
                for name, clock in self._clocks.items()
                if Frame(name) in self._channels
            },
            feeding=self._channels[Frame(source)] if frame is not None else None,
            ending=ending,
            arrivals=arrivals,
            chains={} if newest is None or self._former else newest.units,
            former=self._former,
            watermarks=self._watermarks,
            files=self._checkpoint.files,
            local=self._local(),
            direct=self._outputs.folders(attempt),
            next_driver=self._checkpoint.next_driver,
            bundle_seconds=self._options.bundle_seconds,
            traces=traces,
        )
        session = self._place.session if frame is None else frame.sparkSession
        context = self._place.parent.sparkContext
        context.setJobGroup(
            self._group, f"headrace: {self._plan.name}: epoch {epoch.number}",
            interruptOnCancel=False,
        )
        crash_point(Point.BEFORE_TASKS, epoch.number, attempt)
        try:
            rows = launch_epoch(
                self._tasks, session, epoch, self._plan.shards, frame, whole, self._sticky
            )
            rows = self._outputs.keep(rows)
            # Where no sink wants rows, nothing but reports is left after the last superstep.
            told = rows
            if self._outputs.wants_rows:
                told = rows.where(f"channel = {REPORT_CHANNEL}")
            reports, infos = gather(
                [(row.seq, bytes(row.payload)) for row in told.collect()],
                [stage.name for stage in self._plan.stages()], self.standing.monitoring_infos,
            )
            check_complete(reports, len(self._plan.supersteps), self._plan.shards)
            counts: dict[int, int] = defaultdict(int)
            for report in reports:
                for channel, count in report.outputs.items():
                    counts[channel] += count
            crash_point(Point.BEFORE_SINKS, epoch.number, attempt)
            staged = {
                channel: [name for r in reports for name in r.files.get(channel, ())]
                for channel in epoch.direct
            }
            self._outputs.deliver_epoch(self._handover(epoch.number, attempt), counts, staged)
        except Exception as error:
            found = translate(error)
            if found is error:
                raise
            raise found from found.__cause__
        finally:
            self._outputs.close()
        self._commit(
            epoch, reports, infos, source=source, ending=ending, drain=drain, batch_id=batch_id,
            started=started,
        )

    def _commit(
        self, epoch: Epoch, reports: list[ShardReport], infos: Infos, *, source: str, ending: bool,
        drain: bool, batch_id: int | None, started: int,
    ) -> None:
        assert self._checkpoint is not None
        newest = self._checkpoint.newest
        units = dict(newest.units) if newest is not None and not self._former else {}
        watermarks = dict(self._watermarks)
        highs: dict[str, int] = {}
        for report in reports:
            if report.chain is not None:
                units[report.unit] = report.chain
            for stage, pair in report.watermarks.items():
                watermarks[stage, report.shard] = pair
            for partition, high in report.highs.items():
                highs[partition] = max(highs.get(partition, high), high)
        clocks, read, batches = dict(self._clocks), set(self._read), dict(self._batches)
        logs = dict(self._logs)
        for name, clock in clocks.items():
            clocks[name] = clock.seen(highs if name == source else {}, epoch.now)
        if source:
            if ending:
                clocks[source] = clocks[source].finished()
                read.add(source)
            if batch_id is not None:
                batches[source] = batch_id
                logs[source] = recorded(
                    self._checkpoint.files, f"spark/{self._log_of(source)}", batch_id,
                    logs.get(source),
                )
        if drain:
            clocks = {name: clock.finished() for name, clock in clocks.items()}
        wakeup = min((r.wakeup for r in reports if r.wakeup is not None), default=None)
        manifest = self._checkpoint.manifest(
            units=units,
            watermarks={f"{stage}/{shard}": pair for (stage, shard), pair in watermarks.items()},
            sources=self._sources(
                drained=drain or self._drained, wakeup=wakeup, clocks=clocks, read=read, begun=True
            ),
            metrics=dump(infos),
            batches=batches,
            logs=logs,
        )
        crash_point(Point.AFTER_SINKS, epoch.number, epoch.attempt)
        try:
            self._checkpoint.commit(manifest)
        except OSError as error:
            msg = (
                f"the manifest of epoch {epoch.number} cannot be written: {error}. The epoch "
                "before is whole; make room or mend the folder, and start the pipeline again"
            )
            raise CheckpointError(msg) from error
        crash_point(Point.AFTER_MANIFEST, epoch.number, epoch.attempt)
        self._warn_of_time(clocks, epoch.now)
        self._begun = True
        self._clocks, self._read, self._batches, self._logs = clocks, read, batches, logs
        self._watermarks, self._wakeup = watermarks, wakeup
        self._drained = drain or self._drained
        self._former = {}
        self._confirmed = (*self._confirmed, epoch.attempt)[-CONFIRMED:]
        self._callbacks += sum(r.finalisers for r in reports)
        self._checkpoint.sweep()
        held = [r for r in reports if r.unit]
        self.standing = replace(
            self.standing,
            epoch=epoch.number,
            epoch_seconds=(WallClock().now() - started) / 1e6,
            elements_late=self.standing.elements_late + sum(r.dropped for r in reports),
            rows_untimed=self.standing.rows_untimed + sum(r.untimed for r in reports),
            pushed_back=sum(r.pushed_back for r in reports),
            state_rows=sum(r.rows for r in held),
            state_bytes=sum(r.held_bytes for r in held),
            state_of_supersteps={
                step: sum(r.held_bytes for r in held if r.superstep == step)
                for step in {r.superstep for r in held}
            },
            restores=self.standing.restores + sum(r.restored for r in held),
            openings=self.standing.openings + len(held),
            watermarks=by_step(self._plan, self._watermarks),
            monitoring_infos=infos,
        )
        self.on_epoch(self.standing)

    def _warn_of_time(self, clocks: Mapping[str, SourceClock], now: int) -> None:
        """Say once, if a source's watermark has run away from the wall clock."""
        if isinstance(self._clock, ScriptClock):
            return
        for name, clock in clocks.items():
            if not clock.ended and clock.watermark(now) > now + FAR_AHEAD > self._clocks[
                name
            ].watermark(now):
                _LOG.warning(
                    "%s: a row's event time has moved the watermark more than a day ahead of the "
                    "clock; rows of today are late from now on. Give the watermark policy a limit: "
                    "BoundedOutOfOrderness(..., max_ahead=seconds)", name,
                )

    def _sources(
        self,
        *,
        drained: bool,
        wakeup: int | None,
        clocks: Mapping[str, SourceClock] | None = None,
        read: Collection[str] = (),
        begun: bool = False,
    ) -> SourceRecord:
        """Give what a manifest keeps of the sources."""
        known = self._clocks if clocks is None else clocks
        return SourceRecord(
            now=self._clock.now(),
            clocks={name: clock.to_json() for name, clock in known.items()},
            read=tuple(sorted(read)),
            steps=dict(self._steps),
            marks=dict(self._marks),
            wakeup=wakeup,
            drained=drained,
            begun=begun,
            writer=self._writer,
        )

    def _source_mark(self, source: Source) -> int:
        match source:
            case Frame(name):
                return self._clocks[name].watermark(self._clock.now())
            case ScriptOutput(name, _):
                (steps,) = (script.steps for script in self._plan.scripts if script.name == name)
                over = self._steps[name] >= len(steps)
                return MAX_TIME if over else self._marks.get(source, MIN_TIME)
            case Impulse():
                return MAX_TIME

    # -- the end

    def _end_stages(self) -> None:
        """Run the callbacks that still wait; after a failure too: the epochs before it count."""
        if not self._tries:
            return
        try:
            end_stages(
                self._place.session, self._run, self._confirmed, 2 * self._place.parallelism
            )
        except Exception as error:  # noqa: BLE001 (the session may be gone, and nobody is promised a callback)
            level = logging.WARNING if self._callbacks else logging.DEBUG
            _LOG.log(level, "callbacks of committed epochs have not been run: %s", error)

    def _close(self) -> None:
        self._queries.abandon()
        if self._checkpoint is not None:
            self._checkpoint.close()
        try:
            if self._homes is not None:
                self._homes.unpersist()
        except Exception as error:  # noqa: BLE001 (the session may be gone)
            _LOG.debug("the homes of the shards could not be forgotten: %s", error)
        if self._own_folder is not None:
            if self._checkpoint is not None:  # stores of a checkpoint that ends are of no use
                self._local().remove()
            self._own_folder.cleanup()
