"""Tells of a run by OpenLineage's events: when it starts and ends, what it reads and writes.

Takes the records of epochs, gives events to OpenLineage's own client, whose configuration says
where they go. They are sent by a thread of their own, in order: a receiver that is away or slow
changes nothing of the run.
"""

from __future__ import annotations

import logging
import os
import queue
import threading
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

from openlineage.client import OpenLineageClient
from openlineage.client.event_v2 import (
    InputDataset,
    Job,
    OutputDataset,
    Run,
    RunEvent,
    RunState,
)
from openlineage.client.facet_v2 import (
    error_message_run,
    job_type_job,
    processing_engine_run,
    symlinks_dataset,
)
from openlineage.client.uuid import generate_new_uuid

from headrace.errors import OptionError
from headrace.plan.datasets import Dataset, Touched
from headrace.plan.epoch_records import EpochRecord, RetryRecord

_LOG = logging.getLogger(__name__)

#: How long the end of a run waits for events that are still to be sent.
CLOSE_SECONDS = 3.0
#: A stream tells that it goes on at most this often, by the beginnings of its epochs.
RUNNING_MICROS = 60_000_000
#: Events that wait for a slow receiver; more are dropped.
WAITING = 1_000
PRODUCER = "urn:headrace"
_ENDS = {
    "ENDED": RunState.COMPLETE, "CANCELLED": RunState.ABORT, "FAILED": RunState.FAIL,
}  # fmt: skip


class LineageWatcher:
    """Whom a run tells of its epochs.

    Args:
        name: the pipeline's.
        touched: what it reads and writes.
        streaming: whether it is a streaming run.
        version: of headrace.
        spark: the version of Spark; empty: there is none.
        emit: sends one event, and may fail.
    """

    def __init__(
        self, name: str, touched: Touched, *, streaming: bool, version: str, spark: str,
        emit: Callable[[RunEvent], None],
    ) -> None:
        self._touched = touched
        self._emit = emit
        self._last: int | None = None  # beginning of the last epoch that was told of
        self._streaming = streaming
        engine = processing_engine_run.ProcessingEngineRunFacet(
            name="Apache Spark" if spark else "headrace", version=spark or version,
            openlineageAdapterVersion=version, producer=PRODUCER,
        )
        kind = job_type_job.JobTypeJobFacet(
            processingType="STREAMING" if streaming else "BATCH", integration="HEADRACE",
            jobType="JOB", producer=PRODUCER,
        )
        self._run_id = str(generate_new_uuid())
        self._facets: dict[str, Any] = {"processing_engine": engine}
        self._job = Job(
            namespace=os.environ.get("OPENLINEAGE_NAMESPACE", "default"), name=name,
            facets={"jobType": kind},
        )
        self._failed = False
        self._waiting: queue.Queue[RunEvent | None] = queue.Queue(WAITING)
        self._sender = threading.Thread(target=self._send, name="headrace-lineage", daemon=True)
        self._sender.start()
        self._tell(RunState.START)

    def epoch(self, record: EpochRecord) -> None:
        """An epoch has come to count."""
        if not self._streaming:
            return
        if self._last is None or record.began - self._last >= RUNNING_MICROS:
            self._last = record.began
            self._tell(RunState.RUNNING)

    def retry(self, record: RetryRecord) -> None:
        """A try at an epoch has failed: no event of OpenLineage's is about that."""

    def ended(self, state: str, failure: RetryRecord | None = None) -> None:
        """The run is over: send the rest, for at most a few seconds."""
        more: dict[str, Any] = {}
        if failure is not None:  # not what the exception said: it may have data in it
            where = f" in step {failure.step}" if failure.step else ""
            more["errorMessage"] = error_message_run.ErrorMessageRunFacet(
                message=f"{failure.error}{where}", programmingLanguage="PYTHON", producer=PRODUCER
            )
        self._tell(_ENDS[state], more)
        self._put(None)
        self._sender.join(CLOSE_SECONDS)
        if self._sender.is_alive():
            _LOG.warning(
                "the receiver of OpenLineage's events has not taken all events of %s within "
                "%.0f s; the run itself is over and not touched by it", self._job.name,
                CLOSE_SECONDS,
            )

    def _tell(self, state: RunState, more: dict[str, Any] | None = None) -> None:
        self._put(RunEvent(
            eventType=state,
            eventTime=datetime.now(timezone.utc).isoformat(),
            run=Run(runId=self._run_id, facets={**self._facets, **(more or {})}),
            job=self._job,
            producer=PRODUCER,
            inputs=[InputDataset(d.namespace, d.name, facets=_facets(d))
                    for d in self._touched.inputs],
            outputs=[OutputDataset(d.namespace, d.name, facets=_facets(d))
                     for d in self._touched.outputs],
        ))  # fmt: skip

    def _put(self, event: RunEvent | None) -> None:
        try:
            self._waiting.put_nowait(event)
        except queue.Full:
            _LOG.debug("an event of OpenLineage's is dropped: %s wait already", WAITING)

    def _send(self) -> None:
        while (event := self._waiting.get()) is not None:
            try:
                self._emit(event)
            except Exception as error:  # noqa: BLE001 (a transport may raise anything)
                if not self._failed:
                    self._failed = True
                    _LOG.warning(
                        "an event of OpenLineage's was not sent: %s: %s. The run goes on; later "
                        "failures of this kind are not logged", type(error).__name__, error,
                    )


def _facets(dataset: Dataset) -> dict[str, Any]:
    if not dataset.table:
        return {}
    at = dataset.name.rpartition("/")[0] or "/"
    space = f"file:{at}" if dataset.namespace == "file" else f"{dataset.namespace}/{at.lstrip('/')}"
    link = symlinks_dataset.Identifier(
        namespace=space, name=dataset.table.removeprefix("spark_catalog."), type="TABLE"
    )
    return {
        "symlinks": symlinks_dataset.SymlinksDatasetFacet(identifiers=[link], producer=PRODUCER)
    }


def client_of_environment() -> OpenLineageClient:
    """Make the client as its own configuration says: OPENLINEAGE_* or openlineage.yml.

    Raises:
        OptionError: the configuration is not one.
    """
    try:
        return OpenLineageClient()
    except Exception as error:
        msg = f"--lineage: OpenLineage's client does not start: {type(error).__name__}: {error}"
        raise OptionError(msg) from error
