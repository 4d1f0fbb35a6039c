"""Metrics and spans of a run, as exporters of OpenTelemetry's own SDK see them."""

from __future__ import annotations

from typing import Any

from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from headrace.plan.epoch_records import RetryRecord
from headrace.telemetry.otel import OtelWatcher
from headrace.ui.history import History
from headrace.ui.metrics_text import metrics_text
from tests.ui.test_findings import GRAPH, epoch
from tests.ui.test_metrics_text import read

RETRY = RetryRecord(epoch=1, error="ValueError", step="Join", text="secret")


def watched() -> tuple[OtelWatcher, InMemoryMetricReader, InMemorySpanExporter]:
    reader, spans = InMemoryMetricReader(), InMemorySpanExporter()
    return OtelWatcher(GRAPH, "run-1", [reader], [SimpleSpanProcessor(spans)]), reader, spans


def metrics(reader: InMemoryMetricReader) -> dict[str, tuple[str, dict[Any, float]]]:
    """Kind and samples of each metric, as the reader of `/metrics` gives them."""
    found = {}
    data: Any = reader.get_metrics_data()
    for metric in data.resource_metrics[0].scope_metrics[0].metrics if data else ():
        points = {tuple(p.attributes.items()): float(p.value) for p in metric.data.data_points}
        kind = "counter" if type(metric.data).__name__ == "Sum" else "gauge"
        found[metric.name] = (kind, points)
    return found


def test_the_metrics_are_those_of_the_text_for_prometheus() -> None:
    watcher, reader, _ = watched()
    history = History(GRAPH)
    for told in (watcher, history):
        told.retry(RETRY)
        for number in (1, 2):
            told.epoch(epoch(number, late={1: 3}, waiting={2: 4}))
    assert metrics(reader) == read(metrics_text(history.seen()))


def test_what_comes_between_two_exports_is_in_the_second() -> None:
    watcher, reader, _ = watched()
    assert metrics(reader)["headrace_epochs_total"][1] == {(("pipeline", "shop"),): 0.0}
    watcher.epoch(epoch(1))
    assert metrics(reader)["headrace_epochs_total"][1] == {(("pipeline", "shop"),): 1.0}
    watcher.epoch(epoch(2))
    assert metrics(reader)["headrace_epochs_total"][1] == {(("pipeline", "shop"),): 2.0}


def test_an_epoch_is_a_span_with_its_parts_inside() -> None:
    watcher, _, exporter = watched()
    watcher.epoch(epoch(7, retries=(RETRY,)))
    spans: dict[str, Any] = {span.name: span for span in exporter.get_finished_spans()}
    root = spans["epoch"]
    assert root.parent is None
    assert (root.start_time, root.end_time) == (7_000_000_000, 8_000_000_000)  # nanoseconds
    assert root.attributes["headrace.epoch"] == 7
    assert root.attributes["headrace.run"] == "run-1"
    inside = {name: spans[name].parent.span_id for name in spans if name != "epoch"}
    for name in ("tasks", "sink Out", "commit"):
        assert inside[name] == root.context.span_id
    for name in ("source Read", "superstep 1", "superstep 2"):
        assert inside[name] == spans["tasks"].context.span_id
    assert {span.context.trace_id for span in spans.values()} == {root.context.trace_id}
    assert [(e.name, e.attributes["exception.type"]) for e in root.events] == [
        ("retry", "ValueError")
    ]
    assert "secret" not in "".join(span.to_json() for span in spans.values())


def test_two_epochs_are_two_traces() -> None:
    watcher, _, exporter = watched()
    watcher.epoch(epoch(1))
    watcher.epoch(epoch(2))
    roots: list[Any] = [span for span in exporter.get_finished_spans() if span.name == "epoch"]
    assert len({span.context.trace_id for span in roots}) == 2


def test_a_failure_is_a_span_with_an_error_and_without_what_it_said() -> None:
    watcher, _, exporter = watched()
    watcher.ended("FAILED", RETRY)
    span: Any
    (span,) = exporter.get_finished_spans()
    assert (span.name, span.status.status_code.name) == ("failure", "ERROR")
    assert span.attributes["headrace.step"] == "Join"
    assert "secret" not in span.to_json()
