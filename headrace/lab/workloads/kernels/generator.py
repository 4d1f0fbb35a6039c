"""The events of the application kernels, by arithmetic on their numbers.

Each draw has a stream of random numbers of its own (`Draw`), so that a column does not depend on
which other columns there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import ClassVar

import numpy as np
import pyarrow as pa

from headrace.lab.data.randoms import I64, below, unit
from headrace.lab.workloads.kernels.model import QUOTE, TRADE, Edge, Entry, Tick, Tweet
from headrace.lab.workloads.kernels.paced import Cells, Numbers, Paced, Phrases, Words

_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_PHRASES = 1_024
#: Tweets of all authors after which every author has a new topic: at the default of 1,000 authors
#: an author writes some 20 tweets about one, several times the length of a match.
_TOPIC_LASTS = 20_000
_SPELLINGS = 2  # of each set of hash tags


class Draw(IntEnum):
    """What is drawn at random."""

    SERVER = 0
    SUSPECT = 1
    USER = 2
    AUTHOR = 3
    PHRASE = 4
    TOPIC = 5
    STRAY = 6
    SPELLING = 7
    SYMBOL = 8
    KIND = 9
    PRICE = 10
    SIZE = 11
    SOURCE = 12
    TARGET = 13
    VOCABULARY = 14
    LEVEL = 15


def _field(name: str, kind: pa.DataType) -> pa.Field:
    return pa.field(name, kind, nullable=False)


@dataclass(frozen=True, slots=True)
class NetworkGenerator(Paced):
    """Log entries; the first users act more often than the others."""

    model: ClassVar[type] = Entry
    own_fields: ClassVar[tuple[pa.Field, ...]] = (
        _field("server", pa.int64()),
        _field("user", pa.int64()),
    )

    def columns(self, numbers: I64) -> tuple[Cells, ...]:
        """Choose server and user."""
        settings = self.settings
        suspect = below(settings.seed, Draw.SUSPECT, numbers, 100) < settings.suspect_percent
        suspects = min(settings.suspects, settings.users)
        chosen = unit(settings.seed, Draw.USER, numbers)
        user = (chosen * np.where(suspect, suspects, settings.users)).astype(np.int64)
        return Numbers(below(settings.seed, Draw.SERVER, numbers, settings.servers)), Numbers(user)


@dataclass(frozen=True, slots=True)
class TweetGenerator(Paced):
    """Tweets; an author keeps to a topic for a while, but strays from it now and then."""

    model: ClassVar[type] = Tweet
    own_fields: ClassVar[tuple[pa.Field, ...]] = (
        _field("author", pa.int64()),
        _field("text", pa.string()),
    )

    def columns(self, numbers: I64) -> tuple[Cells, ...]:
        """Choose the author, and a text of a phrase and hash tags."""
        settings = self.settings
        author = below(settings.seed, Draw.AUTHOR, numbers, settings.authors)
        period = numbers // _TOPIC_LASTS
        # Equal for one author and period: the draw is by those two, not by the tweet.
        drawn = period * settings.authors + author
        usual = below(settings.seed, Draw.TOPIC, drawn, settings.topics)
        other = below(settings.seed + 1, Draw.TOPIC, numbers, settings.topics)
        strays = below(settings.seed, Draw.STRAY, numbers, 100) < settings.stray_percent
        topic = np.where(strays, other, usual)
        spelling = below(settings.seed, Draw.SPELLING, numbers, _SPELLINGS)
        phrase = Words(
            _phrases(settings.seed), below(settings.seed, Draw.PHRASE, numbers, _PHRASES)
        )
        tags = Words(_tags(settings.topics), topic * _SPELLINGS + spelling)
        return Numbers(author), Phrases(phrase, tags)


@lru_cache(maxsize=4)
def _phrases(seed: int) -> tuple[str, ...]:
    """Make phrases of 3 to 10 made-up words of 1 to 9 letters."""
    drawn = iter(below(seed, Draw.VOCABULARY, np.arange(_PHRASES * 110, dtype=np.int64), 2**31))

    def word() -> str:
        length = 1 + int(next(drawn)) % 9
        return "".join(_LETTERS[int(next(drawn)) % 26] for _ in range(length))

    return tuple(
        " ".join(word() for _ in range(3 + int(next(drawn)) % 8)).capitalize() + "."
        for _ in range(_PHRASES)
    )


@lru_cache(maxsize=4)
def _tags(topics: int) -> tuple[str, ...]:
    """Spell each topic in two ways: order and case of hash tags do not matter. Topic 0 has none."""
    spelled = ["no tags", "none here"]
    for topic in range(1, topics):
        first, second = f"#topic{topic}", f"#news{topic % 7}"
        spelled += [f"{first} {second}", f"{second.upper()} {first}"]
    return tuple(spelled)


@dataclass(frozen=True, slots=True)
class FinanceGenerator(Paced):
    """Trades and quotes; a stock's price swings slowly around its level, with noise."""

    model: ClassVar[type] = Tick
    own_fields: ClassVar[tuple[pa.Field, ...]] = (
        _field("symbol", pa.string()),
        _field("kind", pa.string()),
        _field("price", pa.int64()),
        _field("size", pa.int64()),
    )

    def columns(self, numbers: I64) -> tuple[Cells, ...]:
        """Choose stock, kind, price and size."""
        settings = self.settings
        symbol = below(settings.seed, Draw.SYMBOL, numbers, settings.symbols)
        quote = below(settings.seed, Draw.KIND, numbers, 100) < settings.quote_percent
        level = 1_000 + below(settings.seed, Draw.LEVEL, symbol, 20_000)
        # A triangle wave in whole numbers: the same on every machine, unlike a sine.
        wave = np.abs((numbers // 100 + symbol * 37) % 2_000 - 1_000)  # 0 to 1,000
        noise = below(settings.seed, Draw.PRICE, numbers, 201) - 100
        price = level + level * (wave + noise) // 10_000
        size = 100 * (1 + below(settings.seed, Draw.SIZE, numbers, 10))
        return (
            Words(_symbols(settings.symbols), symbol),
            Words((TRADE, QUOTE), quote.astype(np.int64)),
            Numbers(price),
            Numbers(size),
        )


@lru_cache(maxsize=4)
def _symbols(count: int) -> tuple[str, ...]:
    capitals = _LETTERS.upper()
    return tuple(
        capitals[place // 676] + capitals[place // 26 % 26] + capitals[place % 26]
        for place in range(count)
    )


@dataclass(frozen=True, slots=True)
class EdgeGenerator(Paced):
    """Links; pages with small numbers are linked to more often."""

    model: ClassVar[type] = Edge
    own_fields: ClassVar[tuple[pa.Field, ...]] = (
        _field("source", pa.int64()),
        _field("target", pa.int64()),
    )

    def columns(self, numbers: I64) -> tuple[Cells, ...]:
        """Choose both ends."""
        settings = self.settings
        chosen = unit(settings.seed, Draw.TARGET, numbers)
        target = (chosen * chosen * settings.vertices).astype(np.int64)
        source = below(settings.seed, Draw.SOURCE, numbers, settings.vertices)
        return Numbers(source), Numbers(target)
