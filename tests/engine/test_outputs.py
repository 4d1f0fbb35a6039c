"""What sinks are handed by the driver."""

from __future__ import annotations

from pathlib import Path
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


@pytest.mark.spark
def test_the_words_of_a_schema_are_read_once(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark makes a plan for them each time, 60 to 90 ms of its processor."""
    read: list[str] = []
    make = type(spark).createDataFrame

    def counted(session: Any, data: Any, schema: Any = None, **more: Any) -> Any:
        read.append(schema)
        return make(session, data, schema, **more)

    monkeypatch.setattr(type(spark), "createDataFrame", counted)
    pipeline = beam.Pipeline()
    _ = pipeline | beam.Create([]) | WriteToSpark(str(tmp_path / "rows"), schema=SCHEMA)
    proto = pipeline.to_runner_api(
        default_environment=environments.EmbeddedPythonEnvironment.default()
    )
    plan = compile_pipeline(proto, shards=1, name="once", streaming=True)
    outputs = Outputs(plan, frames_of(pipeline), spark)
    outputs.prepare(
        Handover(
            epoch=0, attempt="1", run="r", incarnation=1, token="t", fence=lambda: None, fresh=True
        )
    )
    assert read == [SCHEMA]
