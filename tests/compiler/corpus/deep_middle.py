"""The middle of chains of helpers."""

from __future__ import annotations

from tests.compiler.corpus import deep_ends
from tests.compiler.corpus.deep_ends import pair_of


class Tools:
    factor = 2

    def __init__(self, offset):
        self.offset = offset

    def scaled(self, kv):
        return self.pair(kv[0], kv[1] * self.factor)

    def pair(self, key, value):
        return shifted(key, value + self.offset)

    @staticmethod
    def of(kv):
        return third(kv[0], value=kv[1])

    @classmethod
    def made(cls, kv):
        return cls.of(kv)


def shifted(key, value):
    return third(key, value)


def third(key, value):
    return fourth(value, key=key)


def fourth(value, *, key):
    return pair_of(key, value)


def turned(key, value):
    return deep_ends.other_pair(key, value)


def remembered(value):
    return deep_ends.remember(value)


def rolled(value):
    return deep_ends.roll(value)


def positives(value):
    yield from deep_ends.positive(value)


def singles(value):
    return tuple(deep_ends.only(value))
