"""The mark by which a DoFn asks for its input in the order of event time.

Gives the decorator `time_sorted` and finds the mark again. Beam's model knows the requirement, and
its Python SDK has no way to ask for it. Decides nothing: the compiler writes the requirement into
the pipeline, and refuses it where it means nothing.
"""

from __future__ import annotations

from typing import TypeVar

_ATTRIBUTE = "_headrace_time_sorted"

_T = TypeVar("_T")


def time_sorted(cls: _T) -> _T:
    """Let `process` of a stateful DoFn class get the elements of a key in the order of event time.

    An element waits until the watermark has passed its time and the allowed lateness of its
    windowing; elements of one time come in the order of arrival. Subclasses inherit the mark.

    >>> @time_sorted
    ... class Latest:
    ...     def process(self, element): ...
    >>> is_time_sorted(Latest())
    True

    Raises:
        TypeError: it is not given a class.
    """
    if not isinstance(cls, type):
        msg = f"@headrace.time_sorted is written above a DoFn class, not {type(cls).__name__}"
        raise TypeError(msg)
    setattr(cls, _ATTRIBUTE, True)
    return cls


def is_time_sorted(dofn: object) -> bool:
    """Whether a DoFn asks for its input in the order of event time."""
    return getattr(dofn, _ATTRIBUTE, False) is True
