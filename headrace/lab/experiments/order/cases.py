"""The regions that are run with and without order, each with work for every element."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import apache_beam as beam
from apache_beam.coders import VarIntCoder
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec

PAIR = tuple[str, int]
KEYS = 1_000
SCHEMA = "key string, number long"


def worked(row: Any, multiplications: int) -> tuple[str, int]:
    """Do the work of one element."""
    found = row.number
    for _ in range(multiplications):
        found = found * 3 & 0xFFFF
    return row.key, found + row.number


def is_kept(pair: tuple[str, int]) -> bool:
    """Let every second element pass."""
    return pair[1] % 2 == 0


def is_one_of(row: Any, many: int) -> bool:
    """Let one of so many elements pass."""
    return bool(row.number % many == 0)


def twice(pair: tuple[str, int]) -> Iterator[tuple[str, int]]:
    """Make two of one."""
    yield pair
    yield pair[0], pair[1] + 1


def size(group: tuple[str, Any]) -> tuple[str, int]:
    """Count the values of a group."""
    return group[0], sum(1 for _ in group[1])


class Count(beam.DoFn):  # type: ignore[misc]
    """Numbers the elements of a key."""

    SEEN = ReadModifyWriteStateSpec("seen", VarIntCoder())

    def process(
        self, pair: tuple[str, int], seen: Any = beam.DoFn.StateParam(SEEN)  # noqa: B008
    ) -> Iterator[tuple[str, int]]:
        """Give the key and its number so far."""
        found = (seen.read() or 0) + 1
        seen.write(found)
        yield pair[0], found


def _group(pairs: Any) -> Any:
    return pairs | beam.GroupByKey() | beam.Map(size).with_output_types(PAIR)


CASES: dict[str, Callable[[Any], Any]] = {
    "no state, exactly one": lambda pairs: pairs,
    "at most one": lambda pairs: pairs | beam.Filter(is_kept),
    "many": lambda pairs: pairs | beam.FlatMap(twice).with_output_types(PAIR),
    "dealt out": lambda pairs: pairs | beam.Reshuffle(),
    "keyed, exactly one": lambda pairs: pairs | beam.ParDo(Count()).with_output_types(PAIR),
    "grouped": _group,
}
#: Those of the publication: the others are exchanges alone.
PUBLISHED = ("no state, exactly one", "at most one", "many", "keyed, exactly one")
KEYED = "keyed, exactly one"


def rows(elements: int) -> list[tuple[str, int]]:
    """Give the rows of a run."""
    return [(f"k{i % KEYS}", i) for i in range(elements)]
