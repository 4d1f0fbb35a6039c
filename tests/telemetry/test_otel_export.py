"""Whole runs that export by OTLP to a receiver on this machine, well, ill or away."""

from __future__ import annotations

import socket
import sys
import time
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from headrace.errors import OptionError
from headrace.io import ReadFromSpark
from headrace.telemetry import otel
from headrace.testing import Collected, LocalRunner, LocalSession, ScriptedStream
from tests.telemetry.receiver import Receiver, receiving

ROWS = [("north", 3), ("south", 4), ("north", 5)]
SUMS = [("north", 8), ("south", 4)]


@pytest.fixture(autouse=True)
def no_settings_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES",
                 "OTEL_SDK_DISABLED", "OTEL_METRICS_EXPORTER", "OTEL_TRACES_EXPORTER"):
        monkeypatch.delenv(name, raising=False)


def batch(*options: str) -> list[Any]:
    """Sum up three rows; give the sums."""
    session, out = LocalSession(), Collected()
    p = beam.Pipeline(runner=LocalRunner(session), options=PipelineOptions(list(options)))
    rows = session.createDataFrame(ROWS, "shop string, price long")
    (
        p
        | "Clicks" >> ReadFromSpark(rows)
        | "Pair" >> beam.Map(lambda row: (row.shop, row.price))
        | "Sum" >> beam.CombinePerKey(sum)
        | "Out" >> out.sink("shop string, price long")
    )
    p.run().wait_until_finish()
    return out.rows


def spans(kept: Receiver) -> dict[str, Any]:
    found = {}
    for body in kept.bodies("/v1/traces"):
        for group in ExportTraceServiceRequest.FromString(body).resource_spans:
            for scope in group.scope_spans:
                found.update({span.name: span for span in scope.spans})
    return found


def last_metrics(kept: Receiver) -> tuple[dict[str, str], dict[str, Any]]:
    """The resource and the metrics of the last export."""
    sent = ExportMetricsServiceRequest.FromString(kept.bodies("/v1/metrics")[-1])
    (group,) = sent.resource_metrics
    who = {a.key: a.value.string_value for a in group.resource.attributes}
    return who, {m.name: m for scope in group.scope_metrics for m in scope.metrics}


def test_a_batch_is_exported_to_the_endpoint_that_is_given() -> None:
    with receiving() as kept:
        assert batch("--otel", f"--otel_endpoint={kept.url}/") == SUMS
        assert {"epoch", "tasks", "sink Out"} <= spans(kept).keys()
        who, found = last_metrics(kept)
    assert who["service.name"] == "headrace"
    out = {
        p.attributes[1].value.string_value: p.as_double or p.as_int
        for p in found["headrace_elements_out_total"].sum.data_points
    }
    assert out["Clicks"] == len(ROWS) and out["Sum"] == len(SUMS)
    assert found["headrace_up"].gauge.data_points[0].as_double == 0.0  # it is over


def test_a_stream_is_exported_as_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    clicks, out = ScriptedStream("shop string, price long"), Collected()
    with receiving() as kept:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", kept.url)
        monkeypatch.setenv("OTEL_SERVICE_NAME", "shop")
        p = beam.Pipeline(runner=LocalRunner(), options=PipelineOptions(["--otel"]))
        p | "Clicks" >> ReadFromSpark(clicks) | "Out" >> out.sink("shop string, price long")
        result = p.run()
        clicks.add(*ROWS)
        result.settle()
        result.drain()
        who, found = last_metrics(kept)
        assert {"epoch", "source Clicks", "superstep 0", "sink Out", "commit"} <= spans(kept).keys()
    assert who["service.name"] == "shop"
    assert found["headrace_epochs_total"].sum.data_points[0].as_int >= 2
    assert len(out.rows) == len(ROWS)


def test_signals_can_be_turned_off_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_METRICS_EXPORTER", "none")
    with receiving() as kept:
        assert batch("--otel", f"--otel_endpoint={kept.url}") == SUMS
        assert {path for path, _ in kept.posted} == {"/v1/traces"}


def test_a_collector_that_is_away_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otel, "CLOSE_SECONDS", 0.2)
    with socket.socket() as free:  # nobody listens there
        free.bind(("127.0.0.1", 0))
        assert batch("--otel", f"--otel_endpoint=http://127.0.0.1:{free.getsockname()[1]}") == SUMS


def test_a_collector_that_fails_changes_nothing() -> None:
    with receiving() as kept:
        kept.status = 400
        assert batch("--otel", f"--otel_endpoint={kept.url}") == SUMS
        assert kept.posted


def test_a_collector_that_does_not_answer_holds_the_end_for_a_bounded_time(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(otel, "CLOSE_SECONDS", 0.2)
    with receiving() as kept:
        kept.hold.clear()
        began = time.monotonic()
        assert batch("--otel", f"--otel_endpoint={kept.url}") == SUMS
        assert time.monotonic() - began < 9  # an export alone may take 10
    assert "has not taken the last metrics" in caplog.text


def test_a_failing_run_raises_its_own_exception() -> None:
    def fail(row: Any) -> Any:
        raise ValueError(row.shop)

    session = LocalSession()
    with receiving() as kept:
        options = PipelineOptions(["--otel", f"--otel_endpoint={kept.url}"])
        p = beam.Pipeline(runner=LocalRunner(session), options=options)
        rows = session.createDataFrame(ROWS, "shop string, price long")
        p | "Clicks" >> ReadFromSpark(rows) | "Fail" >> beam.Map(fail)
        with pytest.raises(ValueError, match="north"):
            p.run().wait_until_finish()
        failure = spans(kept)["failure"]
    told = {a.key: a.value.string_value for a in failure.attributes}
    assert (told["exception.type"], told["headrace.step"]) == ("ValueError", "Fail")
    assert "north" not in str(failure)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--otel_endpoint=http://127.0.0.1:1"], "give --otel too"),
        (["--otel", "--otel_endpoint=localhost:4318"], "must begin with http"),
    ],
)
def test_what_cannot_be_exported_to_is_refused(options: list[str], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        batch(*options)


def test_another_protocol_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    with pytest.raises(OptionError, match=r"OTEL_EXPORTER_OTLP_PROTOCOL=grpc.*http/protobuf"):
        batch("--otel")


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http", None)
    with pytest.raises(OptionError, match=r"pip install headrace\[otel\]"):
        batch("--otel")
