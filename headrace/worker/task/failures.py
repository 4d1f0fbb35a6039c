"""Carries a user's exception from a task to the driver, as text.

Spark gives the driver nothing but the message of a failed task. The message therefore ends in one
line that the driver can read back: type, message and traceback as JSON. Nothing is pickled. What a
person wants to see of the traceback is decided in `blame`.
"""

from __future__ import annotations

import base64
import json
import traceback

from headrace.worker.beam_types import Value
from headrace.worker.task.blame import blame

MARK = "headrace-failure:"

#: Characters of a message or traceback that travel, half from its head, half from its end. Spark
#: copies a task's message several times, so one of many megabytes would stop the driver.
MAX_CHARACTERS = 64_000


class TaskFailure(Exception):
    """A task failed; the text says how, for people and for the driver."""


def report_failure(failure: BaseException) -> TaskFailure:
    """Wrap an exception so that it survives the way to the driver."""
    trace = _bounded(
        "".join(traceback.format_exception(type(failure), failure, failure.__traceback__))
    )
    facts = {
        # From the class to its bases: the driver takes the first that it has too.
        "classes": [[cls.__module__, cls.__qualname__] for cls in type(failure).__mro__],
        "args": _plain(failure.args),
        "text": _bounded(_text(failure)),
        "trace": trace,
        **blame(failure).to_json(),
    }
    line = base64.b64encode(json.dumps(facts).encode()).decode()
    # Spark's worker writes UTF-8 and hangs on what UTF-8 cannot express, such as lone surrogates.
    shown = trace.encode("utf-8", "backslashreplace").decode()
    return TaskFailure(f"{shown}\n{MARK}{line}\n")


def _text(failure: BaseException) -> str:
    try:
        return str(failure)
    except Exception:  # noqa: BLE001 (a class whose own __str__ fails must not hide the failure)
        return repr(failure.args)


def _plain(args: tuple[object, ...]) -> list[Value] | None:
    """The arguments if all are plain and short, else None."""
    for arg in args:
        if type(arg) not in (str, int, float, bool, type(None)):
            return None
        if isinstance(arg, str) and len(arg) > MAX_CHARACTERS:
            return None
    return list(args)


def _bounded(text: str) -> str:
    if len(text) <= MAX_CHARACTERS:
        return text
    half = MAX_CHARACTERS // 2
    left_out = len(text) - 2 * half
    return f"{text[:half]}\n[... {left_out} characters left out ...]\n{text[-half:]}"
