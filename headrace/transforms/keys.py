"""Small pieces that several operators share: pairs with keys, windows, the order inside a time.

Nothing here is an operator of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import apache_beam as beam
from apache_beam.transforms.window import FixedWindows, GlobalWindows, TimestampedValue

from headrace.transforms.arguments import seconds

#: Plain pairs of anything: Beam then codes keys and values as they are, without pickling.
PAIRS = tuple[Any, Any]


def keyed(key: Callable[[Any], Any]) -> Any:
    """Make pairs (key, element)."""

    def pair(element: Any) -> tuple[Any, Any]:
        return key(element), element

    return beam.Map(pair).with_output_types(PAIRS)


def sided(key: Callable[[Any], Any], side: int) -> Any:
    """Make pairs (key, (side, element)) of one input of a join."""

    def pair(element: Any) -> tuple[Any, tuple[int, Any]]:
        return key(element), (side, element)

    return beam.Map(pair).with_output_types(PAIRS)


def forever() -> Any:
    """Put elements into the one window that never ends before the stream does."""
    return beam.WindowInto(GlobalWindows())


def check_window(window: float | None) -> float | None:
    """Refuse a window that is neither a length of time nor None."""
    return None if window is None else seconds("window", window)


def into_windows(elements: Any, window: float | None) -> Any:
    """Cut a collection into windows; None leaves it the windows it has."""
    if window is None:
        return elements
    return elements | "Windows" >> beam.WindowInto(FixedWindows(window))


def stamped(elements: Any, time: Callable[[Any], float] | None) -> Any:
    """Give elements the event time that `time` finds in them; None changes nothing."""
    if time is None:
        return elements

    def stamp(element: Any) -> TimestampedValue:
        return TimestampedValue(element, time(element))

    return elements | "Stamp" >> beam.Map(stamp)


def in_order(entries: Iterable[tuple[Any, ...]], key: Any) -> list[tuple[Any, ...]]:
    """Sort entries (time, rank, ...) by time, those of one time by rank."""
    try:
        return sorted(entries)
    except TypeError as e:
        raise TypeError(no_order(key)) from e


def no_order(key: Any) -> str:
    """Say what to do about elements of one time that cannot be compared."""
    return (
        f"two elements of key {key!r} have the same time and cannot be compared: "
        "give tie=, a function that makes something comparable of an element"
    )
