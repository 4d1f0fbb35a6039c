"""What a run writes down while it measures: figures, raw samples, probes, and who really ran.

Takes what experiments find, gives records. Decides nothing but how a record looks: what is void has
no value. Knows no system and no experiment.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from headrace.lab.experiments.sustainable import Probe
from headrace.lab.record.trial import Trial
from headrace.lab.results.samples import Kept
from headrace.lab.results.summary import Better, Figure, ProbeRecord
from headrace.lab.statistics.intervals import Interval, of_repeats
from headrace.lab.who import Who

#: Results of a trial whose times are kept. Of more every nth is: tens of millions of a search would
#: fill the memory of a long run, and no quantile of a plot needs them.
MOST_KEPT = 20_000


class Notes:
    """The records of one run."""

    def __init__(self) -> None:
        self.figures: list[Figure] = []
        self.kept: list[Kept] = []
        self.probes: list[ProbeRecord] = []
        self.engines: dict[str, str] = {}  # system -> what really ran

    def keep(self, who: Who, experiment: str, repeat: int, trial: Trial) -> None:
        """Keep the samples of a trial."""
        self.engines[who.system] = trial.engine
        self.kept.append(Kept(
            system=who.system, question=who.question, experiment=experiment, repeat=repeat,
            trial=_thinned(trial),
        ))

    def keep_queue(self, who: Who, experiment: str, repeat: int, trial: Trial) -> None:
        """Keep the queue of a trial, and none of its results."""
        bare = replace(trial, due=np.zeros(0), left=np.zeros(0), stages={})
        self.kept.append(Kept(
            system=who.system, question=who.question, experiment=experiment, repeat=repeat,
            trial=bare,
        ))

    def probed(self, who: Who, experiment: str, repeat: int, probes: Iterable[Probe]) -> None:
        """Write down the rates that a search has tried."""
        self.probes += (
            ProbeRecord(
                system=who.system, question=who.question, experiment=experiment, repeat=repeat,
                rate=probe.rate, status=probe.status.value, reason=probe.reason,
                is_confirmation=probe.is_confirmation,
            )
            for probe in probes
        )

    def plain(
        self, who: Who, experiment: str, label: str, unit: str, value: float | None, void: str,
        better: Better = Better.LOWER,
    ) -> None:
        """Write down a figure that was measured once."""
        interval = None if value is None else of_repeats([float(value)])
        self.add(who, experiment, label, unit, better, interval, (), void)

    def add(
        self, who: Who, experiment: str, label: str, unit: str, better: Better,
        interval: Interval | None, repeats: Sequence[float], void: str,
    ) -> None:
        """Write down a figure."""
        counted = None if void else interval
        self.figures.append(Figure(
            system=who.system, question=who.question, experiment=experiment, name=label,
            unit=unit, better=better,
            value=None if counted is None else counted.value,
            low=None if counted is None else counted.low,
            high=None if counted is None else counted.high,
            repeats=() if void else tuple(float(value) for value in repeats), void=void,
        ))


def _thinned(trial: Trial) -> Trial:
    """Give a trial with as many results as are kept."""
    step = -(-len(trial.due) // MOST_KEPT)
    if step <= 1:
        return trial
    return replace(
        trial, due=trial.due[::step].copy(), left=trial.left[::step].copy(),
        stages={name: of_all[::step].copy() for name, of_all in trial.stages.items()},
    )
