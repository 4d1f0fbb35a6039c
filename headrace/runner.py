"""The front door: `SparkRunner`, its options, its result. Wires the compiler to the engine."""

from __future__ import annotations

import argparse
import logging
import math
import os
import sys
import tempfile
import threading
import uuid
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from apache_beam.internal import pickler
from apache_beam.options.pipeline_options import (
    PipelineOptions,
    SetupOptions,
    StandardOptions,
    TypeOptions,
)
from apache_beam.pipeline import PipelineVisitor
from apache_beam.pvalue import PCollection
from apache_beam.runners.pipeline_utils import group_by_key_input_visitor
from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiMetrics
from apache_beam.runners.runner import PipelineResult, PipelineRunner, PipelineState
from apache_beam.transforms import environments
from apache_beam.utils.timestamp import Timestamp

from headrace.compiler.cell_numbers import drop_cells
from headrace.compiler.compile import compile_pipeline, is_unbounded
from headrace.compiler.cross_language import refuse_java
from headrace.engine.batch import Outcome, run_batch
from headrace.engine.failures import show_all
from headrace.engine.gateway import show_spark_log
from headrace.engine.leftovers import remove_own_folders, sweep_folders
from headrace.engine.listening import ear
from headrace.engine.metrics import of_steps
from headrace.engine.packaging import Needs, check_files, provide
from headrace.engine.probe import is_local
from headrace.engine.replay import tell_steps
from headrace.engine.session import (
    Place,
    find_place,
    refuse_connect,
    session,
    shares_disk,
    start_session,
)
from headrace.engine.signals import ToldToEndError, say_end, told_to_end
from headrace.engine.spark_settings import Wish, listed, read_conf
from headrace.engine.standing import Standing, StreamOptions
from headrace.engine.stream import Stream
from headrace.errors import OptionError, PackagingError, UnsupportedTransformError
from headrace.io.file_shards import keep_shards
from headrace.io.frames import Frames, frames_of
from headrace.io.materialise import materialise
from headrace.io.preflight import check_sinks
from headrace.io.sources import ReadFromSpark
from headrace.plan.settings import Settings
from headrace.plan.step_names import plain_step
from headrace.plan.supersteps import Plan, step_names
from headrace.terminal.steps import StepView
from headrace.terminal.view import moment, size

#: What a user of this module may rely on; `session` makes the DataFrames a pipeline reads.
__all__ = [
    "HeadraceOptions", "HeadraceResult", "SparkRunner", "StreamResult", "session", "start_session",
]

_LOG = logging.getLogger(__name__)

#: How long a cancelled job may take before it is cancelled once more.
CANCEL_SECONDS = 0.5
#: After this time a user who waits for the end of an epoch is told so.
HINT_SECONDS = 3.0


def _positive(text: str) -> int:
    value = _whole(text)
    if value < 1:
        msg = f"{text} is not a whole number of 1 or more"
        raise argparse.ArgumentTypeError(msg)
    return value


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        msg = f"{text} is not a number of seconds, zero or more"
        raise argparse.ArgumentTypeError(msg)
    return value


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        msg = f"{text} is not a whole number"
        raise argparse.ArgumentTypeError(msg) from None


