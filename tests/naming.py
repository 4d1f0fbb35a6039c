"""Names of parameters that are the same in every process: tests are shared out by them."""

from __future__ import annotations

import re

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def steady(text: object) -> str:
    """Give a text without the places in memory that objects put into theirs."""
    return _ADDRESS.sub("", str(text))


def steady_repr(value: object) -> str:
    """Give the `repr` of a value, without its place in memory."""
    return steady(repr(value))
