"""Twitter CEP: when does an author write five tweets in a row with the same hash tags?

Input: `Tweet` (number, time, author, text).
Output: one row per match. A match is `run` (default 5) consecutive tweets of one author, in the
order of (time, number), with the same hash tags; matches may overlap, so a row of seven such tweets
gives three.

    author  long
    tags    string  the hash tags without #, in lower case, each once, sorted, with spaces between
    first   long    number of the first tweet of the match
    last    long    number of its last tweet

Hash tags are runs of a-z, 0-9 and _ after a #, after lowering the case. Neither their order nor
their number counts. A tweet without any matches nothing and ends a run.

Graph: parse, exchange by author, put in order, match.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import apache_beam as beam

from headrace.lab.workload import Column, Kind, Row, Workload
from headrace.lab.workloads.kernels.generator import TweetGenerator
from headrace.lab.workloads.kernels.model import Tweet
from headrace.lab.workloads.kernels.ordered import InOrder
from headrace.lab.workloads.kernels.settings import TweetSettings

_TAGS = re.compile("#([a-z0-9_]+)")


def tags_of(text: str) -> str:
    """Give the hash tags of a text in their one spelling.

    >>> tags_of("good #News #sun again #news")
    'news sun'
    """
    return " ".join(sorted(set(_TAGS.findall(text.lower()))))


@dataclass(frozen=True, slots=True)
class Match:
    """Finds runs in ordered tweets; remembers each author's run so far.

    Args:
        run: tweets that make a match.
    """

    run: int

    def __call__(self, known: dict[Any, Any], tweets: list[tuple[Any, ...]]) -> list[Row]:
        """Take (time, number, author, tags) in order."""
        found: list[Row] = []
        nothing: tuple[str, list[int]] = ("", [])
        for _, number, author, tags in tweets:
            before, numbers = known.get(author, nothing)
            if tags != before:
                known[author] = (tags, [number])  # also when there are none: the run has ended
                continue
            if not tags:
                continue
            numbers.append(number)
            if len(numbers) == self.run:
                found.append((author, tags, numbers[0], number))
                del numbers[0]
        return found


class TwitterCep(beam.PTransform):  # type: ignore[misc]
    """Tweets -> rows."""

    def __init__(self, settings: TweetSettings) -> None:
        super().__init__()
        self._settings = settings

    def expand(self, tweets: Any) -> Any:
        """Build the graph."""
        settings = self._settings
        parsed = tuple[int, tuple[int, int, int, str]]
        return (
            tweets
            | "Parse" >> beam.Map(_parse, settings.partitions).with_output_types(parsed)
            | "Match" >> InOrder(Match(settings.run), settings.slice_ms)
        )


def _parse(tweet: Tweet, partitions: int) -> tuple[int, tuple[int, int, int, str]]:
    number, time, author, text = tweet
    return author % partitions, (time, number, author, tags_of(text))


WORKLOAD = Workload(
    suite="kernels",
    name="twitter_cep",
    title="When does an author write five tweets in a row with the same hash tags?",
    settings=TweetSettings,
    generator=TweetGenerator,
    columns=(
        Column("author", Kind.LONG),
        Column("tags", Kind.STRING),
        Column("first", Kind.LONG),
        Column("last", Kind.LONG),
    ),
    build=TwitterCep,
    oracle="headrace.lab.oracle.kernels:twitter_cep",
    native="headrace.lab.native.kernels:twitter_cep",
)
