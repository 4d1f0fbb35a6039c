"""The far end of chains of helpers that begin in other modules."""

from __future__ import annotations

import random

SEEN: list = []


def pair_of(key, value):
    return key, value


def other_pair(key, value):
    return value, key


def remember(value):
    SEEN.append(value)
    return value


def roll(value):
    return value + random.random()


def positive(value):
    if value > 0:
        yield value


def only(value):
    return [value]
