"""Finds in an exception what its author wants to see: his own frames, the element, where to look.

Takes an exception as a task caught it, gives texts. The frames above the user's first one are
Beam's and ours, the same for every exception. Nothing of an element but its type is told: its value
may be secret, or of many megabytes.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from types import FrameType, GeneratorType, TracebackType

from headrace.worker.task.trace import kind_of

_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_OURS = os.path.dirname(_HERE) + os.sep
#: Workloads are pipelines like a user's.
_LAB = os.path.join(os.path.dirname(_HERE), "lab") + os.sep
_OTHERS = (f"{os.sep}apache_beam{os.sep}", f"{os.sep}pyspark{os.sep}")
#: As frames of compiled modules name their files.
_COMPILED = (f"apache_beam{os.sep}", "<frozen ")
#: Methods of a DoFn that are called for no element.
_NO_ELEMENT = ("setup", "start_bundle", "finish_bundle", "teardown")
#: Lines and frames that are shown; --debug shows all.
MAX_LINES = 18
LAST_FRAMES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Blame:
    """What is told of an exception beside its message."""

    short: str  # the frames from the user's first one on, without the message
    element: str  # the type of the element; empty: there was none, or it is not known
    place: str  # file, line and function of the user's last frame; empty: no frame is the user's

    def to_json(self) -> dict[str, str]:
        """Give the facts by their names."""
        return asdict(self)


def blame(failure: BaseException) -> Blame:
    """Look at an exception."""
    error = original(failure)
    trace = error.__traceback__
    first = _first_of_user(trace)
    lines = _chain(error) + _frames(error)
    return Blame(
        short=_cut(lines), element=_element(trace, first), place=_place(first),
    )


def original(failure: BaseException) -> BaseException:
    """Give what user code raised: Beam and we raise it again, with the step in its message."""
    before = failure.__context__
    return before if getattr(failure, "_tagged_with_step", False) and before else failure


def is_internal(path: str) -> bool:
    """Whether a file is ours, Beam's or Spark's."""
    if path.startswith(_LAB):
        return False
    return path.startswith((_OURS, *_COMPILED)) or any(part in path for part in _OTHERS)


def _first_of_user(trace: TracebackType | None) -> TracebackType | None:
    while trace is not None and is_internal(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    return trace


def _frames(error: BaseException) -> list[str]:
    first = _first_of_user(error.__traceback__)
    if first is None:
        entries = traceback.extract_tb(error.__traceback__)[-LAST_FRAMES:]
    else:
        entries = traceback.extract_tb(first)
    return "".join(traceback.StackSummary.from_list(entries).format()).splitlines()


def _chain(error: BaseException) -> list[str]:
    """Give the exceptions that led to this one, the oldest first."""
    before = error.__cause__
    joint = "The above exception was the direct cause of the following exception:"
    if before is None and not error.__suppress_context__:
        before = error.__context__
        joint = "During handling of the above exception, another exception occurred:"
    if before is None or before is error:
        return []
    said = "".join(traceback.format_exception_only(type(before), before)).splitlines()
    return [*_chain(before), *_frames(before), *said, "", joint, ""]


def _cut(lines: list[str]) -> str:
    left_out = len(lines) - MAX_LINES
    if left_out > 0:
        half = MAX_LINES // 2
        gap = f"  [... {left_out} lines left out; --debug shows them]"
        lines = [*lines[: half - 1], gap, *lines[-half:]]
    return "\n".join(lines)


def _place(first: TracebackType | None) -> str:
    """Say where the user's code was last: libraries that it called are not what to look at."""
    if first is None:
        return ""
    entries = traceback.extract_tb(first)
    own = [e for e in entries if "site-packages" not in e.filename and "/lib/python" not in
           e.filename and not is_internal(e.filename)]
    entry = (own or entries)[-1]
    return f"{entry.filename}, line {entry.lineno}, in {entry.name}"


def _element(trace: TracebackType | None, first: TracebackType | None) -> str:
    """Give the type of the element: from where we called the user's function, else from there."""
    found = ""
    while trace is not None and trace is not first:
        if trace.tb_frame.f_code.co_filename.startswith(_HERE):
            found = _held(trace.tb_frame.f_locals) or found
        trace = trace.tb_next
    if found or first is None:
        return found
    return _argument(first.tb_frame)


def _held(names: Mapping[str, object]) -> str:
    if "value" in names and "values" in names or ".0" in names and "value" in names:
        return kind_of(names["value"])
    running = names.get("running")
    if isinstance(running, GeneratorType) and running.gi_frame is not None:
        inner = running.gi_frame.f_locals
        return kind_of(inner["value"]) if "value" in inner else ""
    return ""


def _argument(frame: FrameType) -> str:
    """Give the type of what a user's function was called with."""
    code = frame.f_code
    names = code.co_varnames[: code.co_argcount]
    if names[:1] == ("self",):
        names = names[1:] if code.co_name == "process" else ()
    if not names or code.co_name in _NO_ELEMENT or names[0] not in frame.f_locals:
        return ""
    return kind_of(frame.f_locals[names[0]])
