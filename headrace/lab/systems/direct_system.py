"""Beam's own local runner, in this process: the answer of a second runner.

Of Beam's runners that need no binary, FnApiRunner alone runs unbounded splittable DoFns, and it
is the faster one: BundleBasedDirectRunner refuses them in streaming and does not come back to what
they defer in batch. FnApiRunner runs stage after stage, so that windows close at the right event
time but rows come out only when the source has ended.
"""

from __future__ import annotations

import time

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

from headrace.errors import UnsupportedTransformError
from headrace.lab.endpoints.local_sinks import LocalSink
from headrace.lab.endpoints.sources import beam_source, events_of
from headrace.lab.systems.system import Glance, Outcome, Request


class DirectSystem:
    """Runs the pipeline on Beam's FnApiRunner."""

    name = "direct"

    def prepare(self, request: Request) -> None:
        """Refuse what needs Spark; nothing is to be started."""
        LocalSink(request.sink.kind)

    def run(self, request: Request) -> Outcome:
        """Run the pipeline to its end."""
        from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner

        generator = request.generator
        flags = ["--streaming"] if request.streaming else []
        pipeline = beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions(flags))
        source = beam_source(
            request.source, generator,
            streaming=request.streaming, readers=1, pace=request.pace,
        )
        with LocalSink(request.sink.kind) as sink:
            events = pipeline | "Events" >> source
            rows = events | "Query" >> request.workload.build(request.settings)
            rows | "Sink" >> sink.step()
            if request.streaming:
                _check_triggers(pipeline, request.workload.full_name)
            with request.watch(lambda: Glance(rows=sink.count)):
                start = time.perf_counter()
                result = pipeline.run()
                result.wait_until_finish()
                seconds = time.perf_counter() - start
            return Outcome(
                system=self.name,
                engine=f"Beam {beam.__version__} {type(pipeline.runner).__name__} ({result.state})",
                mode=request.mode, events=events_of(request.source, generator), seconds=seconds,
                rows=sink.rows(), row_count=sink.count, notes=tuple(sink.notes()),
                stamped=sink.stamped(),
            )

    def stop(self) -> None:
        """Nothing was started."""


def _check_triggers(pipeline: beam.Pipeline, name: str) -> None:
    """Refuse triggers that ask for the time: the runner gives them no clock outside of batch."""
    for strategy in pipeline.to_runner_api().components.windowing_strategies.values():
        if "after_processing_time" in str(strategy.trigger):
            msg = (
                f"{name}: Beam's FnApiRunner has no clock for triggers in processing time; run it "
                "in batch there, or as a stream on headrace"
            )
            raise UnsupportedTransformError(msg)