class HeadraceOptions(PipelineOptions):  # type: ignore[misc]
    """Options of headrace's SparkRunner."""

    @classmethod
    def _add_argparse_args(cls, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--spark_master", default=None,
            help="Where Spark runs when no session is at hand: local[N], local[*] (the default) or "
            "spark://host:port. An active session is used as it is.",
        )
        parser.add_argument(
            "--spark_conf", action="append", default=None, metavar="NAME=VALUE",
            help="A setting of Spark for a session that headrace starts; may be given several "
            "times. Comes before spark-defaults.conf and before headrace's own settings.",
        )
        parser.add_argument(
            "--spark_app_name", default=None,
            help="What the application is called in Spark's pages and logs. Default: headrace.",
        )
        parser.add_argument(
            "--spark_jars", action="append", default=None, metavar="FILES",
            help="Jar files for Spark's class path, with commas between them.",
        )
        parser.add_argument(
            "--spark_packages", action="append", default=None, metavar="COORDINATES",
            help="Maven coordinates of packages for Spark's class path, with commas between them.",
        )
        parser.add_argument(
            "--shards", type=_positive, default=None,
            help="Into how many slices the key space is cut, and so how many tasks run side by "
            "side. Default: the session's parallelism (its cores).",
        )
        parser.add_argument(
            "--super_tuple_bytes", type=_positive, default=65_536,
            help="How many bytes of elements travel in one row between supersteps. "
            "Default: 65536.",
        )
        parser.add_argument(
            "--max_bundle_elements", type=_whole, default=0,
            help="End a bundle after about this many elements, so that finish_bundle is called "
            "more often. Default: 0, one bundle per stage and shard.",
        )
        parser.add_argument(
            "--group_memory_mb", type=_positive, default=384,
            help="Memory a task uses for grouped values before they go to the local disk. "
            "Default: 384.",
        )
        parser.add_argument(
            "--no_slicing", action="store_true", default=False,
            help="Keep a partial for every sliding window instead of one for every slice of time "
            "that windows share. Slower; there to compare with. Default: slices.",
        )
        parser.add_argument(
            "--checkpoint", default="",
            help="Streaming: the folder (a path or a URI: s3://, gs://, abfss://, hdfs://, ...) "
            "where state is kept. "
            "A pipeline started again on it goes on where it was. Default: a folder of its own "
            "that ends with the run, so that nothing survives.",
        )
        parser.add_argument(
            "--trigger_interval", type=_seconds, default=0.0,
            help="Streaming: seconds between the beginnings of two batches of a streaming "
            "DataFrame. Default: 0, as fast as possible.",
        )
        parser.add_argument(
            "--available_now", action="store_true", default=False,
            help="Streaming: read what is there now, then stop; state stays for the next start.",
        )
        parser.add_argument(
            "--state_dir", default="",
            help="Streaming: where each machine keeps its copy of the state; {executor} in it "
            "stands for the executor, where several share a machine and must not share copies. "
            "Default: below the folder for temporary files.",
        )
        parser.add_argument(
            "--max_bundle_seconds", type=_seconds, default=1.0,
            help="Streaming: how long an unbounded splittable DoFn may run before its rest is put "
            "off to the next epoch. Default: 1.",
        )
        parser.add_argument(
            "--remove_later_epochs", action="store_true", default=False,
            help="Streaming: after an older copy of the checkpoint was restored, remove from the "
            "folders of WriteToSpark(path) the epochs that the copy does not know; their rows are "
            "written anew. Default: such a start is refused.",
        )
        parser.add_argument(
            "--max_retries", type=_whole, default=0,
            help="Streaming: how often an epoch is run again after an exception of your code or of "
            "a sink, with growing pauses; it starts from the state before it, so nothing is "
            "doubled. Default: 0, an exception ends the run. Lost workers are retried anyway.",
        )
        parser.add_argument(
            "--progress", choices=["auto", "rich", "plain", "off"], default="auto",
            help="How progress is shown: a bar in a terminal, plain lines elsewhere, or not at "
            "all. Default: auto.",
        )
        parser.add_argument(
            "--debug", action="store_true", default=False,
            help="Show an exception of your code with the frames of Beam and headrace, and what "
            "Spark logs of it. Default: your own frames, once.",
        )


