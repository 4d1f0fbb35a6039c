"""Carries a user's exception from a task to the driver, as text.

Spark gives the driver nothing but the message of a failed task. The message therefore ends in one
line that the driver can read back: type, message and traceback as JSON. Nothing is pickled.
"""

from __future__ import annotations

import base64
import json
import traceback

MARK = "headrace-failure:"


class TaskFailure(Exception):
    """A task failed; the text says how, for people and for the driver."""


def report_failure(failure: BaseException) -> TaskFailure:
    """Wrap an exception so that it survives the way to the driver."""
    trace = "".join(traceback.format_exception(type(failure), failure, failure.__traceback__))
    message = failure.args[0] if failure.args and isinstance(failure.args[0], str) else str(failure)
    facts = {
        "module": type(failure).__module__,
        "name": type(failure).__qualname__,
        "message": message,
        "trace": trace,
    }
    line = base64.b64encode(json.dumps(facts).encode()).decode()
    return TaskFailure(f"{trace}\n{MARK}{line}\n")
