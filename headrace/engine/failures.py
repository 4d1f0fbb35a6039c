"""Gives a failed Spark job back as the exception the user's code raised.

Takes what Spark threw, gives an exception of the original type whose message names the step and
carries the remote traceback.
"""

from __future__ import annotations

import base64
import builtins
import importlib
import json
import os
import re
import tempfile
from typing import Any

from headrace.errors import DiskFullError, PackagingError, WorkerLostError
from headrace.state.disk_space import free_bytes
from headrace.worker.entry import MARK

_MARKED = re.compile(re.escape(MARK) + r"([A-Za-z0-9+/=]+)")
_STEP = re.compile(r"\[while running '(.*?)'\]")
#: The last word below an exception of user code.
MORE = "--debug shows the frames of Beam and headrace, and Spark's own log"
_NO_HEADRACE = "ModuleNotFoundError: No module named 'headrace"
_NO_MEMORY = "java.lang.OutOfMemoryError"
#: As the JVM and Python both say it.
_NO_ROOM = "No space left on device"
#: A path in a text of Spark's, with or without the scheme it writes before it.
_PATH = re.compile(r"(?:file:)?(/[^\s:'\",;()]+)")
_LOST = (
    "ExecutorLostFailure", "Python worker exited unexpectedly", "crashed", "exitcode",
    "occurred while reading the port number",  # the daemon that forks workers died as it started
)
#: A worker, or the daemon that forks it, died while Spark asked for it: it had not said its number.
_UNBORN = re.compile(
    r"(EOFException|Broken pipe|Connection reset|ClosedChannelException)[^\n]*\n"
    r"(\s+at [^\n]*\n){0,12}?\s+at [^\n]*PythonWorkerFactory\.createThroughDaemon"
)


class RemoteTraceback(Exception):
    """Stands as the cause of a user's exception: the traceback as it was on the worker.

    `full` has the frames of Beam and headrace too; `show_all` makes it the one that is printed.
    """

    def __init__(self, full: str, short: str = "") -> None:
        super().__init__(full)
        self.full = full
        self.show_all = not short
        self._short = short

    def __str__(self) -> str:
        if self.show_all:
            return f"\n--- traceback on the worker ---\n{self.full}"
        return f"\n--- traceback on the worker ---\n{self._short}"


def translate(error: BaseException) -> BaseException:
    """Find the user's exception in what Spark threw."""
    text = _text(error)
    for found in _MARKED.finditer(text):
        facts = _facts(found.group(1))
        if facts is not None:
            return _rebuild(facts)
    if _NO_HEADRACE in text:
        absent = PackagingError(
            "the Python of the executors cannot import headrace. Install headrace there in the "
            "version of the driver, or point PYSPARK_PYTHON at a Python that has it, before the "
            "session starts."
        )
        absent.__cause__ = error
        return absent
    if _NO_MEMORY in text:
        small = WorkerLostError(
            "Spark's JVM ran out of memory. An element is copied a few times there: allow ten "
            "times the size of the largest one, in spark.driver.memory (local mode) or "
            "spark.executor.memory, before the session starts; or let large data stay in files and "
            "their names travel. Spark said: " + text[:2000]
        )
        small.__cause__ = error
        return small
    if _NO_ROOM in text:
        full = DiskFullError(_full(text))
        full.__cause__ = error
        return full
    if any(sign in text for sign in _LOST) or _UNBORN.search(text):
        lost = WorkerLostError(
            "a Python worker died and Spark gave the task up. Usual causes: out of memory (lower "
            "--group_memory_mb, raise the executor's memory), a native library that crashed, or a "
            "kill from outside. Spark said: " + text[:2000]
        )
        lost.__cause__ = error
        return lost
    return error


def _full(text: str) -> str:
    """Say where Spark found no room, with the folders it may have been and what is free there."""
    said = next(line.strip() for line in text.splitlines() if _NO_ROOM in line)
    # Where the line names no file it was a temporary one of Spark's.
    named = [os.path.dirname(path) for path in _PATH.findall(said)]
    own = os.environ.get("SPARK_LOCAL_DIRS") or tempfile.gettempdir()
    folders = dict.fromkeys([*named, *own.split(",")])
    rooms = [f"{folder} has {free:,} bytes free" for folder in folders
             if (free := free_bytes(folder)) is not None]
    return (
        f"a disk is full. Spark said: {said[:500]}. On this machine {', '.join(rooms)}. What was "
        "committed is whole: make room (also where executors keep spark.local.dir), and start the "
        "pipeline again"
    )


def _facts(encoded: str) -> dict[str, Any] | None:
    """Read what a task wrote after the mark; None if it is a user's text that looks like it."""
    try:
        facts = json.loads(base64.b64decode(encoded, validate=True))
    except ValueError:
        return None
    return facts if isinstance(facts, dict) and {"classes", "trace"} <= facts.keys() else None


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
    error = _instance(facts)
    error.__cause__ = RemoteTraceback(facts["trace"], facts.get("short", ""))
    for note in _notes(facts):
        error.add_note(note)
    return error


def _notes(facts: dict[str, Any]) -> list[str]:
    """Say below the message which step and element it was about, and where to look."""
    step = _STEP.findall(facts["text"])
    facts_shown = {
        "step": step[-1] if step else "", "element": facts.get("element", ""),
        "look at": facts.get("place", ""),
    }
    notes = [f"  {name + ':':<9}{text}" for name, text in facts_shown.items() if text]
    return [*notes, f"  {'more:':<9}{MORE}"] if notes else []


def show_all(error: BaseException) -> None:
    """Let an exception be printed with the frames of Beam and headrace too."""
    if isinstance(error.__cause__, RemoteTraceback):
        error.__cause__.show_all = True
    notes = getattr(error, "__notes__", [])
    error.__notes__ = [note for note in notes if not note.endswith(MORE)]


def _instance(facts: dict[str, Any]) -> BaseException:
    """An exception of the user's class, or of its nearest base that the driver has."""
    module, name = facts["classes"][0]
    text = facts["text"]
    for owner, known in facts["classes"]:
        cls = class_of(owner, known)
        if cls is None:
            continue
        if not issubclass(cls, Exception):
            # SystemExit and its like would end the driver's program, not just the pipeline.
            break
        if (owner, known) == (module, name) and facts["args"] is not None:
            same = _attempt(cls, tuple(facts["args"]))
            if same is not None and str(same) == text:
                return same
        shown = type(name.rpartition(".")[2], (cls,), {
            "__module__": module, "__qualname__": name, "__str__": lambda _: text,
        })
        close = _attempt(shown, None)
        if close is not None:
            close.args = (text,)
            return close
    short = name.rpartition(".")[2]
    return RuntimeError(f"{short}: {text}" if text else short)


def _attempt(cls: type[BaseException], args: tuple[Any, ...] | None) -> BaseException | None:
    """Build one as unpickling would, or past its constructor if `args` is None."""
    try:
        error = cls.__new__(cls) if args is None else cls(*args)
        str(error)
    except Exception:  # noqa: BLE001 (a constructor of the user's may do anything)
        return None
    return error


def class_of(module: str, name: str) -> type[BaseException] | None:
    """Find an exception class by its name; None if it is not to be had here."""
    try:
        owner: Any = builtins if module == "builtins" else importlib.import_module(module)
        for part in name.split("."):
            owner = getattr(owner, part)
    except (ImportError, AttributeError):
        return None
    if isinstance(owner, type) and issubclass(owner, BaseException):
        return owner
    return None


