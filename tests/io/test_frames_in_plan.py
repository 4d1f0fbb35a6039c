"""What the compiler makes of reads and writes of DataFrames; no JVM."""

from __future__ import annotations

import dataclasses
from typing import Any

import apache_beam as beam
from pyspark.sql import types as t

from headrace.compiler.compile import compile_pipeline
from headrace.engine.tasks import tasks_of
from headrace.io import ReadFromSpark, WriteToSpark, to_dataframe
from headrace.io.frames import frames_of
from headrace.plan.ids import OperatorId
from headrace.plan.settings import Settings
from headrace.plan.sources import Frame
from headrace.plan.supersteps import Channel, ChannelKind, Plan

SCHEMA = t.StructType([t.StructField("k", t.StringType()), t.StructField("n", t.LongType())])


@dataclasses.dataclass(frozen=True)
class Described:
    """As much of a DataFrame as describing a read takes."""

    schema: t.StructType = SCHEMA
    isStreaming: bool = False


def compiled(p: beam.Pipeline, shards: int = 2) -> Plan:
    return compile_pipeline(p.to_runner_api(), shards=shards)


def channels(plan: Plan, kind: ChannelKind) -> list[Channel]:
    return [channel for channel in plan.channels if channel.kind is kind]


def test_a_read_starts_a_stage_of_the_first_superstep_and_is_named_by_its_label() -> None:
    p = beam.Pipeline()
    p | "in" >> ReadFromSpark(Described()) | beam.Map(print)
    plan = compiled(p)
    (source,) = channels(plan, ChannelKind.SOURCE)
    assert source.source == Frame("in")
    depth = {stage.stage_id: stage.superstep for stage in plan.stages()}
    assert [depth[stage] for stage in source.target_stages] == [0]
    assert len(plan.supersteps) == 1


def test_a_write_leaves_the_plan_on_a_channel_that_no_stage_reads() -> None:
    p = beam.Pipeline()
    p | ReadFromSpark(Described()) | "out" >> WriteToSpark("unused")
    plan = compiled(p)
    (output,) = channels(plan, ChannelKind.OUTPUT)
    assert (output.label, output.target_stages) == ("out", ())
    (task,) = tasks_of(plan, Settings())
    assert task.depths[plan.channels.index(output)] > 1_000


def test_a_step_with_side_inputs_is_cut_off_from_the_read_however_far_below() -> None:
    p = beam.Pipeline()
    side = p | beam.Create([1])
    (
        p
        | ReadFromSpark(Described())
        | "near" >> beam.Map(lambda row: row.n)
        | "window" >> beam.WindowInto(beam.window.FixedWindows(10))
        | "far" >> beam.Map(lambda n, m: n + m, beam.pvalue.AsSingleton(side))
    )
    plan = compiled(p)
    depth = {op: stage.superstep for stage in plan.stages() for op in stage.operators}
    assert depth[OperatorId("near")] == 0
    assert depth[OperatorId("far")] == 1


def test_the_same_pipeline_gives_the_same_plan_to_the_byte() -> None:
    def build() -> Plan:
        p = beam.Pipeline()
        p | ReadFromSpark(Described()) | WriteToSpark("unused")
        return compiled(p)

    one, two = build(), build()
    assert one.fingerprint == two.fingerprint
    assert one.components == two.components


def test_frames_and_sinks_are_found_under_their_full_names() -> None:
    class Outer(beam.PTransform):  # type: ignore[misc]
        def expand(self, pbegin: Any) -> Any:
            return pbegin | "in" >> ReadFromSpark(frame)

    frame = Described()
    p = beam.Pipeline()
    rows = p | "outer" >> Outer()
    to_dataframe(rows, label="seen")
    rows | "out" >> WriteToSpark("unused")
    found = frames_of(p)
    assert set(found.sources) == {"outer/in"}
    assert found.sources["outer/in"] is frame
    assert set(found.sinks) == {"seen", "out"}
    assert {c.label for c in channels(compiled(p), ChannelKind.OUTPUT)} == set(found.sinks)


def test_a_default_label_never_collides_with_one_that_is_taken() -> None:
    p = beam.Pipeline()
    rows = p | "in" >> ReadFromSpark(Described())
    for _ in range(3):
        to_dataframe(rows)
    assert set(frames_of(p).sinks) == {
        "to_dataframe(in)", "to_dataframe(in) 2", "to_dataframe(in) 3",
    }
