"""What sinks are handed by the driver."""

from __future__ import annotations

from typing import Any

import apache_beam as beam
import pytest
from apache_beam.transforms import environments

from headrace.compiler.compile import compile_pipeline
from headrace.engine.outputs import Handover, Outputs
from headrace.io import WriteToSpark
from headrace.io.frames import frames_of

SCHEMA = "key string not null, counts map<string, int>, at timestamp"


@pytest.mark.spark
def test_an_epoch_without_rows_is_handed_over_without_any_job_that_could_fail(spark: Any) -> None:
    """A driver that starts does so outside the loop that runs an epoch again for a lost worker."""
    given: list[tuple[Any, int]] = []

    def take(frame: Any, epoch: int) -> None:
        given.append((frame, epoch))

    pipeline = beam.Pipeline()
    _ = pipeline | beam.Create([]) | WriteToSpark(function=take, schema=SCHEMA)
    proto = pipeline.to_runner_api(
        default_environment=environments.EmbeddedPythonEnvironment.default()
    )
    plan = compile_pipeline(proto, shards=1, name="empty", streaming=True)
    outputs = Outputs(plan, frames_of(pipeline), spark)
    outputs.deliver_nothing(
        Handover(
            epoch=7, attempt="1", run="r", incarnation=2, token="t", fence=lambda: None, fresh=False
        )
    )
    [(frame, epoch)] = given
    assert (epoch, frame.collect()) == (7, [])
    assert frame.schema == spark.createDataFrame([], SCHEMA).schema
    made = frame._jdf.queryExecution().executedPlan().toString()
    assert made.startswith("LocalTableScan <empty>"), made
