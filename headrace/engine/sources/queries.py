"""Structured Streaming's queries, one for each streaming DataFrame of a pipeline.

Starts them, looks after them, ends them. What a batch means is the caller's business.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from headrace.engine.checkpoint.spark_log import REMEDY
from headrace.engine.host import Arrived
from headrace.engine.scans.choose import scan_of
from headrace.engine.spark.folders import spark_folder
from headrace.engine.spark.session import SparkTarget, own_query
from headrace.engine.status import StreamOptions
from headrace.errors import CheckpointError, HeadraceError
from headrace.plan.scans import Scan
from headrace.state.files import Files

_LOG = logging.getLogger(__name__)

#: By this a batch is known that was sent back to Spark.
ENDING = "headrace: the run is ending"
#: How long to wait for a query that was told to stop.
STOP_SECONDS = 10


@dataclass(frozen=True, slots=True)
class Brought:
    """A batch of a streaming DataFrame."""

    rows: Any  # as a DataFrame
    scan: Scan | None  # of which files or topics they are, if they are no more


class EndingError(HeadraceError):
    """Raised into Spark so that it does not log a batch that was not run."""


class _Quiet(logging.Filter):
    """Keeps a batch that we sent back ourselves out of the log: nothing is wrong."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is worth a line."""
        raised = record.exc_info[1] if record.exc_info else None
        return not isinstance(raised, EndingError)


logging.getLogger("py4j.clientserver").addFilter(_Quiet())


class Queries:
    """The queries of one run, by the names of their DataFrames.

    Args:
        target: where the pipeline runs.
        options: of the run.
        wake: lets the loop look around: a query has ended.
    """

    def __init__(
        self, target: SparkTarget, options: StreamOptions, wake: Callable[[], None] = lambda: None
    ) -> None:
        self._target = target
        self._options = options
        self._wake = wake
        self._queries: dict[str, Any] = {}
        self._folders: dict[str, str] = {}  # of their logs
        self.closing = False  # batches that come now are left for the next start

    def listen(
        self, name: str, frame: Any, files: Files, log: str,
        arrived: Arrived,
    ) -> None:
        """Start a query; Spark keeps its log in a folder of the checkpoint."""
        folder = spark_folder(self._target.session, files.below(log))
        scan = scan_of(frame)  # a batch no longer says what its rows were made of
        writer = own_query(self._target, frame, files.is_local).writeStream.foreachBatch(
            lambda batch, batch_id: arrived(name, lambda: Brought(batch, scan), batch_id)
        ).option("checkpointLocation", folder)
        if self._options.available_now:
            writer = writer.trigger(availableNow=True)
        elif self._options.trigger_seconds:
            millis = max(1, round(self._options.trigger_seconds * 1000))
            writer = writer.trigger(processingTime=f"{millis} milliseconds")
        self._folders[name] = folder
        try:
            self._queries[name] = writer.start()
        except Exception as error:
            if not hasattr(error, "java_exception"):
                raise  # Spark's own refusal, which says what is wrong
            raise self._unreadable(name, error) from error
        end = partial(self._await_end, self._queries[name])
        threading.Thread(target=end, name="headrace-query", daemon=True).start()

    def _await_end(self, query: Any) -> None:
        """Wake the loop when a query has ended, well or not: it need not look for that."""
        with suppress(Exception):  # `failure` tells the loop
            query.awaitTermination()
        self._wake()

    @property
    def started(self) -> Mapping[str, Any]:
        """Those that were started, running or not."""
        return dict(self._queries)

    def is_started(self, name: str) -> bool:
        """Whether the query of a DataFrame was started."""
        return name in self._queries

    def is_listening(self, name: str) -> bool:
        """Whether a DataFrame may still bring rows."""
        return name not in self._queries or bool(self._queries[name].isActive)

    def bring(self) -> bool:
        """Say that there is none: Spark brings batches by itself, in threads of its own."""
        return False

    def promised(self, name: str) -> None:
        """Nobody knows the rows of a batch of Spark's before they are read."""
        del name

    def is_last(self, name: str) -> bool:
        """Nobody knows: a query of Spark's ends when it finds nothing more."""
        del name
        return False

    def is_hungry(self) -> bool:
        """Spark looks after its queries itself."""
        return False

    def rest(self) -> None:
        """Nobody need ask: Spark brings batches by itself."""

    def failure(self) -> BaseException | None:
        """Give what ended a query that should have gone on.

        Ask after the last question whether a query goes on, not before: Spark keeps what ended a
        query before it says that the query has ended.
        """
        for name, query in self._queries.items():
            if query.isActive:
                continue
            error = query.exception()
            # A batch that was sent back while draining is no failure of the query.
            if error is not None and not (self.closing and ENDING in str(error)):
                # It names a file of its log only where that is what is wrong.
                at_fault = self._folders[name].removeprefix("file:") in str(error)
                return self._unreadable(name, error) if at_fault else error
            if error is None and not self.closing and not self._options.available_now:
                return HeadraceError(
                    f"{name}: its query was stopped by somebody else. Nothing is lost: a start on "
                    "the same checkpoint goes on. To end a run, call cancel() or drain() of its "
                    "result"
                )
        return None

    def _unreadable(self, name: str, error: BaseException) -> CheckpointError:
        lines = [line.strip() for line in str(error).splitlines() if "Exception" in line]
        said = (lines or str(error).splitlines() or [""])[0]
        found = CheckpointError(
            f"{name}: Spark cannot go on with its log in {self._folders[name]}: {said}. {REMEDY}"
        )
        found.__cause__ = error
        return found

    def end(self) -> None:
        """Stop all of them; `closing` must be set by one who knows that no batch is running."""
        for query in self._queries.values():
            if query.isActive:
                query.stop()
        for name, query in self._queries.items():
            try:
                if not query.awaitTermination(STOP_SECONDS):
                    _LOG.warning("the query of %s has not ended after %s s", name, STOP_SECONDS)
            except Exception as error:  # noqa: BLE001 (`failure` gives it to whoever asks how the run ended)
                if ENDING not in str(error):
                    _LOG.debug("the query of %s ended with %s", name, error)

    def abandon(self) -> None:
        """Stop them whatever happens: the session may be gone."""
        for query in self._queries.values():
            try:
                if query.isActive:
                    query.stop()
            except Exception as error:  # noqa: BLE001 (the same)
                _LOG.debug("a query could not be stopped: %s", error)
