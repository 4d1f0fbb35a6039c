"""Twitter NLP: which words has a tweet, how long are they, and how long on average?

Input: `Tweet` (number, time, author, text).
Output: one row per tweet:

    number   long
    words    string  runs of a-z, 0-9 and ', in lower case, in their order, with spaces between
    lengths  string  the number of characters of each, with spaces between
    mean     double  of the lengths; 0.0 where there is no word

Graph: one stateless operator.
"""

from __future__ import annotations

import re
from typing import Any

import apache_beam as beam

from headrace.lab.workload import ByColumns, Column, Kind, Row, Workload
from headrace.lab.workloads.kernels.generator import TweetGenerator
from headrace.lab.workloads.kernels.model import Tweet
from headrace.lab.workloads.kernels.settings import TweetSettings

_WORDS = re.compile("[a-z0-9']+")


def measure(tweet: Tweet) -> Row:
    """Find the words of a tweet and measure them.

    >>> measure(Tweet(7, 0, 1, "Don't panic: #42"))
    (7, "don't panic 42", '5 5 2', 4.0)
    """
    words = _WORDS.findall(tweet.text.lower())
    if not words:
        return tweet.number, "", "", 0.0
    lengths = list(map(len, words))
    mean = sum(lengths) / len(lengths)
    return tweet.number, " ".join(words), " ".join(map(str, lengths)), mean


def _build(settings: TweetSettings) -> Any:
    del settings  # the question has none; the stream of tweets has
    return "Measure" >> beam.Map(measure).with_output_types(tuple[int, str, str, float])


WORKLOAD = Workload(
    suite="kernels",
    name="twitter_nlp",
    title="Which words has a tweet, how long are they, and how long on average?",
    settings=TweetSettings,
    generator=TweetGenerator,
    columns=(
        Column("number", Kind.LONG),
        Column("words", Kind.STRING),
        Column("lengths", Kind.STRING),
        Column("mean", Kind.DOUBLE),
    ),
    build=_build,
    oracle="headrace.lab.oracle.kernels:twitter_nlp",
    native="headrace.lab.native.kernels:twitter_nlp",
    by_columns=ByColumns(columns=("number", "text"), build=_build),
    stateless=True,
)
