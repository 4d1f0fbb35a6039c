"""Pipelines in which order counts: time-sorted input, and a fold in the order of numbers.

Elements come in blocks, one block in eight of them backwards, and from all ranges at once. Each
stateful step remembers the last number of its key and marks what comes before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import apache_beam as beam
from apache_beam.coders import VarIntCoder
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec
from apache_beam.transforms.window import TimestampedValue

import headrace
from headrace.lab.experiments.micro.answers import SCRAMBLE
from headrace.lab.experiments.micro.pipelines import Span, Tally, generate

BLOCK = 64
#: What stands for a number that came before a smaller one of its key.
WRONG = -1

LAST = ReadModifyWriteStateSpec("last", VarIntCoder())


def disordered(span: Span) -> Iterator[int]:
    """Give the numbers of a range, one block in eight backwards."""
    first, end = span
    for turn, start in enumerate(range(first, end, BLOCK)):
        block = range(start, min(start + BLOCK, end))
        yield from reversed(block) if turn % 8 == 0 else block


class Timed(beam.DoFn):  # type: ignore[misc]
    """The numbers of a range with integer keys, a thousand to a second."""

    def __init__(self, keys: int) -> None:
        self._keys = keys

    def process(self, span: Span) -> Iterator[TimestampedValue]:
        keys = self._keys
        for i in disordered(span):
            yield TimestampedValue((i * SCRAMBLE % keys, i), i / 1_000)

    def headrace_block(self, span: Span) -> tuple[list[tuple[int, int]], list[int]]:
        """Give the same in bulk; see `headrace.plan.traits.BLOCK_METHOD`."""
        keys, numbers = self._keys, list(disordered(span))
        return [(i * SCRAMBLE % keys, i) for i in numbers], [i * 1_000 for i in numbers]


class Sequenced(beam.DoFn):  # type: ignore[misc]
    """The numbers of a range, dealt out to keys of its own: (key, (number in the key, number))."""

    def __init__(self, keys: int) -> None:
        self._keys = keys

    def process(self, span: Span) -> Iterator[tuple[int, tuple[int, int]]]:
        keys, first = self._keys, span[0]
        for i in disordered(span):
            number, key = divmod(i - first, keys)
            yield first * keys + key, (number, i)


class Last(beam.DoFn):  # type: ignore[misc]
    """Hands on the number of each element; counts on no order."""

    def process(
        self, pair: tuple[int, int], last: Any = beam.DoFn.StateParam(LAST)  # noqa: B008
    ) -> Iterator[int]:
        before = last.read()
        last.write(pair[1])
        yield self.told(before, pair[1])

    @staticmethod
    def told(_before: int | None, number: int) -> int:
        """Give what is handed on."""
        return number


@headrace.time_sorted
class LastInOrder(Last):
    """The same, in the order of event time."""

    @staticmethod
    def told(before: int | None, number: int) -> int:
        """Mark a number that comes before a smaller one."""
        return number if before is None or before < number else WRONG


class TallyOrder(Tally):
    """Counts and adds numbers, and counts the marks."""

    def process(self, element: int) -> None:
        self.count += 1
        self.total += element
        self.wrong += element == WRONG


def stateful(keys: int, dofn: Callable[[], beam.DoFn]) -> Callable[[beam.Pipeline, int], None]:
    """A stateful DoFn over timed elements."""

    def build(p: beam.Pipeline, n: int) -> None:
        _ = (
            generate(p, n, beam.ParDo(Timed(keys)).with_output_types(tuple[int, int]))
            | "Last" >> beam.ParDo(dofn()).with_output_types(int)
            | "Tally" >> beam.ParDo(TallyOrder())
        )

    return build


def _follow(last: int, number: int) -> tuple[int, list[int]]:
    return number, [number if last < number else WRONG]


def in_sequence(keys: int) -> Callable[[beam.Pipeline, int], None]:
    """An ordered processor; `keys` is how many keys each range has."""
    from headrace.transforms import OrderedProcessor

    def build(p: beam.Pipeline, n: int) -> None:
        numbered = beam.ParDo(Sequenced(keys)).with_output_types(tuple[int, tuple[int, int]])
        made = generate(p, n, numbered) | "Fold" >> OrderedProcessor(handler=_follow, initial=-1)
        _ = made.processed | beam.Values() | "Tally" >> beam.ParDo(TallyOrder())

    return build
