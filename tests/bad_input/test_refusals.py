"""What cannot run is refused before Spark starts, with the step's name and what to do."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam import coders
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import beam_runner_api_pb2 as beam_pb

from headrace.errors import OptionError, PackagingError, UnsupportedTransformError
from headrace.runner import SparkRunner

pytestmark = pytest.mark.timeout(60, func_only=True)


class NoSession:
    """Stands where a session would; touching it means that Spark was about to be used."""

    def __getattr__(self, name: str) -> Any:
        message = f"Spark was touched: {name}"
        raise AssertionError(message)


def pipeline(*options: str) -> beam.Pipeline:
    return beam.Pipeline(runner=SparkRunner(spark=NoSession()), options=PipelineOptions(options))


def proto_of(build: Any) -> beam_pb.Pipeline:
    p = beam.Pipeline()
    build(p)
    return p.to_runner_api()


def step(proto: beam_pb.Pipeline, name: str) -> beam_pb.PTransform:
    (found,) = (t for t in proto.components.transforms.values() if t.unique_name == name)
    return found


def refusal(proto: beam_pb.Pipeline) -> str:
    with pytest.raises(UnsupportedTransformError) as caught:
        SparkRunner(spark=NoSession()).run_proto(proto, PipelineOptions([]))
    return str(caught.value)


def two_steps(p: beam.Pipeline) -> Any:
    return p | beam.Create([1]) | "Fold/Step" >> beam.Map(str) | "Next" >> beam.Map(len)


def test_an_unknown_transform_is_refused_by_name_and_urn() -> None:
    proto = proto_of(two_steps)
    step(proto, "Fold/Step").spec.urn = "acme:transform:sharpen:v7"
    text = refusal(proto)
    assert "Fold/Step" in text
    assert "acme:transform:sharpen:v7" in text
    assert "Next" not in text


def test_all_that_is_refused_stands_in_one_error() -> None:
    proto = proto_of(two_steps)
    step(proto, "Fold/Step").spec.urn = "acme:transform:sharpen:v7"
    step(proto, "Next").spec.urn = "acme:transform:blur:v1"
    text = refusal(proto)
    assert "acme:transform:sharpen:v7" in text
    assert "acme:transform:blur:v1" in text


def test_a_cross_language_transform_is_refused_with_its_environment() -> None:
    proto = proto_of(two_steps)
    proto.components.environments["java"].CopyFrom(
        beam_pb.Environment(
            urn="beam:env:docker:v1",
            payload=beam_pb.DockerPayload(container_image="java").SerializeToString(),
            capabilities=["beam:version:sdk_base:apache/beam_java17_sdk"],
        )
    )
    step(proto, "Next").environment_id = "java"
    text = refusal(proto)
    assert "Next" in text
    assert "beam:env:docker:v1" in text
    assert "cross-language" in text


def test_an_unknown_requirement_is_refused_by_its_urn() -> None:
    proto = proto_of(two_steps)
    proto.requirements.append("acme:requirement:quantum:v1")
    assert "acme:requirement:quantum:v1" in refusal(proto)


def test_a_negative_bundle_size_is_refused_by_its_option() -> None:
    p = pipeline("--max_bundle_elements=-1")
    two_steps(p)
    with pytest.raises(OptionError, match="--max_bundle_elements=-1: must be 0 or more"):
        p.run()


@pytest.mark.parametrize(
    ("option", "complaint"),
    [
        ("--shards=0", "argument --shards: 0 is not a whole number of 1 or more"),
        ("--shards=two", "argument --shards: two is not a whole number"),
        ("--group_memory_mb=-5", "argument --group_memory_mb: -5 is not a whole number of 1"),
        ("--progress=foo", "argument --progress: invalid choice: 'foo'"),
        ("--max_bundle_elements=few", "argument --max_bundle_elements: few is not a whole number"),
    ],
)
def test_a_wrong_option_value_is_one_clear_error(
    option: str, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Beam's options are argparse's: the complaint goes to stderr, the program ends with 2."""
    with pytest.raises(SystemExit) as caught:
        p = pipeline(option)
        two_steps(p)
        p.run()
    assert caught.value.code == 2
    errors = [line for line in capsys.readouterr().err.splitlines() if "error:" in line]
    assert len(errors) == 1
    assert complaint in errors[0]


class Holder(beam.DoFn):  # type: ignore[misc]
    """Holds what cannot travel."""

    def __init__(self, held: Any = None) -> None:
        self.held = held

    def process(self, element: int) -> list[int]:
        return [element]


def open_file(folder: Path) -> Any:
    return (folder / "open").open("w")


def connection(folder: Path) -> Any:
    return sqlite3.connect(folder / "db")


@pytest.mark.parametrize("make", [open_file, connection], ids=["file", "connection"])
def test_a_dofn_that_cannot_be_pickled_is_refused_with_its_step_and_the_remedy(
    make: Callable[[Path], Any], tmp_path: Path
) -> None:
    fn = Holder()
    p = pipeline()
    _ = p | beam.Create([1]) | "Fold/Step" >> beam.ParDo(fn)
    with closing(make(tmp_path)) as held:
        fn.held = held
        with pytest.raises(PackagingError) as caught:
            p.run()
    text = str(caught.value)
    assert text.startswith("Fold/Step: its Holder cannot be pickled")
    assert "setup method" in text  # the remedy


@pytest.mark.parametrize("make", [open_file, connection], ids=["file", "connection"])
def test_a_dofn_made_unpicklable_is_refused_by_beam_where_it_is_written(
    make: Callable[[Path], Any], tmp_path: Path
) -> None:
    """The traceback ends in the user's line; the step has no name yet."""
    with closing(make(tmp_path)) as held, pytest.raises(RuntimeError) as caught:
        beam.ParDo(Holder(held))
    assert "Holder" in str(caught.value)
    assert "setup" in str(caught.value)


class Tag:
    """A key of a class that has no coder of its own."""


class Loose(coders.Coder):  # type: ignore[misc]
    """A coder that promises nothing."""

    def encode(self, value: Tag) -> bytes:
        return repr(value).encode()

    def decode(self, encoded: bytes) -> Tag:
        del encoded
        return Tag()

    def is_deterministic(self) -> bool:
        return False


def test_a_key_coder_that_is_not_deterministic_is_refused_by_its_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    registry = coders.registry
    monkeypatch.setattr(registry, "_coders", dict(registry._coders))
    monkeypatch.setattr(registry, "custom_types", list(registry.custom_types))
    registry.register_coder(Tag, Loose)
    p = pipeline()
    with pytest.raises(ValueError, match="not deterministic|deterministic") as caught:
        (
            p
            | beam.Create([1])
            | beam.Map(lambda _: (Tag(), 1)).with_output_types(tuple[Tag, int])
            | "Fold/Group" >> beam.GroupByKey()
        )
        p.run()
    assert "Fold/Group" in str(caught.value)
