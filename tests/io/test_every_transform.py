"""Beam's own transforms that need neither a cloud nor another language, each once.

A table: names, and what each makes of a few collections. All stand in one pipeline, which runs once
on Beam's local runner and once here; what comes out is compared, in any order.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet
import pytest
from apache_beam.dataframe import convert
from apache_beam.io import fileio
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.pvalue import AsDict, AsIter, AsList, AsMultiMap, AsSingleton
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.transforms import window
from apache_beam.transforms.deduplicate import Deduplicate, DeduplicatePerKey
from apache_beam.transforms.periodicsequence import PeriodicSequence
from apache_beam.transforms.util import LogElements, Tee, WaitOn
from apache_beam.utils.timestamp import Timestamp

from headrace.compiler.compile import compile_pipeline
from headrace.runner import SparkRunner
from tests.streaming.harness import jot, jotted


class Sale(NamedTuple):
    city: str
    price: int


class Inputs(NamedTuple):
    """What cases begin with."""

    p: Any
    numbers: Any  # 0 to 19, each at its second
    pairs: Any  # ("a" or "b", number)
    words: Any
    sales: Any  # rows with a schema
    folder: str  # holds the files that sources read


SALES = [Sale("rome", 3), Sale("oslo", 5), Sale("rome", 4)]
Case = Callable[[Inputs], Any]


class Twice(beam.CombineFn):  # type: ignore[misc]
    """Twice the sum, with all four methods."""

    def create_accumulator(self) -> int:
        return 0

    def add_input(self, accumulator: int, element: int) -> int:
        return accumulator + element

    def merge_accumulators(self, accumulators: Any) -> int:
        return sum(accumulators)

    def extract_output(self, accumulator: int) -> int:
        return 2 * accumulator


def fail_on_three(x: int) -> int:
    if x == 3:
        msg = "three"
        raise ValueError(msg)
    return x


def files_in(folder: str) -> None:
    at = Path(folder)
    (at / "lines.txt").write_text("u\nv\nw\n")
    pa.parquet.write_table(pa.table({"n": [1, 2, 3]}), at / "n.parquet")
    with beam.Pipeline(FnApiRunner()) as p:
        schema = {"type": "record", "name": "N", "fields": [{"name": "n", "type": "long"}]}
        numbers = p | beam.Create([{"n": 4}, {"n": 5}])
        numbers | beam.io.WriteToAvro(f"{folder}/n", schema, file_name_suffix=".avro")


#: Grouped by Beam's own modules: core, util, combiners, stats, and sources.
CASES: dict[str, Case] = {
    "FlatMap": lambda i: i.numbers | beam.FlatMap(lambda x: range(x)),
    "FlatMapTuple": lambda i: i.pairs | beam.FlatMapTuple(lambda k, v: [k] * (v % 3)),
    "MapTuple": lambda i: i.pairs | beam.MapTuple(lambda k, v: f"{k}{v}"),
    "Filter": lambda i: i.numbers | beam.Filter(lambda x: x % 2),
    "with_exception_handling": lambda i: next(iter(
        i.numbers | beam.Map(fail_on_three).with_exception_handling())),
    "CombineGlobally": lambda i: i.numbers | beam.CombineGlobally(Twice()),
    "CombineGlobally with fanout": lambda i: i.numbers | beam.CombineGlobally(sum).with_fanout(3),
    "CombinePerKey": lambda i: i.pairs | beam.CombinePerKey(Twice()),
    "hot keys": lambda i: i.pairs | beam.CombinePerKey(Twice()).with_hot_key_fanout(3),
    "CombineValues": lambda i: i.pairs | beam.GroupByKey() | beam.CombineValues(Twice()),
    "GroupBy": lambda i: i.words | beam.GroupBy(len) | beam.MapTuple(
        lambda k, v: (k, sorted(v))),
    "GroupBy rows": lambda i: i.sales | beam.GroupBy("city").aggregate_field(
        "price", sum, "total") | beam.Map(tuple),
    "Select": lambda i: i.sales | beam.Select(p=lambda s: s.price + 1) | beam.Map(lambda r: r.p),
    "Partition": lambda i: (i.numbers | beam.Partition(lambda x, n: x % n, 3))[1],
    "FlattenWith": lambda i: i.numbers | beam.FlattenWith(i.words),
    "Flatten": lambda i: (i.numbers, i.words, i.numbers) | beam.Flatten(),
    "Impulse": lambda i: i.p | beam.Impulse(),
    "AsSingleton": lambda i: i.numbers | beam.Map(
        lambda x, s: x + s, AsSingleton(i.numbers | beam.CombineGlobally(sum))),
    "AsIter": lambda i: i.words | beam.Map(lambda w, s: (w, sum(s)), AsIter(i.numbers)),
    "AsList": lambda i: i.words | beam.Map(lambda w, s: (w, sorted(s)), AsList(i.numbers)),
    "AsDict": lambda i: i.words | beam.Map(
        lambda w, s: (w, s["a"]), AsDict(i.pairs | beam.CombinePerKey(max))),
    "AsMultiMap": lambda i: i.words | beam.Map(
        lambda w, s: (w, sorted(s["a"])), AsMultiMap(i.pairs)),
    "BatchElements": lambda i: i.numbers | beam.BatchElements(3, 3) | beam.FlatMap(list),
    "GroupIntoBatches": lambda i: i.pairs | beam.GroupIntoBatches(10) | beam.MapTuple(
        lambda k, v: (k, len(list(v)))),
    "GroupIntoBatches sharded": lambda i: i.pairs | beam.GroupIntoBatches.WithShardedKey(
        100) | beam.FlatMapTuple(lambda k, v: v),
    "CoGroupByKey": lambda i: {"l": i.pairs, "r": i.pairs} | beam.CoGroupByKey() | beam.MapTuple(
        lambda k, v: (k, sorted(v["l"]), sorted(v["r"]))),
    "Distinct": lambda i: i.words | beam.Distinct(),
    "Keys": lambda i: i.pairs | beam.Keys(),
    "Values": lambda i: i.pairs | beam.Values(),
    "KvSwap": lambda i: i.pairs | beam.KvSwap(),
    "WithKeys": lambda i: i.words | beam.WithKeys(len),
    "LogElements": lambda i: i.words | LogElements(),
    "Regex": lambda i: i.words | beam.Regex.replace_all("[ab]", "-"),
    "Reify timestamp": lambda i: i.numbers | beam.Reify.Timestamp() | beam.Map(repr),
    "Reify window": lambda i: i.numbers | beam.Reify.Window() | beam.Map(repr),
    "Reshuffle": lambda i: i.numbers | beam.Reshuffle(3),
    "ToString": lambda i: i.pairs | beam.ToString.Kvs(),
    "Tee": lambda i: i.words | Tee(beam.Map(len)),
    "WaitOn": lambda i: i.words | WaitOn(i.numbers),
    "Deduplicate": lambda i: i.words | Deduplicate(processing_time_duration=600),
    "DeduplicatePerKey": lambda i: i.pairs | beam.Map(lambda p: (p[0], 1)) | DeduplicatePerKey(
        event_time_duration=600),
    "fixed windows": lambda i: i.numbers | beam.WindowInto(window.FixedWindows(7)) | beam.Map(
        lambda x: (0, x)) | beam.CombinePerKey(sum),
    "sliding windows": lambda i: i.numbers | beam.WindowInto(
        window.SlidingWindows(6, 3)) | beam.combiners.Count.PerElement(),
    "sessions": lambda i: i.pairs | beam.WindowInto(window.Sessions(3)) | beam.CombinePerKey(max),
    "Count globally": lambda i: i.numbers | beam.combiners.Count.Globally(),
    "Count per key": lambda i: i.pairs | beam.combiners.Count.PerKey(),
    "Mean": lambda i: i.pairs | beam.combiners.Mean.PerKey(),
    "Top": lambda i: i.numbers | beam.combiners.Top.Largest(3),
    "Top per key": lambda i: i.pairs | beam.combiners.Top.SmallestPerKey(2),
    "Sample": lambda i: i.numbers | beam.combiners.Sample.FixedSizeGlobally(50) | beam.Map(sorted),
    "ToList": lambda i: i.numbers | beam.combiners.ToList() | beam.Map(sorted),
    "ToSet": lambda i: i.words | beam.combiners.ToSet() | beam.Map(sorted),
    "ToDict": lambda i: i.pairs | beam.CombinePerKey(max) | beam.combiners.ToDict(),
    "Latest": lambda i: i.pairs | beam.combiners.Latest.PerKey(),
    "TupleCombineFn": lambda i: i.numbers | beam.Map(lambda x: (x, x)) | beam.CombineGlobally(
        beam.combiners.TupleCombineFn(max, min)),
    "ApproximateQuantiles": lambda i: i.numbers | beam.ApproximateQuantiles.Globally(3),
    "ApproximateUnique": lambda i: i.numbers | beam.ApproximateUnique.Globally(size=16) | beam.Map(
        lambda n: n > 0),
    "PeriodicSequence": lambda i: i.p | beam.Create([(1.0, 5.0, 1.0)]) | PeriodicSequence()
        | beam.Map(float),
    "dataframe": lambda i: convert.to_pcollection(
        convert.to_dataframe(i.sales).groupby("city").price.sum()) | beam.Map(int),
    "ReadFromText": lambda i: i.p | beam.io.ReadFromText(f"{i.folder}/lines.txt"),
    "ReadAllFromText": lambda i: i.p | beam.Create([f"{i.folder}/lines.txt"])
        | beam.io.ReadAllFromText(),
    "ReadFromTextWithFilename": lambda i: i.p | beam.io.ReadFromTextWithFilename(
        f"{i.folder}/lines.txt"),
    "ReadFromParquet": lambda i: i.p | beam.io.ReadFromParquet(f"{i.folder}/n.parquet"),
    "ReadAllFromParquet": lambda i: i.p | beam.Create([f"{i.folder}/n.parquet"])
        | beam.io.ReadAllFromParquet(),
    "ReadFromParquetBatched": lambda i: i.p | beam.io.ReadFromParquetBatched(
        f"{i.folder}/n.parquet") | beam.Map(lambda t: t.num_rows),
    "ReadFromAvro": lambda i: i.p | beam.io.ReadFromAvro(f"{i.folder}/n*.avro"),
    "ReadAllFromAvro": lambda i: i.p | beam.Create([f"{i.folder}/n*.avro"])
        | beam.io.ReadAllFromAvro(),
    "MatchFiles": lambda i: i.p | fileio.MatchFiles(f"{i.folder}/*.txt") | fileio.ReadMatches()
        | beam.Map(lambda f: f.read_utf8()),
    "MatchAll": lambda i: i.p | beam.Create([f"{i.folder}/*.parquet"]) | fileio.MatchAll()
        | beam.Map(lambda m: m.size_in_bytes),
}  # fmt: skip


#: What Beam's local runner cannot run itself (it reads a sharded key as another one), by hand.
BY_HAND = {"GroupIntoBatches sharded": Counter(map(repr, range(20)))}


class Applied(beam.PTransform):  # type: ignore[misc]
    def __init__(self, case: Case, inputs: Inputs) -> None:
        super().__init__()
        self._case, self._inputs = case, inputs

    def expand(self, unused_begin: Any) -> Any:
        return self._case(self._inputs)


def inputs_of(p: Any, folder: str) -> Inputs:
    numbers = p | "numbers" >> beam.Create(range(20)) | "times" >> beam.Map(
        lambda x: window.TimestampedValue(x, Timestamp(x)))
    pairs = numbers | "pairs" >> beam.Map(lambda x: ("ab"[x % 2], x)).with_output_types(
        tuple[str, int])
    words = p | "words" >> beam.Create(["ab", "c", "ab", "dab"])
    sales = p | "sales" >> beam.Create(SALES).with_output_types(Sale)
    return Inputs(p, numbers, pairs, words, sales, folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    made = str(tmp_path_factory.mktemp("files"))
    files_in(made)
    return made


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("streaming", [False, True], ids=["batch", "streaming"])
def test_a_transform_of_beams_can_be_planned(folder: str, name: str, streaming: bool) -> None:
    p = beam.Pipeline()
    p | name >> Applied(CASES[name], inputs_of(p, folder))
    plan = compile_pipeline(p.to_runner_api(), shards=2, name=name, streaming=streaming)
    assert plan.supersteps


def in_words(value: Any) -> str:
    """Give what a value is; dicts are equal in any order, and nobody promises one."""
    return repr(dict(sorted(value.items())) if isinstance(value, dict) else value)


def ran(
    runner: Any, options: list[str], folder: str, at: Path, cases: dict[str, Case]
) -> dict[str, Counter[str]]:
    with warnings.catch_warnings(), beam.Pipeline(runner, PipelineOptions(options)) as p:
        inputs = inputs_of(p, folder)
        for name, case in cases.items():
            made = p | name >> Applied(case, inputs)
            made | f"jot {name}" >> jot(at / name)
    return {name: Counter(map(in_words, jotted(at / name))) for name in cases}


@pytest.mark.spark
def test_every_transform_makes_what_it_makes_on_beams_local_runner(
    spark: Any, folder: str, tmp_path: Path
) -> None:
    local, ours = tmp_path / "local", tmp_path / "ours"
    local.mkdir()
    ours.mkdir()
    there = {name: case for name, case in CASES.items() if name not in BY_HAND}
    expected = {**ran(FnApiRunner(), [], folder, local, there), **BY_HAND}
    assert all(expected.values())  # none of them compares nothing
    found = ran(SparkRunner(spark), ["--shards=2", "--progress=off"], folder, ours, CASES)
    assert {n: c for n, c in found.items() if c != expected[n]} == {}
