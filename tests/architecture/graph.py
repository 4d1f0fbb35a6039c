"""Decides which of some things lie on a circle, by who asks for whom.

Takes pairs of names, gives names. Knows nothing of modules and files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def circles(pairs: Iterable[tuple[str, str]]) -> tuple[tuple[str, ...], ...]:
    """Every set of names that reach one another, each in the order of its names.

    What asks for itself is no circle.
    """
    asked: dict[str, set[str]] = {}
    for one, other in pairs:
        asked.setdefault(one, set()).add(other)
        asked.setdefault(other, set())
    reached = {name: _reached(name, asked) for name in asked}
    found = {
        tuple(sorted(other for other in reached[name] if name in reached[other]))
        for name in asked
        if name in reached[name]
    }
    return tuple(sorted(circle for circle in found if len(circle) > 1))


def _reached(start: str, asked: Mapping[str, set[str]]) -> set[str]:
    """What a name reaches by one step or more."""
    found: set[str] = set()
    waiting = [start]
    while waiting:
        for name in asked[waiting.pop()] - found:
            found.add(name)
            waiting.append(name)
    return found
