"""`headrace.thread_safe`: names the parts of a DoFn that may run anywhere.

Gives a class that does before, `process` and after in one, which is what other runners run; the
compiler finds the parts on it and cuts the step in pieces.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import TaggedOutput
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.windowed_value import WindowedValue

from headrace.plan.parts import PARTS_ATTRIBUTE, Parts


def thread_safe(*, before: str = "", after: str = "") -> Callable[[type], type]:
    """Name the methods of a DoFn class that do its thread-safe work around `process`.

    `before` takes an element and gives the one that `process` gets in its place; the key of a
    stateful DoFn must stay. `after` takes each output of `process` and gives the one that leaves;
    outputs with a tag pass as they are. Neither may write to anything that outlives the call. Each
    part gets a copy of the DoFn, and `setup` and `teardown` are called on each. Subclasses are not
    cut; `@headrace.traits` below this one speaks of `process`, and above it is not looked at.

    >>> @thread_safe(before="parse")
    ... class Largest(beam.DoFn):
    ...     def parse(self, line):
    ...         return float(line)
    ...
    ...     def process(self, number):
    ...         yield number
    >>> list(Largest().process("1.5"))
    [1.5]

    Raises:
        TypeError: it is not given a DoFn class, or a method is not there.
        ValueError: neither part is named; or `after` is, and timers or `finish_bundle` put out too.
    """
    if not before and not after:
        msg = "@headrace.thread_safe names no part: say before=..., after=... or both"
        raise ValueError(msg)

    def mark(cls: type) -> type:
        _check(cls, before, after)
        parts = Parts(before=before, after=after, critical=cls)
        made = type(
            cls.__name__,
            (cls,),
            {
                "__doc__": cls.__doc__,
                "__module__": cls.__module__,
                "__qualname__": cls.__qualname__,
                "process": _whole(cls, parts),
                PARTS_ATTRIBUTE: parts,
            },
        )
        return made

    return mark


def _check(cls: Any, before: str, after: str) -> None:
    if not inspect.isclass(cls) or beam.DoFn not in cls.__mro__:
        msg = f"@headrace.thread_safe is written above a DoFn class, not {cls!r}"
        raise TypeError(msg)
    for name in (before, after):
        if name and not callable(getattr(cls, name, None)):
            msg = f"@headrace.thread_safe: {cls.__name__} has no method {name!r}"
            raise TypeError(msg)
    if not after:
        return
    methods: Any = cls
    asked = [p.default for p in inspect.signature(methods.process).parameters.values()]
    timers = any(isinstance(default, beam.DoFn.TimerParam) for default in asked)
    if timers or methods.finish_bundle is not beam.DoFn.finish_bundle:
        msg = (
            f"@headrace.thread_safe(after={after!r}): {cls.__name__} puts out by timers or at the "
            "end of a bundle too; call the method there, and in process, and leave after= away"
        )
        raise ValueError(msg)


def _whole(cls: Any, parts: Parts) -> Callable[..., Any]:
    """Give a `process` that does all parts, for runners that do not cut."""
    critical = cls.process

    @functools.wraps(critical)
    def process(self: Any, element: Any, *args: Any, **kwargs: Any) -> Any:
        if parts.before:
            element = getattr(self, parts.before)(element)
        results = critical(self, element, *args, **kwargs)
        if not parts.after or results is None:
            return results
        return _each(getattr(self, parts.after), results)

    return process


def _each(after: Callable[[Any], Any], results: Iterable[Any]) -> Iterator[Any]:
    for result in results:
        match result:
            case TaggedOutput():
                yield result
            case TimestampedValue():
                yield TimestampedValue(after(result.value), result.timestamp)
            case WindowedValue():
                yield result.with_value(after(result.value))
            case _:
                yield after(result)
