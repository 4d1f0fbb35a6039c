"""The conditions in which every workload is run, and what a run in one of them showed.

Frozen data and the rules that say which runs prove something. Starts nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from headrace.lab.ending import Ending
from headrace.lab.verdict import Verdict
from headrace.lab.workload import Mode

#: Epochs that a streaming run must have at least: with fewer, state crosses hardly any.
LEAST_EPOCHS = 3


class Condition(Enum):
    """How a workload is run; all but the first are streams whose events come out of order."""

    BATCH = "batch"  # 2 shards, the same events in the same order
    ONE_SHARD = "1 shard"
    TWO_SHARDS = "2 shards"
    FOUR_SHARDS = "4 shards"
    KILLED = "killed"  # 2 shards; the driver is killed once and started again

    @property
    def mode(self) -> Mode:
        """Batch or streaming."""
        return Mode.BATCH if self is Condition.BATCH else Mode.STREAMING

    @property
    def shards(self) -> int:
        """Into how many slices the key space is cut."""
        return {Condition.ONE_SHARD: 1, Condition.FOUR_SHARDS: 4}.get(self, 2)


#: What `--only` may ask for.
PARTS: dict[str, tuple[Condition, ...]] = {
    "batch": (Condition.BATCH,),
    "shards": (Condition.ONE_SHARD, Condition.TWO_SHARDS, Condition.FOUR_SHARDS),
    "kill": (Condition.KILLED,),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One workload in one condition."""

    workload: str  # its full name
    condition: Condition
    events: int  # that it was run with
    ending: Ending
    told: str = ""  # the reason, if it is not right; else how the driver was killed, if it was
    rows: int = 0  # that were compared; of an unbroken answer, that were given
    epochs: int | None = None  # None: not a stream
    seconds: float = 0.0  # of the run and of all that was done to judge it

    @property
    def bad(self) -> bool:
        """Whether the claim does not hold here."""
        return self.ending.bad


def find(
    verdict: Verdict | None, condition: Condition, epochs: int | None, rows: int
) -> tuple[Ending, str]:
    """Say what a run that has ended shows, and why if that is not all it should.

    Args:
        verdict: on the run.
        condition: in which it was made.
        epochs: that it had; None: it was not a stream.
        rows: that it gave, before the workload's rule for comparing chose among them.
    """
    if verdict is None:
        return Ending.FAILED, "nobody judged the answer"
    if not verdict.right:
        return Ending.WRONG, " ".join(verdict.lines())
    if not rows:
        return Ending.FAILED, "an answer without rows proves nothing: other settings are needed"
    if condition.mode is Mode.STREAMING and (epochs or 0) < LEAST_EPOCHS:
        return Ending.TOO_SHORT, f"{epochs} epochs are too few: give more events"
    if not verdict.expected:
        told = "its rows break no rule; which rows there must be depends on the clock"
        return Ending.UNBROKEN, told
    return Ending.RIGHT, ""
