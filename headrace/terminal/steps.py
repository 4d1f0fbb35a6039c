"""The table of a pipeline's steps, for every display that shows one.

Takes how each step stands, gives the table's texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.terminal.view import duration, lag, moment, number, shortened, size

HEAD = ("step", "elements", "rate", "watermark", "lag", "state", "busy")
#: The longest name that is shown whole.
NAME_WIDTH = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class StepView:
    """How one step of the user's pipeline stands."""

    name: str
    elements: int = 0  # that have left it
    rate: float | None = None  # elements per second; None: not known yet
    watermark: int | None = None  # of its output, in microseconds; None: it holds nothing back
    state_bytes: int | None = None  # None: it keeps none
    busy_seconds: float = 0.0  # that its code has run, on all shards together


def table(steps: Sequence[StepView], now: float) -> tuple[tuple[str, ...], ...]:
    """Give the rows below `HEAD`; a watermark of this day without the day."""
    today = moment(round(now * 1e6))[:11]
    return tuple(
        (
            shortened(step.name, NAME_WIDTH),
            number(step.elements),
            "" if step.rate is None else f"{number(step.rate)}/s",
            moment(step.watermark).removeprefix(today),
            lag(step.watermark, now),
            "" if step.state_bytes is None else size(step.state_bytes),
            duration(step.busy_seconds),
        )
        for step in steps
    )


class Rates:
    """Elements per second of many names over the last few looks; one look alone would jump."""

    _SECONDS = 6.0

    def __init__(self) -> None:
        self._looks: list[tuple[float, dict[str, int]]] = []

    def at(self, seconds: float, counts: dict[str, int]) -> dict[str, float]:
        """Take one look; give the rates since the oldest one that is remembered."""
        kept = [look for look in self._looks if look[0] >= seconds - self._SECONDS]
        self._looks = [*(kept or self._looks[-1:]), (seconds, dict(counts))]
        then, before = self._looks[0]
        if seconds <= then:
            return {}
        return {
            name: max(0, count - before.get(name, 0)) / (seconds - then)
            for name, count in counts.items()
        }
