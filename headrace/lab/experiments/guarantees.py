"""What has a run shown of what a system promises: exactly once, order, durability?

Takes what every trial of the run has shown, gives a line for each promise. A claim counts for
nothing here: what no trial has asked for is not shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from headrace.lab.record.trial import Load, PacedBench, SeriesBench, Trial, Work

#: How a void trial says that the system itself has ended.
FAILED = "the system failed"
#: The faults that ask for a promise.
KILLED_WORKER, KILLED_DRIVER = "kill-worker", "kill-driver"
#: The questions whose answer depends on the order of a key's events.
ORDERED = ("state",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What one trial has shown."""

    system: str
    question: str
    fault: str  # its kind; empty: there was none
    void: str  # why it shows nothing; empty if it does
    rows: int  # of the answer
    wrong: str  # what is wrong with the answer; empty: it is right
    checkpoint_bytes: int | None  # None: there was no checkpoint


class Witness:
    """A bench whose trials are noted.

    Args:
        bench: makes them.
        system: the name in the spec.
        question: what is asked.
        note: takes what each has shown.
    """

    def __init__(
        self, bench: PacedBench, system: str, question: str, note: Callable[[Seen], None]
    ) -> None:
        self._bench, self._system, self._question, self._note = bench, system, question, note

    @property
    def name(self) -> str:
        """The system's name."""
        return self._bench.name

    def trial(self, load: Load) -> Trial:
        """Run once."""
        return self._noted(self._bench.trial(load))

    def series(self, work: Work, rate: float) -> tuple[Trial, ...]:
        """Run once under several loads; each is noted when its rows are known."""
        return tuple(map(self._noted, self._bench.series(work, rate)))

    def paced(self, steps: Mapping[str, float]) -> SeriesBench:
        """Give the bench with other steps, whose trials are noted no more."""
        return self._bench.paced(steps)

    def _noted(self, trial: Trial) -> Trial:
        fault = trial.load.fault
        self._note(Seen(
            system=self._system, question=self._question,
            fault="" if fault is None else fault.kind, void=trial.void,
            rows=trial.verdict.expected, wrong="" if trial.void else trial.trouble,
            checkpoint_bytes=trial.cost.checkpoint_bytes,
        ))
        return trial


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """What was shown of one promise."""

    name: str
    shown: bool | None  # None: it was not asked for, or nothing that was counts
    evidence: str


def promises(system: str, seen: Iterable[Seen]) -> tuple[Promise, ...]:
    """Say what the trials of a system have shown."""
    own = [each for each in seen if each.system == system]
    return (_exactly_once(own), _order(own), _durability(own))


def _exactly_once(seen: Sequence[Seen]) -> Promise:
    name = "exactly once after a killed worker"
    hurt = [each for each in seen if each.fault == KILLED_WORKER]
    if not hurt:
        return Promise(name=name, shown=None, evidence="no worker was killed in this run")
    return _survived(name, hurt, "every row came once")


def _survived(name: str, hurt: Sequence[Seen], right: str) -> Promise:
    """Say what runs show of a promise that were done harm."""
    wrong = [each for each in hurt if each.wrong or each.void.startswith(FAILED)]
    if wrong:
        said = "; ".join(f"{each.question}: {each.wrong or each.void}" for each in wrong)
        return Promise(name=name, shown=False, evidence=said)
    whole = [each for each in hurt if not each.void]
    if not whole:
        said = "; ".join(f"{each.question}: {each.void}" for each in hurt)
        return Promise(name=name, shown=None, evidence=said)
    said = ", ".join(f"{each.question} {each.rows:,} rows" for each in whole)
    return Promise(name=name, shown=True, evidence=f"{right}: {said}")


def _order(seen: Sequence[Seen]) -> Promise:
    name = "order of a key's events"
    asked = [each for each in seen if each.question in ORDERED and not each.void]
    wrong = [each for each in asked if each.wrong]
    if wrong:
        return Promise(name=name, shown=False, evidence=wrong[0].wrong)
    if not any(each.rows for each in asked):
        return Promise(name=name, shown=None, evidence="no question of this run depends on it")
    rows = sum(each.rows for each in asked)
    said = f"running totals of {rows:,} rows were right in {len(asked)} runs, from one partition"
    return Promise(name=name, shown=True, evidence=said)


def _durability(seen: Sequence[Seen]) -> Promise:
    name = "durability of state"
    killed = [each for each in seen if each.fault == KILLED_DRIVER]
    if killed:
        right = "the driver was killed and started again on its checkpoint, every row came once"
        return _survived(name, killed, right)
    counted = [each for each in seen if not each.void]
    if not counted:
        return Promise(name=name, shown=None, evidence="no run counts")
    sizes = [each.checkpoint_bytes for each in counted if each.checkpoint_bytes]
    if not sizes:
        said = "no run left a checkpoint: what it holds is in memory alone"
        return Promise(name=name, shown=False, evidence=said)
    said = f"a checkpoint was written, up to {max(sizes):,} bytes; no driver was killed in this run"
    return Promise(name=name, shown=None, evidence=said)
