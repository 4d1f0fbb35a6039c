"""Plans of ordered runs: what runs on one shard and why, where numbers travel, one sink alone."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

import headrace
from headrace.compiler.compile import compile_pipeline
from headrace.errors import CheckpointError
from headrace.io import ReadFromSpark, WriteToSpark, to_dataframe
from headrace.plan.explain import explain
from headrace.plan.supersteps import ChannelKind, Plan
from headrace.testing import Collected, LocalRunner, ScriptedStream
from tests.ordered.made_pipelines import PAIR, Numbered, RunningMix, several, tripled, typed


class Batched(beam.DoFn):  # type: ignore[misc]
    """Puts out at the end of the bundle what it got."""

    def start_bundle(self) -> None:
        self._held: list[Any] = []

    def process(self, pair: Any) -> None:
        self._held.append(pair)

    def finish_bundle(self) -> Iterator[Any]:
        for pair in self._held:
            yield beam.transforms.window.GlobalWindows.windowed_value(pair)


def plan(*steps: Any, ordered: Any = True) -> Plan:
    p = beam.Pipeline()
    found = p | beam.Create([("a", 1)]).with_output_types(PAIR)
    for place, step in enumerate(steps):
        found = found | f"Step {place}" >> step
    _ = found | "Write" >> WriteToSpark("/nowhere", schema="key string, number long")
    return compile_pipeline(p.to_runner_api(), shards=3, ordered=ordered)


def kinds(made: Plan) -> list[ChannelKind]:
    return [channel.kind for channel in made.channels]


def test_what_has_state_of_its_own_runs_on_one_shard_and_says_which_line() -> None:
    made = plan(typed(beam.ParDo(Numbered())), typed(beam.Map(tripled)))
    assert ChannelKind.MERGE in kinds(made)
    text = explain(made)
    assert "to one shard, in order" in text
    assert "because Step 0 must see all elements, in order: writes self._count in line" in text
    assert "one channel is split into many again" in text
    assert ", ordered" in text.splitlines()[0]


def test_what_leaves_at_the_end_of_a_bundle_runs_on_one_shard() -> None:
    assert ChannelKind.MERGE in kinds(plan(typed(beam.ParDo(Batched()))))


def test_without_order_nothing_changes() -> None:
    steps = [typed(beam.ParDo(Numbered())), typed(beam.FlatMap(several))]
    made = plan(*steps, ordered=False)
    assert ChannelKind.MERGE not in kinds(made)
    assert not any(channel.order_bytes for channel in made.channels)
    assert all(stage.order is None for stage in made.stages())


def test_numbers_get_wider_only_where_one_does_not_tell_outputs_apart() -> None:
    def bits(*steps: Any) -> int:
        return max(channel.order_bytes for channel in plan(*steps).channels)

    one = bits(typed(beam.Map(tripled)))
    assert bits(typed(beam.Map(tripled)), typed(beam.ParDo(RunningMix()))) == one
    assert bits(typed(beam.FlatMap(several)), typed(beam.ParDo(RunningMix()))) == one
    twice = (typed(beam.FlatMap(several)), beam.Reshuffle(), typed(beam.FlatMap(several)))
    assert bits(*twice) == one + 4


def test_one_sink_alone_can_ask_for_order() -> None:
    p = beam.Pipeline(options=PipelineOptions([]))
    rows = p | beam.Create([("a", 1)]).with_output_types(PAIR) | beam.Reshuffle()
    schema = "key string, number long"
    _ = rows | "Free" >> beam.Reshuffle() | "Any" >> WriteToSpark("/a", schema=schema)
    _ = rows | "Kept" >> typed(beam.Map(tripled)) | "In order" >> WriteToSpark("/b", schema=schema)
    made = compile_pipeline(p.to_runner_api(), shards=3, ordered=["In order"])
    ordered = {
        channel.label: bool(channel.order_bytes)
        for channel in made.channels
        if channel.kind is ChannelKind.OUTPUT
    }
    assert ordered == {"Any": False, "In order": True}


def test_a_bundle_s_end_is_in_order_too() -> None:
    def rows(shards: int) -> list[Any]:
        into = Collected()
        options = PipelineOptions([f"--shards={shards}", "--ordered"])
        with beam.Pipeline(runner=LocalRunner(), options=options) as p:
            _ = (
                p
                | beam.Create([("a", i) for i in range(50)]).with_output_types(PAIR)
                | beam.Reshuffle()
                | typed(beam.ParDo(Batched()))
                | into.sink("key string, number long")
            )
        return into.epochs[0]

    assert rows(1) == rows(3) == [("a", i) for i in range(50)]


class Counted(beam.DoFn):  # type: ignore[misc]
    """Tells at the end of each bundle how many elements it had."""

    def start_bundle(self) -> None:
        self._count = 0

    def process(self, pair: Any) -> None:
        self._count += 1

    def finish_bundle(self) -> Iterator[Any]:
        yield beam.transforms.window.GlobalWindows.windowed_value(("bundle", self._count))


def test_where_bundles_are_cut_does_not_show_in_an_ordered_run() -> None:
    """How elements fall into batches, and so into bundles, depends on the shards before."""

    def rows(shards: int, *more: str) -> list[Any]:
        into = Collected()
        options = PipelineOptions([f"--shards={shards}", "--max_bundle_elements=7", *more])
        with beam.Pipeline(runner=LocalRunner(), options=options) as p:
            _ = (
                p
                | beam.Create([("a", i) for i in range(50)]).with_output_types(PAIR)
                | beam.Reshuffle()
                | typed(beam.FlatMap(several))
                | typed(beam.ParDo(Counted()))
                | into.sink("key string, number long")
            )
        return into.epochs[0]

    alone = rows(1, "--ordered")
    assert alone == rows(2, "--ordered") == rows(3, "--ordered")
    assert len(alone) == 1
    assert len(rows(1)) > 1  # the option does what it says where order does not count


@pytest.mark.spark
def test_on_spark_rows_come_in_the_order_of_the_frame(spark: Any) -> None:
    frame = spark.range(0, 5_000, 1, 3).selectExpr("cast(id % 7 as string) AS key", "id AS number")

    def rows(shards: int) -> list[tuple[Any, ...]]:
        options = PipelineOptions([f"--shards={shards}", "--ordered", "--progress=off"])
        with beam.Pipeline(runner=headrace.SparkRunner(spark), options=options) as p:
            pairs = p | ReadFromSpark(frame) | typed(beam.Map(lambda row: (row.key, row.number)))
            found = pairs | typed(beam.FlatMap(several)) | typed(beam.ParDo(RunningMix()))
            handle = to_dataframe(found, "key string, number long")
        return [tuple(row) for row in handle.dataframe().collect()]

    alone = rows(1)
    expected: list[tuple[str, int]] = []
    mixes: dict[str, int] = {}
    for number in range(5_000):
        for key, found in several((str(number % 7), number)):
            mixes[key] = (mixes.get(key, 0) * 31 + found) % 1_000_003
            expected.append((key, mixes[key]))
    assert alone == expected
    assert rows(3) == alone


@pytest.mark.spark
@pytest.mark.parametrize("shards", [1, 2])
def test_a_sink_in_order_on_spark_writes_files_in_order(
    spark: Any, tmp_path: Any, shards: int
) -> None:
    options = PipelineOptions([f"--shards={shards}", "--progress=off"])
    with beam.Pipeline(runner=headrace.SparkRunner(spark), options=options) as p:
        _ = (
            p
            | beam.Create(range(300))
            | beam.Reshuffle()
            | beam.Map(lambda number: (number,))
            | WriteToSpark(str(tmp_path / "out"), schema="number long", ordered=True)
        )
    found = [row.number for row in spark.read.parquet(str(tmp_path / "out")).collect()]
    assert found == list(range(300))


class Both(RunningMix):
    """Keeps state by key, and counts all elements beside."""

    def setup(self) -> None:
        self._count = 0

    def process(
        self, pair: Any, mix: Any = beam.DoFn.StateParam(RunningMix.MIX)  # noqa: B008
    ) -> Iterator[Any]:
        self._count += 1
        yield from super().process(pair, mix)


def test_keyed_state_on_one_shard_cannot_be_dealt_out_anew() -> None:
    events = ScriptedStream("key string, number long").add(("a", 1), ("b", 2))
    place = f"memory://{uuid.uuid4().hex}"

    def run(shards: int) -> list[Any]:
        into = Collected()
        options = [f"--shards={shards}", "--ordered", "--available_now", f"--checkpoint={place}"]
        with beam.Pipeline(runner=LocalRunner(), options=PipelineOptions(options)) as p:
            pairs = p | ReadFromSpark(events) | typed(beam.Map(lambda row: (row.key, row.number)))
            _ = pairs | typed(beam.ParDo(Both())) | into.sink("key string, number long")
        return [row for rows in into.epochs.values() for row in rows]

    assert run(2) == [("a", 1), ("b", 2)]
    events.add(("a", 1))
    with pytest.raises(CheckpointError, match="Go on with --shards=2"):
        run(3)
    assert run(2) == [("a", 32)]