class SparkRunner(PipelineRunner):  # type: ignore[misc]
    """Runs Beam pipelines on Spark through PySpark.

    With `spark`, the given session is used and left as it is; without, the active session is used,
    or one is started on `--spark_master`.

    Args:
        spark: the session; not one of Spark Connect, which has no `SparkContext`.
        drain: splittable DoFns leave out what they have not begun, as in a pipeline that is
            drained. To drain a stream that runs, call its result's `drain`.
    """

    def __init__(self, spark: Any | None = None, *, drain: bool = False) -> None:
        super().__init__()
        refuse_connect(spark)
        self._spark = spark
        self._drain = drain  # splittable DoFns truncate what they have not begun
        self._interactive = False

    def is_fnapi_compatible(self) -> bool:
        """Stages run through Beam's portable harness."""
        return True

    def is_interactive(self) -> None:
        """Beam's `InteractiveRunner` says by this call that it runs its pipelines here.

        It reads what a pipeline wrote as soon as `run` returns, and waits for nobody: so `run` has
        to wait, and sources without end are recorded or refused.
        """
        self._interactive = True

    def apply(self, transform: Any, input: Any, options: Any) -> Any:
        """Expand a transform; see to its number of files, and in a notebook that it ends."""
        refuse_java(transform)
        if self._interactive and isinstance(transform, ReadFromSpark):
            transform.record()
        keep_shards(transform)
        made = super().apply(transform, input, options)
        if self._interactive and isinstance(made, PCollection) and not made.is_bounded:
            step = plain_step(made.pipeline.transforms_stack[-1].full_label)
            msg = (
                f"{step}: makes a collection without end, and Beam's InteractiveRunner "
                "cannot look at one on headrace. Read a streaming DataFrame by ReadFromSpark, "
                "which is recorded for as long as ib.options.recording_duration says, or give the "
                "pipeline headrace's SparkRunner itself, with a sink, and look at what that holds"
            )
            raise UnsupportedTransformError(msg)
        return made

    def run_pipeline(self, pipeline: Any, options: Any) -> HeadraceResult:
        """Compile the pipeline and start it; the result can be waited for."""
        known = options.view_as(HeadraceOptions)
        if known.max_bundle_elements < 0:
            msg = f"--max_bundle_elements={known.max_bundle_elements}: must be 0 or more"
            raise OptionError(msg)
        if known.max_retries < 0:
            msg = f"--max_retries={known.max_retries}: must be 0 or more"
            raise OptionError(msg)
        materialise(pipeline)
        pipeline.visit(
            group_by_key_input_visitor(
                not options.view_as(TypeOptions).allow_non_deterministic_key_coders
            )
        )
        try:
            proto = pipeline.to_runner_api(
                default_environment=environments.EmbeddedPythonEnvironment.default()
            )
        except Exception as failure:
            pipeline.visit(_UnpicklableFinder(failure))
            raise
        result = self.run_proto(proto, options, frames_of(pipeline))
        if self._interactive:
            _wait(result)
        return result

    def run_proto(
        self, proto: Any, options: Any, frames: Frames | None = None
    ) -> HeadraceResult:
        """Run a portable pipeline; `frames` are the DataFrames it speaks of."""
        frames = (frames or Frames()).renamed(drop_cells(proto))
        known = options.view_as(HeadraceOptions)
        wish = _wish(known)
        tell_steps()
        # Before Spark starts: what cannot run is refused at no cost.
        streaming = options.view_as(StandardOptions).streaming or is_unbounded(proto)
        plan = compile_pipeline(
            proto, shards=known.shards or 1, name=_name(options), drain=self._drain,
            streaming=streaming, slicing=not known.no_slicing,
        )
        if streaming:
            frames.check_epochs()
        needs, main_session = _needs(options), _main_session(options)
        check_files(needs)
        sweep_folders()
        place = find_place(self._spark or frames.session(), wish, known.progress)
        check_sinks(
            frames.sinks, place.session, streaming=streaming, own_disk=shares_disk(place.parent)
        )
        provide(needs, place.parent.sparkContext)
        if known.shards is None:  # nothing else in a plan depends on their number
            plan = replace(plan, shards=place.parallelism)
        settings = Settings(
            super_tuple_bytes=known.super_tuple_bytes,
            max_bundle_elements=known.max_bundle_elements,
            group_memory_bytes=known.group_memory_mb << 20,
            log_level=logging.getLogger().getEffectiveLevel(),
            pickle_library=options.view_as(SetupOptions).pickle_library,
            main_session=main_session,
            python_path=_python_path(place),
            folder=os.getcwd() if is_local(place.parent.sparkContext.master) else "",
            ear=_ear_of(place),
            run=f"headrace-{uuid.uuid4().hex[:12]}",
        )
        result = (
            StreamResult(plan, place, settings, known.progress, frames, _stream_options(known))
            if streaming
            else HeadraceResult(plan, place, settings, known.progress, frames)
        )
        if known.debug:
            result.show_all()
        result.start()
        return result


