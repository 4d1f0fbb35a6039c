"""What a finding is: one thing that is wrong with a run, named, with its evidence and a remedy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from headrace.plan.epoch_records import EpochRecord
from headrace.ui.graph import Graph

#: Epochs that a finding rests on.
LOOKED_AT = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong."""

    kind: str  # the same word for the same cause
    subject: str  # the step, source, sink or shard that is named
    sentence: str
    evidence: str
    remedy: str
    epoch: int  # the last one it was seen in


#: Takes the pipeline and the epochs that count, oldest first and at least one; gives findings.
Rule = Callable[[Graph, Sequence[EpochRecord]], Iterator[Finding]]
