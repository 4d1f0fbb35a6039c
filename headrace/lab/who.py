"""Who is measured: a system and what it is asked."""

from __future__ import annotations

from typing import NamedTuple


class Who(NamedTuple):
    """A system and what it is asked."""

    system: str
    question: str

    def __str__(self) -> str:
        return f"{self.system} {self.question}"
