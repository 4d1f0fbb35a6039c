"""Accumulators that stand for several elements: how they travel, and what a reader gets.

A merged element has the windows of its elements, and says what a grouping must still know of them:
how many they are, since triggers count, and at what times they were, where panes carry times.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from apache_beam.coders.coder_impl import create_InputStream

from headrace.worker.beam_types import Decode, Element, Encode, OutStream, Value, Windows


class Merged(NamedTuple):
    """One accumulator of several elements that have the same key and the same windows."""

    value: Value
    windows: Windows
    elements: int  # how many it stands for
    times: list[int]  # theirs in microseconds, each time once, in order; empty if nobody asks


def write_merged(
    stream: OutStream, encode: Encode, name: bytes, element: Element, count: int,
    times: Sequence[int],
) -> None:
    """Write one merged element.

    Args:
        stream: Beam's, to write to.
        encode: writes a windowed value to it.
        name: the encoded key.
        element: the accumulator with its windows.
        count: how many elements it stands for.
        times: theirs, in whole milliseconds.
    """
    stream.write(name, True)
    encode(element, stream, True)
    stream.write_var_int64(count)
    stream.write_var_int64(len(times))
    before = 0
    for millis in times:  # the way from one to the next is short, and so are its bytes
        stream.write_var_int64(millis - before)
        before = millis


def read_merged(payload: bytes, decode: Decode) -> Iterator[tuple[bytes, Merged]]:
    """Read what `write_merged` wrote: encoded keys and their merged elements."""
    stream = create_InputStream(payload)
    while stream.size() > 0:
        name = stream.read_all(True)
        element = decode(stream, True)
        count = stream.read_var_int64()
        times: list[int] = []
        millis = 0
        for _ in range(stream.read_var_int64()):
            millis += stream.read_var_int64()
            times.append(millis * 1_000)
        yield name, Merged(element.value, element.windows, count, times)
