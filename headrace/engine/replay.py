"""Logs on the driver what was logged on a worker: once, with its own time, level and step.

Where the user has set up no log, Beam sets up Python's plainest one, which tells neither time nor
step; records of workers get both there. A format of the user's own has them as `%(asctime)s` and
`%(beam_step)s`.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping
from typing import Any

from headrace.engine.failures import class_of


def replay(entry: Mapping[str, Any]) -> None:
    """Log one record, or warn once more."""
    if entry["kind"] == "warning":
        found = class_of(entry["module"], entry["category"])
        category = found if found and issubclass(found, Warning) else UserWarning
        warnings.warn_explicit(entry["message"], category, entry["path"], entry["line"])
        return
    logger = logging.getLogger(entry["name"])
    if not logger.isEnabledFor(entry["level"]):
        return
    text = entry["message"] + (f"\n{entry['trace']}" if "trace" in entry else "")
    record = logger.makeRecord(
        entry["name"], entry["level"], entry["path"], entry["line"], text, (), None,
        extra={"beam_step": entry["step"]},
    )
    if entry["created"]:
        record.created = entry["created"]
        record.msecs = (entry["created"] % 1) * 1000
    logger.handle(record)


class StepFormatter(logging.Formatter):
    """Python's plainest format, with time and step for records of workers."""

    def format(self, record: logging.LogRecord) -> str:
        """Give the text of a record."""
        step = getattr(record, "beam_step", None)
        if step is None:
            return super().format(record)
        where = f" [{step}]" if step else ""
        time = self.formatTime(record, "%H:%M:%S")
        return f"{time} {record.levelname} {record.name}{where}: {record.getMessage()}"


def tell_steps() -> None:
    """Let the handler that Python or Beam has set up by default tell time and step."""
    for handler in logging.getLogger().handlers:
        form = handler.formatter
        if type(form) is logging.Formatter and form._fmt == logging.BASIC_FORMAT:  # noqa: SLF001
            handler.setFormatter(StepFormatter(logging.BASIC_FORMAT))
