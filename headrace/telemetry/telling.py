"""Tells of a run while it goes on, to whoever was asked for, and keeps their failures from it.

Takes a plan that is about to run, gives watchers. What cannot be made fails before the first epoch,
and by name; whatever a watcher raises afterwards is logged once and goes no further.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from typing import Protocol

from headrace.plan.datasets import Touched
from headrace.plan.epoch_records import EpochRecord, RetryRecord, retry_of
from headrace.plan.supersteps import Plan
from headrace.telemetry.asked import Asked
from headrace.ui.graph import graph_of

_LOG = logging.getLogger(__name__)


class Observer(Protocol):
    """Who is told of a run."""

    def epoch(self, record: EpochRecord) -> None:
        """An epoch has come to count."""

    def retry(self, record: RetryRecord) -> None:
        """A try at an epoch has failed."""

    def ended(self, state: str, failure: RetryRecord | None = None) -> None:
        """The run is over."""


class Harmless:
    """Passes on what it is told; the first failure is logged, and none goes further.

    Args:
        observer: whom it passes it on to.
        name: what people call that.
    """

    def __init__(self, observer: Observer, name: str) -> None:
        self._observer, self._name = observer, name
        self._failed = False

    def epoch(self, record: EpochRecord) -> None:
        """An epoch has come to count."""
        self._try(lambda: self._observer.epoch(record))

    def retry(self, record: RetryRecord) -> None:
        """A try at an epoch has failed."""
        self._try(lambda: self._observer.retry(record))

    def ended(self, state: str, failure: RetryRecord | None = None) -> None:
        """The run is over."""
        self._try(lambda: self._observer.ended(state, failure))

    def _try(self, tell: Callable[[], None]) -> None:
        try:
            tell()
        except Exception as error:  # noqa: BLE001 (whatever it is, the run must not end by it)
            if not self._failed:
                self._failed = True
                _LOG.warning(
                    "%s was not told of the run: %s: %s. The run goes on; later failures of this "
                    "kind are not logged", self._name, type(error).__name__, error,
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """One run of a pipeline."""

    name: str  # tells it from others of the pipeline
    streaming: bool = False
    spark: str = ""  # the version of Spark; empty: there is none
    touched: Touched = Touched()


@contextmanager
def telling(
    asked: Asked, plan: Plan, run: Running, is_cancelled: Callable[[], bool]
) -> Iterator[list[Harmless]]:
    """Give those who are to be told of a run while the block runs; tell them of its end.

    Args:
        asked: who.
        plan: what is run.
        run: what else is known of this run.
        is_cancelled: whether an exception is the end that the user has asked for.
    """
    observers = []
    if asked.otel:
        from headrace.telemetry.otel import exporting  # an extra: loaded where it was asked for

        observers.append(
            Harmless(exporting(graph_of(plan), run.name, asked.otel_endpoint), "OpenTelemetry")
        )
    if asked.lineage:
        from headrace.telemetry.lineage import LineageWatcher, client_of_environment

        watcher = LineageWatcher(
            plan.name, run.touched, streaming=run.streaming, version=version("headrace"),
            spark=run.spark, emit=client_of_environment().emit,
        )
        observers.append(Harmless(watcher, "OpenLineage"))
    try:
        yield observers
    except BaseException as error:
        cancelled = is_cancelled()
        for each in observers:
            each.ended(
                "CANCELLED" if cancelled else "FAILED", None if cancelled else retry_of(-1, error)
            )
        raise
    for each in observers:
        each.ended("ENDED")
