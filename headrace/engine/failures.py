"""Gives a failed Spark job back as the exception the user's code raised.

Takes what Spark threw, gives an exception of the original type whose message names the step and
carries the remote traceback.
"""

from __future__ import annotations

import base64
import builtins
import importlib
import json
import re
from typing import Any

from headrace.errors import WorkerLostError
from headrace.worker.failures import MARK

_MARKED = re.compile(re.escape(MARK) + r"([A-Za-z0-9+/=]+)")
_LOST = ("ExecutorLostFailure", "Python worker exited unexpectedly", "crashed", "exitcode")


class RemoteTraceback(Exception):
    """Stands as the cause of a user's exception: the traceback as it was on the worker."""

    def __init__(self, trace: str) -> None:
        super().__init__(trace)
        self._trace = trace

    def __str__(self) -> str:
        return f"\n--- traceback on the worker ---\n{self._trace}"


def translate(error: BaseException) -> BaseException:
    """Find the user's exception in what Spark threw."""
    text = _text(error)
    found = _MARKED.search(text)
    if found is not None:
        facts = json.loads(base64.b64decode(found.group(1)))
        return _rebuild(facts)
    if any(sign in text for sign in _LOST):
        lost = WorkerLostError(
            "a Python worker died and Spark gave the task up. Usual causes: out of memory (lower "
            "--group_memory_mb, raise the executor's memory), a native library that crashed, or a "
            "kill from outside. Spark said: " + text[:2000]
        )
        lost.__cause__ = error
        return lost
    return error


def _text(error: BaseException) -> str:
    parts = [str(error)]
    java = getattr(error, "_origin", None)
    if java is not None:
        parts.append(str(java))
    described = getattr(error, "getMessage", None)
    if callable(described):
        try:
            parts.append(str(described()))
        except Exception:  # noqa: BLE001 (only to find more text)
            parts.append("")
    return "\n".join(parts)


def _rebuild(facts: dict[str, Any]) -> BaseException:
    cls = _class_of(facts["module"], facts["name"])
    message = facts["message"]
    error: BaseException
    if cls is None:
        error = RuntimeError(f"{facts['module']}.{facts['name']}: {message}")
    else:
        try:
            error = cls.__new__(cls)
            error.args = (message,)
            str(error)
        except Exception:  # noqa: BLE001 (a class that needs more than a message)
            error = RuntimeError(f"{facts['name']}: {message}")
    error.__cause__ = RemoteTraceback(facts["trace"])
    if hasattr(error, "add_note"):
        error.add_note(str(error.__cause__))
    return error


def _class_of(module: str, name: str) -> type[BaseException] | None:
    try:
        owner: Any = builtins if module == "builtins" else importlib.import_module(module)
        for part in name.split("."):
            owner = getattr(owner, part)
    except (ImportError, AttributeError):
        return None
    if isinstance(owner, type) and issubclass(owner, BaseException):
        return owner
    return None


