"""What one experiment on one system and question writes down, into the notes of the whole run.

Experiments say what a figure is called and what it is; who it is about is said once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from headrace.lab.experiments.sustainable import Probe
from headrace.lab.notes import Notes
from headrace.lab.record.trial import Trial
from headrace.lab.results.summary import Better
from headrace.lab.statistics.intervals import Interval
from headrace.lab.who import Who


class Figures:
    """The figures of one experiment on one system and question, and what is behind them.

    Args:
        notes: of the run.
        who: system and question.
        experiment: its name.
        told: hears what is done, a line each.
    """

    def __init__(
        self, notes: Notes, who: Who, experiment: str, told: Callable[[str], None]
    ) -> None:
        self._notes, self._who, self._experiment = notes, who, experiment
        self._told = told

    def told(self, text: str) -> None:
        """Say what was done."""
        self._told(f"{self._who}: {text}")

    def keep(self, trial: Trial, number: int = 0) -> None:
        """Keep the samples of a trial; several of an experiment have numbers from 0."""
        self._notes.keep(self._who, self._experiment, number, trial)

    def probed(self, probes: Iterable[Probe]) -> None:
        """Write down the rates that a search has tried."""
        self._notes.probed(self._who, self._experiment, 0, probes)

    def add(
        self, label: str, unit: str, interval: Interval | None, void: str = "",
        better: Better = Better.LOWER,
    ) -> None:
        """Add a figure with an interval."""
        self._notes.add(self._who, self._experiment, label, unit, better, interval, (), void)

    def plain(
        self, label: str, unit: str, value: float | None, void: str = "",
        better: Better = Better.LOWER,
    ) -> None:
        """Add a figure of one value."""
        self._notes.plain(self._who, self._experiment, label, unit, value, void, better)
