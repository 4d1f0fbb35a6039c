"""The front door: `SparkRunner`. Wires the compiler to the engine."""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import uuid
from abc import ABC, abstractmethod
from dataclasses import replace
from pathlib import Path
from typing import Any

from apache_beam.internal import pickler
from apache_beam.options.pipeline_options import (
    SetupOptions,
    StandardOptions,
    TypeOptions,
)
from apache_beam.pipeline import PipelineVisitor
from apache_beam.pvalue import PCollection
from apache_beam.runners.pipeline_utils import group_by_key_input_visitor
from apache_beam.runners.runner import PipelineRunner
from apache_beam.transforms import environments

from headrace.compiler.compile import compile_pipeline, is_unbounded
from headrace.compiler.proto.cell_numbers import drop_cells
from headrace.compiler.proto.cross_language import refuse_java
from headrace.compiler.proto.element_types import note_element_types
from headrace.compiler.proto.file_names import files_named
from headrace.compiler.proto.row_types import row_types
from headrace.engine.leftovers import sweep_folders
from headrace.engine.listening import ear
from headrace.engine.replay import tell_steps
from headrace.engine.spark.jars import with_fetched
from headrace.engine.spark.packaging import check_files, provide
from headrace.engine.spark.probe import is_local
from headrace.engine.spark.session import (
    SparkTarget,
    find_target,
    session,
    start_session,
)
from headrace.engine.spark.waking import wake_workers
from headrace.engine.spark_host import SparkHost
from headrace.errors import (
    OptionError,
    PackagingError,
    UnsupportedTransformError,
)
from headrace.io.datasets import touched_by
from headrace.io.file_shards import keep_shards
from headrace.io.frames import Frames, frames_of
from headrace.io.kafka.beam_transforms import in_place_of as kafka_in_place_of
from headrace.io.materialise import materialise
from headrace.io.preflight import check_sinks
from headrace.io.sources import ReadFromSpark
from headrace.options import (
    HeadraceOptions,
    asked_outside,
    columns_mode,
    for_workers,
    needs_of,
    stream_options,
    wish_of,
)
from headrace.plan.datasets import Touched
from headrace.plan.settings import Settings
from headrace.plan.step_names import plain_step
from headrace.plan.supersteps import Plan
from headrace.quick_beam import reading_once
from headrace.results import HeadraceResult, StreamResult
from headrace.sql.beam_transform import in_place_of as sql_in_place_of
from headrace.telemetry.asked import Asked

#: What a user of this module may rely on; `session` makes the DataFrames a pipeline reads.
__all__ = [
    "HeadraceOptions", "HeadraceResult", "SparkRunner", "StreamResult", "session", "start_session",
]

_LOG = logging.getLogger(__name__)


class HeadraceRunner(PipelineRunner, ABC):  # type: ignore[misc]
    """What headrace does with a pipeline wherever its tasks run.

    Args:
        drain: splittable DoFns leave out what they have not begun.
    """

    def __init__(self, *, drain: bool = False) -> None:
        super().__init__()
        self._drain = drain
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
        """Expand a transform, or ours in its place; see to its files, and in a notebook its end."""
        ours = kafka_in_place_of(transform) or sql_in_place_of(transform)
        if ours is not None:
            # Beam's own would go into the proto by the expansion that it never had.
            of = next(iter(input.values())) if isinstance(input, dict) else input
            of.pipeline._current_transform().transform = ours  # noqa: SLF001 (no other door)
            transform = ours
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
        note_element_types(pipeline)
        pipeline.visit(
            group_by_key_input_visitor(
                not options.view_as(TypeOptions).allow_non_deterministic_key_coders
            )
        )
        try:
            with reading_once():
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

    @abstractmethod
    def run_proto(
        self, proto: Any, options: Any, frames: Frames | None = None
    ) -> HeadraceResult:
        """Run a portable pipeline; `frames` are the DataFrames it speaks of."""

    def compiled(
        self, proto: Any, options: Any, frames: Frames | None, shards: int
    ) -> tuple[Plan, Frames, bool]:
        """Compile a pipeline; give the plan, its DataFrames, and whether it is a streaming one."""
        frames = (frames or Frames()).renamed(drop_cells(proto))
        known = options.view_as(HeadraceOptions)
        streaming = options.view_as(StandardOptions).streaming or is_unbounded(proto)
        plan = compile_pipeline(
            proto, shards=shards, name=_name(options), drain=self._drain,
            streaming=streaming, slicing=not known.no_slicing, verify_traits=known.verify_traits,
            ordered=known.ordered or frames.ordered_sinks(),
        )
        if streaming:
            frames.check_epochs()
        return plan, frames, streaming


