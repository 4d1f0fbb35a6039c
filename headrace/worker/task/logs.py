"""Collects what user code logs and warns about in a task, for the driver.

Takes records while the task runs, gives report rows. Bounded: a chatty DoFn cannot fill memory.
Where the driver listens it is told at once, of what is printed too, and nothing is kept.
"""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Iterator
from types import TracebackType
from typing import TextIO

from apache_beam.runners.worker import statesampler

from headrace.worker.exchange.super_tuples import SuperTuple
from headrace.worker.protocol import LogReport
from headrace.worker.task.live_socket import Printed, teller
from headrace.worker.task.report_rows import row_of

#: Records kept per task; the rest is counted, not kept.
MAX_RECORDS = 2_000


def _is_news(record: logging.LogRecord) -> bool:
    """Whether a record tells more than the exception that ends the task: Beam logs that too."""
    raised = record.exc_info[1] if record.exc_info else None
    return not getattr(raised, "_tagged_with_step", False)


def _set_level(level: int) -> None:
    """Set the root's level, if it is another one: that empties the caches of all loggers."""
    if logging.root.level != level:
        logging.root.setLevel(level)


#: Beam's logger for exceptions of user code.
_BEAMS = logging.getLogger("apache_beam.runners.common")


class TaskLogs(logging.Handler):
    """A logging handler that keeps records until they are asked for.

    Args:
        level: records below it are not for the driver.
        ear: where the driver listens; empty: it does not.
    """

    def __init__(self, level: int, ear: str = "") -> None:
        super().__init__(level)
        self._teller = teller(ear)
        self._stdout: TextIO | None = None
        self._printed: Printed | None = None
        self._others: list[logging.Handler] = []
        self._records: list[dict[str, object]] = []
        self._dropped = 0
        self._showwarning = warnings.showwarning
        self._root_level = logging.WARNING

    def __enter__(self) -> TaskLogs:
        root = logging.getLogger()
        if self._teller is not None:
            # Else each record would come twice: what a worker writes is the driver's to show too.
            self._others, root.handlers = root.handlers, []
            self._stdout, self._printed = sys.stdout, Printed(self._teller, sys.stdout)
            sys.stdout = self._printed
        _BEAMS.addFilter(_is_news)
        root.addHandler(self)
        self._root_level = root.level
        _set_level(min(self.level, root.level) if root.level else self.level)
        self._showwarning = warnings.showwarning
        warnings.showwarning = self._warn
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        root = logging.getLogger()
        root.removeHandler(self)
        _BEAMS.removeFilter(_is_news)
        if self._printed is not None:
            self._printed.end()
            sys.stdout = self._stdout
            root.handlers = [*self._others, *root.handlers]
        _set_level(self._root_level)
        warnings.showwarning = self._showwarning

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one log record."""
        if record.name.startswith(("py4j", "pyspark")):
            return
        try:
            message = record.getMessage()
        except Exception:  # noqa: BLE001 (wrong arguments of a log call must not fail the task)
            self.handleError(record)
            return
        entry: dict[str, object] = {
            "kind": "log",
            "name": record.name,
            "level": record.levelno,
            "message": message,
            "path": record.pathname,
            "line": record.lineno,
            "created": record.created,
            "step": _current_step(),
        }
        if record.exc_info:
            entry["trace"] = logging.Formatter().formatException(record.exc_info)
        self._keep(entry)

    def _warn(
        self,
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,  # noqa: ARG002 (the signature is Python's)
        line: str | None = None,  # noqa: ARG002
    ) -> None:
        self._keep(
            {
                "kind": "warning",
                "module": category.__module__,
                "category": category.__qualname__,
                "message": str(message),
                "path": filename,
                "line": lineno,
                "step": _current_step(),
            }
        )

    def _keep(self, entry: dict[str, object]) -> None:
        if self._teller is not None and self._teller.tell({"log": entry}):
            return
        if len(self._records) < MAX_RECORDS:
            self._records.append(entry)
        else:
            self._dropped += 1

    def rows(self) -> Iterator[SuperTuple]:
        """Give what was kept, as one report row."""
        if self._dropped:
            self._records.append(
                {"kind": "log", "name": __name__, "level": logging.WARNING, "path": "", "line": 0,
                 "message": f"{self._dropped} further log records were dropped", "created": 0.0,
                 "step": ""}
            )
        if self._records:
            yield row_of(LogReport(tuple(self._records)))


def _current_step() -> str:
    tracker = statesampler.get_current_tracker()
    state = tracker.current_state() if tracker else None
    context = getattr(state, "name_context", None)
    return str(context.step_name) if context is not None else ""
