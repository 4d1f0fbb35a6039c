"""Makes Beam's `Timestamp` of microseconds, at a third of what its constructor takes.

The constructor looks at the types of six arguments, which is most of its microsecond. What is made
here has the same fields; where a version of Beam has others, its constructor is used.
"""

from __future__ import annotations

from collections.abc import Callable

from apache_beam.utils.timestamp import Timestamp

from headrace.worker.beam_types import Instant

_MICROS_PER_SECOND = 1_000_000
_new = object.__new__


def _made(micros: int) -> Instant:
    moment = _new(Timestamp)
    moment._precision = 6  # noqa: SLF001 (the class has no other door than its constructor)
    moment._seconds, moment._subseconds = divmod(micros, _MICROS_PER_SECOND)  # noqa: SLF001
    return moment  # type: ignore[no-any-return]


def _constructed(micros: int) -> Instant:
    return Timestamp(micros=micros)  # type: ignore[no-any-return]


def _is_true(make: Callable[[int], Instant]) -> bool:
    tries = (0, 1, -1, 1_234_567, -1_234_567, 10**15)
    try:
        return all(vars(make(t)) == vars(_constructed(t)) for t in tries)
    except (AttributeError, TypeError):
        return False


#: Gives the moment of so many microseconds.
moment_of: Callable[[int], Instant] = _made if _is_true(_made) else _constructed