class SparkRunner(HeadraceRunner):
    """Runs Beam pipelines on Spark through PySpark.

    With `spark`, the given session is used and left as it is; without, the active session is used,
    or one is started on `--spark_master`.

    Args:
        spark: the session; one of Spark Connect runs batch pipelines.
        drain: splittable DoFns leave out what they have not begun, as in a pipeline that is
            drained. To drain a stream that runs, call its result's `drain`.
    """

    def __init__(self, spark: Any | None = None, *, drain: bool = False) -> None:
        super().__init__(drain=drain)
        self._spark = spark

    def run_proto(
        self, proto: Any, options: Any, frames: Frames | None = None
    ) -> HeadraceResult:
        """Run a portable pipeline; `frames` are the DataFrames it speaks of."""
        known = options.view_as(HeadraceOptions)
        wish, asked = wish_of(known), asked_outside(known)
        tell_steps()
        # Before Spark starts: what cannot run is refused at no cost.
        plan, frames, streaming = self.compiled(proto, options, frames, known.shards or 1)
        needs, main_session = needs_of(options), _main_session(options)
        # A session that is not known yet may be local; `provide` looks again.
        check_files(needs, may_lack_project=wish.master is None or is_local(wish.master))
        sweep_folders()
        wish = with_fetched(wish, frames.needs())
        target = find_target(self._spark or frames.session(), wish, known.progress)
        if streaming:  # there is a checkpoint to open, and a query to start, before the first task
            wake_workers(target)
        touched = touched_of(asked, proto, frames, target.parent)
        frames = frames.made(target.parent)
        check_sinks(
            frames.sinks, target.session, streaming=streaming, own_disk=target.door.shares_disk,
            sees_storage=target.door.sees_storage,
        )
        provide(needs, target.door)
        if known.shards is None:  # nothing else in a plan depends on their number
            plan = replace(plan, shards=target.door.parallelism)
        settings = Settings(
            super_tuple_bytes=known.super_tuple_bytes,
            max_bundle_elements=known.max_bundle_elements,
            group_memory_bytes=known.group_memory_mb << 20,
            merge_hot_keys=not known.no_hot_key_merging,
            columns=columns_mode(known),
            log_level=logging.getLogger().getEffectiveLevel(),
            pickle_library=options.view_as(SetupOptions).pickle_library,
            main_session=main_session,
            options=for_workers(options),
            row_types=row_types(proto),
            python_path=_python_path(target),
            folder=os.getcwd() if target.door.is_local else "",
            ear=_ear_of(target),
            run=f"headrace-{uuid.uuid4().hex[:12]}",
            watch_keys=known.ui and streaming,
            samples=known.ui_samples and streaming,
        )
        host = SparkHost(target, settings.run)
        result = (
            StreamResult(plan, host, settings, known.progress, frames, stream_options(known))
            if streaming
            else HeadraceResult(plan, host, settings, known.progress, frames)
        )
        if known.debug:
            result.show_all()
        result.asked, result.touched = asked, touched
        result.start()
        return result


def touched_of(asked: Asked, proto: Any, frames: Frames, session: Any) -> Touched:
    """Give what a pipeline reads and writes, if somebody is to be told of that."""
    if not asked.lineage:
        return Touched()
    return touched_by(frames, session) + files_named(proto)


def _wait(result: HeadraceResult) -> None:
    """Wait where nobody else will, and stop the work if the user stops waiting."""
    try:
        result.wait_until_finish()
    except KeyboardInterrupt:
        result.cancel()
        raise


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


def _python_path(target: SparkTarget) -> tuple[str, ...]:
    """Where the driver imports from; workers of a local session can import from there too."""
    if not target.door.is_local:
        return ()
    return tuple(os.path.abspath(folder or os.curdir) for folder in sys.path)


def _ear_of(target: SparkTarget) -> str:
    """Where workers tell what they print and log; nowhere, if they are on other machines."""
    found = ear() if target.door.is_local else None
    return "" if found is None else found.path


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
