"""State and timer of one key as a runner would keep them, in memory."""

from __future__ import annotations

from typing import Any

from apache_beam.utils.timestamp import Timestamp


class Bag:
    """A bag of one key."""

    def __init__(self) -> None:
        self.held: list[Any] = []

    def read(self) -> list[Any]:
        return list(self.held)

    def add(self, value: Any) -> None:
        self.held.append(value)

    def clear(self) -> None:
        self.held = []


class Value:
    """A value of one key."""

    def __init__(self) -> None:
        self.held: Any = None

    def read(self) -> Any:
        return self.held

    def write(self, value: Any) -> None:
        self.held = value

    def clear(self) -> None:
        self.held = None


class Bell:
    """The timer of one key."""

    def __init__(self) -> None:
        self.at: int | None = None

    def set(self, time: Timestamp) -> None:
        self.at = time.micros
