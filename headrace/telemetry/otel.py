"""Exports a run by OpenTelemetry: the metrics of `/metrics`, and a span for each epoch.

Takes the records of epochs, gives them to exporters of the SDK, which send in threads of their own
and drop what they cannot send: a collector that is away, slow or ill changes nothing of a run. The
providers are this run's; those that a program has set up for itself are left alone.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import SERVICE_INSTANCE_ID, SERVICE_NAME, Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Status, StatusCode, Tracer, set_span_in_context

from headrace.plan.epoch_records import EpochRecord, RetryRecord
from headrace.telemetry.parts import Part, of_retry, parts_of
from headrace.ui.graph import Graph
from headrace.ui.history import History
from headrace.ui.metric_families import FAMILIES, Family, Sample, samples_of

_LOG = logging.getLogger(__name__)

#: How long the end of a run waits for what is still to be sent; a collector that is away costs it.
CLOSE_SECONDS = 3.0
_SCOPE = "headrace"


class OtelWatcher:
    """Whom a run tells of its epochs.

    Args:
        graph: the pipeline.
        run: tells this run from others of the pipeline.
        readers: take the metrics when they want to.
        processors: take the spans.
    """

    def __init__(
        self, graph: Graph, run: str, readers: Iterable[MetricReader],
        processors: Iterable[SpanProcessor],
    ) -> None:
        self._graph, self._run = graph, run
        self._history = History(graph, samples=False, keys=False)
        self._news = 0  # how often something new has come
        self._known: tuple[int, dict[str, list[Sample]]] = (-1, {})  # samples, and of which news
        resource = _resource(run)
        self._meters = MeterProvider(
            metric_readers=list(readers), resource=resource, shutdown_on_exit=False
        )
        self._tracers = TracerProvider(resource=resource, shutdown_on_exit=False)
        for processor in processors:
            self._tracers.add_span_processor(processor)
        self._tracer: Tracer = self._tracers.get_tracer(_SCOPE)
        meter = self._meters.get_meter(_SCOPE)
        for family in FAMILIES:
            make = (
                meter.create_observable_counter
                if family.kind == "counter"
                else meter.create_observable_gauge
            )
            make(
                family.name, callbacks=[self._observing(family)], unit=_unit(family),
                description=family.words,
            )

    def epoch(self, record: EpochRecord) -> None:
        """An epoch has come to count."""
        self._history.epoch(record)
        self._news += 1
        self._draw(parts_of(record, self._graph), record.retries)

    def retry(self, record: RetryRecord) -> None:
        """A try at an epoch has failed."""
        self._history.retry(record)
        self._news += 1

    def ended(self, state: str, failure: RetryRecord | None = None) -> None:
        """The run is over: send the rest, for at most a few seconds."""
        self._history.ended(state)
        self._news += 1
        if failure is not None:
            span = self._tracer.start_span("failure", attributes=self._named(of_retry(failure)))
            span.set_status(Status(StatusCode.ERROR, failure.error))
            span.end()
        closing = threading.Thread(target=self._close, name="headrace-otel-close", daemon=True)
        closing.start()
        closing.join(CLOSE_SECONDS)
        if closing.is_alive():
            _LOG.warning(
                "the collector of OpenTelemetry has not taken the last metrics and spans of %s "
                "within %.0f s; the run itself is over and not touched by it",
                self._graph.name, CLOSE_SECONDS,
            )

    def _close(self) -> None:
        for close in (self._tracers.shutdown, self._meters.shutdown):
            try:
                close()
            except Exception as error:  # noqa: BLE001 (an exporter may raise anything)
                _LOG.warning("OpenTelemetry: the rest was not exported: %s", error)

    # -- metrics

    def _observing(self, family: Family) -> Callable[[CallbackOptions], Iterator[Observation]]:
        def observe(_options: CallbackOptions) -> Iterator[Observation]:
            for labels, value in self._current().get(family.name, ()):
                yield Observation(value, dict(labels))

        return observe

    def _current(self) -> dict[str, list[Sample]]:
        """Give the samples; all families of one export share them, as nothing came between."""
        news, (of, found) = self._news, self._known
        if news != of:
            found = samples_of(self._history.seen())
            self._known = (news, found)
        return found

    # -- spans

    def _named(self, attributes: Any) -> dict[str, Any]:
        return {
            "headrace.pipeline": self._graph.name, "headrace.run": self._run, **attributes
        }

    def _draw(self, epoch: Part, retries: Iterable[RetryRecord]) -> None:
        root = self._tracer.start_span(
            epoch.name, start_time=epoch.begin * 1_000, attributes=self._named(epoch.attributes)
        )
        for retry in retries:
            root.add_event("retry", of_retry(retry), timestamp=epoch.begin * 1_000)
        self._draw_parts(epoch, root)
        root.end(epoch.end * 1_000)

    def _draw_parts(self, part: Part, parent: Any) -> None:
        inside = set_span_in_context(parent)
        for child in part.parts:
            span = self._tracer.start_span(
                child.name, context=inside, start_time=child.begin * 1_000,
                attributes=dict(child.attributes),
            )
            self._draw_parts(child, span)
            span.end(child.end * 1_000)


def _resource(run: str) -> Resource:
    """Say who tells: as the environment does, else headrace."""
    found = Resource.create({SERVICE_INSTANCE_ID: run})
    if str(found.attributes.get(SERVICE_NAME, "")).startswith("unknown_service"):
        found = found.merge(Resource({SERVICE_NAME: "headrace"}))
    return found


def _unit(family: Family) -> str:
    name = family.name.removesuffix("_total")
    return "s" if name.endswith("_seconds") else "By" if name.endswith("_bytes") else "1"


def exporting(graph: Graph, run: str, endpoint: str) -> OtelWatcher:
    """Make a watcher that exports by OTLP over HTTP.

    Args:
        graph: the pipeline.
        run: its run.
        endpoint: of the collector; empty: as OTEL_EXPORTER_OTLP_ENDPOINT says, else this machine.
    """
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    readers: list[MetricReader] = []
    processors: list[SpanProcessor] = []
    if os.environ.get("OTEL_METRICS_EXPORTER") != "none":
        to = f"{endpoint}/v1/metrics" if endpoint else None
        readers.append(PeriodicExportingMetricReader(OTLPMetricExporter(endpoint=to)))
    if os.environ.get("OTEL_TRACES_EXPORTER") != "none":
        to = f"{endpoint}/v1/traces" if endpoint else None
        processors.append(BatchSpanProcessor(OTLPSpanExporter(endpoint=to)))
    return OtelWatcher(graph, run, readers, processors)