def _wish(known: Any) -> Wish:
    return Wish(
        master=known.spark_master,
        app_name=known.spark_app_name,
        conf=read_conf(known.spark_conf or ()),
        jars=listed(known.spark_jars or ()),
        packages=listed(known.spark_packages or ()),
    )


def _wait(result: HeadraceResult) -> None:
    """Wait where nobody else will, and stop the work if the user stops waiting."""
    try:
        result.wait_until_finish()
    except KeyboardInterrupt:
        result.cancel()
        raise


def _near(place: str) -> str:
    """Give a folder as a user who is here would write it."""
    near = place if "://" in place else os.path.relpath(place)
    return min(near, place, key=len)


def _stream_options(known: Any) -> StreamOptions:
    return StreamOptions(
        checkpoint=known.checkpoint,
        state_dir=known.state_dir,
        trigger_seconds=known.trigger_interval,
        available_now=known.available_now,
        bundle_seconds=known.max_bundle_seconds,
        remove_later_epochs=known.remove_later_epochs,
        max_retries=known.max_retries,
    )


class _UnpicklableFinder(PipelineVisitor):  # type: ignore[misc]
    """Finds the step whose function cannot be pickled; Beam's own error does not name it."""

    def __init__(self, failure: Exception) -> None:
        self._failure = failure

    def visit_transform(self, transform_node: Any) -> None:
        fn = getattr(transform_node.transform, "fn", None)
        if fn is None:
            return
        try:
            pickler.dumps(fn)
        except Exception as reason:  # noqa: BLE001 (a user's object may raise anything when it is pickled)
            msg = (
                f"{transform_node.full_label}: its {type(fn).__name__} cannot be pickled and so "
                f"not be sent to the workers: {reason}. Make what cannot be pickled (connections, "
                "open files, generators) in the DoFn's setup method, not in its constructor"
            )
            raise PackagingError(msg) from self._failure


def _name(options: Any) -> str:
    from apache_beam.options.pipeline_options import GoogleCloudOptions

    return options.view_as(GoogleCloudOptions).job_name or "pipeline"


def _python_path(place: Place) -> tuple[str, ...]:
    """Where the driver imports from; workers of a local session can import from there too."""
    if not is_local(place.parent.sparkContext.master):
        return ()
    return tuple(os.path.abspath(folder or os.curdir) for folder in sys.path)


def _ear_of(place: Place) -> str:
    """Where workers tell what they print and log; nowhere, if they are on other machines."""
    found = ear() if is_local(place.parent.sparkContext.master) else None
    return "" if found is None else found.path


def _needs(options: Any) -> Needs:
    asked = options.view_as(SetupOptions)
    return Needs(
        setup_file=asked.setup_file,
        requirements_file=asked.requirements_file,
        extra_packages=tuple(asked.extra_packages or ()),
    )


def _main_session(options: Any) -> bytes:
    """Give Beam's session file: what `__main__` registered, and with dill also what it holds."""
    asked = options.view_as(SetupOptions)
    try:
        pickler.set_library(asked.pickle_library)
    except ImportError as missing:
        msg = (
            f"--pickle_library={asked.pickle_library}: dill is not installed. Install "
            "apache-beam[dill] here and in the executors' Python, or leave the option out: the "
            "default, cloudpickle, needs no main session for functions defined in a script"
        )
        raise PackagingError(msg) from missing
    if not asked.save_main_session:
        return b""
    with tempfile.TemporaryDirectory(prefix="headrace-session-") as folder:
        path = Path(folder) / "session"
        try:
            pickler.dump_session(str(path))
        except Exception as failure:
            msg = (
                "--save_main_session: the main module cannot be pickled: "
                f"{type(failure).__name__}: {failure}. Move what cannot be pickled into a function "
                "or a module of its own, or leave the option out"
            )
            raise PackagingError(msg) from failure
        return path.read_bytes() if path.exists() else b""


