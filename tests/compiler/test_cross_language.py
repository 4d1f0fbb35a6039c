"""A transform in Java is refused before Beam fetches the jar that would expand it."""

from __future__ import annotations

from typing import Any

import apache_beam as beam
import pytest
from apache_beam.transforms.external import (
    ExternalTransform,
    ImplicitSchemaPayloadBuilder,
    JavaExternalTransform,
    JavaJarExpansionService,
)
from apache_beam.utils import subprocess_server

# Not Beam's JDBC: making such a transform changes what Beam takes dates for, in the whole process.
import headrace
from headrace.compiler.proto.cross_language import refuse_java
from headrace.errors import UnsupportedTransformError


@pytest.fixture(autouse=True)
def no_jar(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody may fetch one."""

    def fetch(*args: Any, **kwargs: Any) -> Any:
        pytest.fail("a jar was asked for")

    monkeypatch.setattr(subprocess_server.JavaJarServer, "local_jar", fetch)


def test_a_source_in_java_is_refused_by_name_with_what_to_write_instead() -> None:
    p = beam.Pipeline(runner=headrace.SparkRunner())
    remedy = "ReadFromSpark and WriteToSpark"
    with pytest.raises(UnsupportedTransformError, match=f"Grind: .*cross-language.*{remedy}"):
        p | "Grind" >> JavaExternalTransform("org.example.Mill")


def test_a_step_in_java_is_refused_within_a_pipeline() -> None:
    p = beam.Pipeline(runner=headrace.SparkRunner())
    rows = p | beam.Create([beam.Row(a=1)])
    with pytest.raises(UnsupportedTransformError, match="Instead, "):
        rows | "Grind" >> JavaExternalTransform("org.example.Mill")


def test_the_refusal_names_step_urn_and_remedy() -> None:
    jar = JavaJarExpansionService("/no/such.jar")
    mill = ExternalTransform("example:mill:v1", ImplicitSchemaPayloadBuilder({}), jar)
    with pytest.raises(UnsupportedTransformError) as refused:
        beam.Pipeline(runner=headrace.SparkRunner()) | "Grind" >> mill
    said = str(refused.value)
    assert said.startswith("Grind: ExternalTransform (example:mill:v1) is a cross-language")
    assert "ReadFromSpark and WriteToSpark" in said


def test_a_class_of_java_is_refused_by_the_urn_of_its_lookup() -> None:
    with pytest.raises(UnsupportedTransformError, match="java_class_lookup:v1"):
        refuse_java(JavaExternalTransform("org.example.Mill"))


def test_a_service_at_an_address_may_be_pythons() -> None:
    refuse_java(ExternalTransform("urn:x", ImplicitSchemaPayloadBuilder({}), "localhost:1"))
    refuse_java(beam.Map(str))
