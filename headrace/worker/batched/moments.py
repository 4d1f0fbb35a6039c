"""Makes Beam's `Timestamp` of microseconds, at a third of what its constructor takes.

The constructor looks at the types of six arguments, which is most of its microsecond. What is made
here has the same fields; where a version of Beam has others, its constructor is used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from apache_beam.utils.timestamp import Timestamp

_MICROS_PER_SECOND = 1_000_000
_new = object.__new__


def _made(micros: int) -> Any:
    moment = _new(Timestamp)
    moment._precision = 6  # noqa: SLF001 (the class has no other door than its constructor)
    moment._seconds, moment._subseconds = divmod(micros, _MICROS_PER_SECOND)  # noqa: SLF001
    return moment


def _constructed(micros: int) -> Any:
    return Timestamp(micros=micros)


def _is_true(make: Callable[[int], Any]) -> bool:
    tries = (0, 1, -1, 1_234_567, -1_234_567, 10**15)
    try:
        return all(vars(make(t)) == vars(_constructed(t)) for t in tries)
    except (AttributeError, TypeError):
        return False


#: Gives the moment of so many microseconds.
moment_of: Callable[[int], Any] = _made if _is_true(_made) else _constructed