class HeadraceResult(PipelineResult):  # type: ignore[misc]
    """A running or finished pipeline."""

    def __init__(
        self, plan: Plan, place: Place, settings: Settings, progress: str, frames: Frames
    ) -> None:
        super().__init__(PipelineState.STARTING)
        self._frames = frames
        self.plan = plan
        self._place = place
        self._settings = settings
        self._progress = progress
        self._group = settings.run or f"headrace-{uuid.uuid4().hex[:12]}"
        self._outcome = Outcome()
        self._failure: BaseException | None = None
        self._cancelled = False
        self._debug = False
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
        show_spark_log(self._place.parent)

    def _work(self) -> None:
        from headrace.engine.progress import watching

        with watching(self._place, self._group, self.plan, self._progress):
            self._outcome = run_batch(
                self.plan, self._place, self._settings, self._group,
                f"headrace: {self.plan.name}", self._frames,
            )

    def _run(self) -> None:
        failure: BaseException | None = None
        try:
            self._work()
        except BaseException as error:  # noqa: BLE001 (raised again where the user waits)
            failure = error
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
        return f"{self.plan.name}: {self._standing_now()}"

    @property
    def status(self) -> str:
        """How the run stands, in words: a line, and one for each step that has put elements out."""
        return "\n".join([str(self), *self._step_lines()])

    def _standing_now(self) -> str:
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
            with told_to_end():
                return self._await(duration)
        except (ToldToEndError, KeyboardInterrupt) as told:
            try:
                self._stop(at_once=False)
            except KeyboardInterrupt:
                self._stop(at_once=True)
            say_end(told, self._what_is_kept(), remove_own_folders)
            raise

    def _what_is_kept(self) -> str:
        return "the run was cancelled; a batch keeps no state, start it again"

    def _await(self, duration: int | None) -> str:
        self._done.wait(None if duration is None else duration / 1000)
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
        self._place.parent.sparkContext.cancelJobGroup(self._group)
        while not self._done.wait(CANCEL_SECONDS):
            self._place.parent.sparkContext.cancelJobGroup(self._group)

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
        place: Place,
        settings: Settings,
        progress: str,
        frames: Frames,
        options: StreamOptions,
    ) -> None:
        super().__init__(plan, place, settings, progress, frames)
        self._stream = Stream(plan, place, settings, frames, options, self._group)
        self._stopping = False
        self._kept = options.checkpoint

    def _work(self) -> None:
        from headrace.engine.stream_progress import following

        with following(self._stream, self.plan, self._progress):
            ended = self._stream.run()
        if self._stopping and not ended:
            msg = "told to stop"
            raise RuntimeError(msg)

    def _what_is_kept(self) -> str:
        epoch = self._stream.standing.epoch
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
            self._done.wait()
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

    def _standing_now(self) -> str:
        what = f"{self.state}, a stream on {self.plan.shards} shards"
        standing = self._stream.standing
        if standing.epoch >= 0:
            mark = moment(min((out for _, out in standing.watermarks.values()), default=None))
            what += f", epoch {standing.epoch}" + (f", watermark {mark}" if mark else "")
            what += f", state {standing.state_rows:,} rows, {size(standing.state_bytes)}"
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
    def standing(self) -> Standing:
        """How the run stands after its last epoch: watermarks, sizes of state, epoch time."""
        return self._stream.standing

    def steps(self) -> list[StepView]:
        """Say how each step stands after the last epoch; a rate is not known from one look."""
        from headrace.engine.stream_progress import step_views

        return step_views(self.plan, self._stream.standing)

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
            for step, (into, out) in self._stream.standing.watermarks.items()
        }

    def metrics(self) -> FnApiMetrics:
        """Give the user's metrics up to the last committed epoch."""
        return FnApiMetrics(self._stream.standing.monitoring_infos, user_metrics_only=True)

    def monitoring_metrics(self) -> FnApiMetrics:
        """Give all metrics, the runner's own too."""
        return FnApiMetrics(self._stream.standing.monitoring_infos, user_metrics_only=False)

    @property
    def _monitoring_infos_by_stage(self) -> dict[str, list[Any]]:
        return {"": [], **self._stream.standing.monitoring_infos}

    def monitoring_infos(self) -> list[Any]:
        """Give Beam's monitoring infos, as portable runners do."""
        return [info for found in self._stream.standing.monitoring_infos.values() for info in found]
