"""What Beam's own worker finds in its process, headrace's workers find too."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
import pytest
from apache_beam.internal import pickler
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import (
    DebugOptions,
    HadoopFileSystemOptions,
    PipelineOptions,
)
from apache_beam.options.value_provider import RuntimeValueProvider, StaticValueProvider
from apache_beam.testing.util import assert_that, equal_to

import headrace
from headrace.compiler.proto.row_types import row_types
from headrace.options import for_workers
from tests.spark_session import shared_session

pytestmark = pytest.mark.spark


def pipeline_with(*flags: str) -> beam.Pipeline:
    runner = headrace.SparkRunner(spark=shared_session())
    return beam.Pipeline(runner=runner, options=PipelineOptions([*flags, "--shards=2"]))


class Greeting(PipelineOptions):  # type: ignore[misc]
    @classmethod
    def _add_argparse_args(cls, parser: Any) -> None:
        parser.add_value_provider_argument("--greeting", type=str, default="hello")
        parser.add_value_provider_argument("--farewell", type=str, default="bye")


def said(_: Any, *providers: Any) -> tuple[str, ...]:
    got = (str(provider.get()) for provider in providers)
    return (*got, str(RuntimeValueProvider.get_value("farewell", str, "-")))


@pytest.mark.parametrize("flags", [(), ("--streaming",)])
def test_value_providers_have_their_values_in_a_worker(flags: tuple[str, ...]) -> None:
    with pipeline_with("--farewell=so long", *flags) as pipeline:
        given = pipeline.options.view_as(Greeting)
        providers = (given.greeting, given.farewell)
        assert [type(p) for p in providers] == [RuntimeValueProvider, StaticValueProvider]
        heard = pipeline | beam.Create([None]) | beam.Map(said, *providers)
        assert_that(heard, equal_to([("hello", "so long", "so long")]))


def beams_view(_: Any) -> tuple[Any, ...]:
    given = FileSystems._pipeline_options
    name_node = given.view_as(HadoopFileSystemOptions).hdfs_host if given else None
    return name_node, {"a", "b"} <= RuntimeValueProvider.experiments


def test_beams_file_systems_know_the_options_in_a_worker() -> None:
    with pipeline_with("--hdfs_host=name.node", "--experiments=a", "--experiments=b") as pipeline:
        seen = pipeline | beam.Create([None]) | beam.Map(beams_view)
        assert_that(seen, equal_to([("name.node", True)]))


PLUGIN = """
from apache_beam.utils.plugin import BeamPlugin

class Kiln(BeamPlugin):
    pass
"""


def kilns(_: Any) -> list[str]:
    from apache_beam.utils.plugin import BeamPlugin

    return [path for path in BeamPlugin.get_all_plugin_paths() if "Kiln" in path]


def test_beams_plugins_are_imported_in_a_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kiln_plugin.py").write_text(PLUGIN, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    __import__("kiln_plugin")
    try:
        with pipeline_with("--beam_plugins=none.such") as pipeline:
            found = pipeline | beam.Create([None]) | beam.Map(kilns)
            assert_that(found, equal_to([["kiln_plugin.Kiln"]]))
    finally:
        del sys.modules["kiln_plugin"]


def test_options_that_are_no_plain_values_stay_with_the_driver() -> None:
    options = PipelineOptions(["--unheard_of=7"])
    options.view_as(DebugOptions).experiments = [object()]
    told = for_workers(options)
    assert "unheard_of" in told
    assert "experiments" not in told


class Plot(NamedTuple):
    name: str
    hectares: int

    def acres(self) -> float:
        return self.hectares * 2.5


beam.coders.registry.register_coder(Plot, beam.coders.RowCoder)


def measured(pair: tuple[Plot, Any]) -> tuple[str, float, int]:
    plot, years = pair
    assert isinstance(plot, Plot)
    return plot.name, plot.acres(), sum(years)


def test_a_row_is_of_its_own_class_behind_an_exchange() -> None:
    with pipeline_with() as pipeline:
        plots = [(Plot("a", 2), 1), (Plot("b", 4), 2), (Plot("a", 2), 3)]
        known = pipeline | beam.Create(plots).with_output_types(tuple[Plot, int])
        found = known | beam.GroupByKey() | beam.Map(measured)
        assert_that(found, equal_to([("a", 5.0, 4), ("b", 10.0, 2)]))


def test_a_row_of_a_class_made_in_a_function_is_of_that_class_behind_an_exchange() -> None:
    @dataclasses.dataclass(frozen=True)
    class Well:
        depth: int

        def feet(self) -> int:
            return self.depth * 3

    beam.coders.registry.register_row(Well)
    with pipeline_with("--streaming") as pipeline:
        wells = pipeline | beam.Create([1, 2]) | beam.Map(Well).with_output_types(Well)
        deep = wells | beam.Reshuffle() | beam.Map(lambda w: (isinstance(w, Well), w.feet()))
        assert_that(deep, equal_to([(True, 3), (True, 6)]))


def test_a_class_that_cannot_travel_is_left_out() -> None:
    class Bound(NamedTuple):
        name: str

    Bound.source = (number for number in [1])  # type: ignore[attr-defined]
    beam.coders.registry.register_coder(Bound, beam.coders.RowCoder)
    pipeline = beam.Pipeline()
    pipeline | beam.Create([1]) | beam.Map(lambda _: Plot("a", 1)).with_output_types(Plot)
    pipeline | "b" >> beam.Create([1]) | "c" >> beam.Map(str).with_output_types(Bound)
    found = row_types(pipeline.to_runner_api())
    assert [pickler.loads(pickled).__name__ for _, pickled in found] == ["Plot"]
