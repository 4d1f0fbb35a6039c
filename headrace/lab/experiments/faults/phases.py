"""Says from the files of a dead run how far it had come in the commit of its last epoch.

Reads what the steps of the protocol leave behind: Spark's logs, change logs, the sinks' folders,
manifests. Knows the protocol, and nothing of who killed the run or why.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum
from pathlib import Path


class Phase(Enum):
    """How far a run had come; the steps are those of `headrace.engine.epoch_run`."""

    STARTING = "starting"  # it had not claimed the checkpoint
    BETWEEN = "between two epochs"  # nothing of the next epoch is to be seen
    OFFSETS = "offsets logged, nothing sealed"  # after step 1
    SEALING = "change logs written, no sink has rows"  # in or after step 2
    SINKS = "a sink has rows, no manifest"  # in or after step 3
    COMMITTED = "manifest written, Spark has not logged it"  # after step 4


@dataclass(frozen=True, slots=True)
class Progress:
    """What a checkpoint says of itself."""

    epoch: int  # the last one that counts; -1: none does
    incarnation: int  # the last driver that claimed it; 0: none did
    batches: tuple[int, ...]  # Spark's last batch of each source that counts


def status(checkpoint: Path) -> Progress:
    """Read the newest manifest and the number of the newest driver."""
    manifests = _numbered(checkpoint / "manifests")
    incarnation = max(_numbered(checkpoint / "incarnations"), default=0)
    if not manifests:
        return Progress(-1, incarnation, ())
    told = json.loads(manifests[max(manifests)].read_bytes().splitlines()[0])
    batches = told["batches"]
    return Progress(
        told["epoch"], incarnation, tuple(batches[name] for name in sorted(batches))
    )


def phase_of(checkpoint: Path, output: Path, *, claimed_before: int, since: float) -> Phase:
    """Give the phase in which a run died; see `phases_of`, which knows of more than one."""
    return phases_of(checkpoint, output, claimed_before=claimed_before, since=since)[0]


def phases_of(
    checkpoint: Path, output: Path, *, claimed_before: int, since: float
) -> tuple[Phase, ...]:
    """Give the phases in which a run died.

    Each source has a log of Spark's. While one has offered its next batch, Spark may not yet have
    logged that the last batch of another counts: then a run is in two phases at once.

    Args:
        checkpoint: its checkpoint.
        output: the folder of its sinks.
        claimed_before: the newest incarnation before it was started.
        since: when it was started; what is older was left by those before it.
    """
    found = status(checkpoint)
    if found.incarnation == claimed_before:
        return (Phase.STARTING,)
    following = found.epoch + 1
    if any(
        _changed(folder) >= since for folder in output.glob(f"*/epoch={following:08d}")
    ):
        return (Phase.SINKS,)
    if any((checkpoint / "state").glob(f"*/{following:08d}-{found.incarnation}-*")):
        return (Phase.SEALING,)
    sources = sorted((checkpoint / "spark").glob("*"))
    logged = [max(_numbered(source / "commits"), default=-1) for source in sources]
    offered = [max(_numbered(source / "offsets"), default=-1) for source in sources]
    known = dict(enumerate(found.batches))
    counted = [known.get(number, -1) for number in range(len(sources))]
    phases = []
    if any(done > last for done, last in zip(counted, logged, strict=True)):
        phases.append(Phase.COMMITTED)
    if any(new > max(two) for new, *two in zip(offered, logged, counted, strict=True)):
        phases.append(Phase.OFFSETS)
    return tuple(phases) or (Phase.BETWEEN,)


def _numbered(folder: Path) -> dict[int, Path]:
    """Give the files whose names are numbers; those being written, and sums of them, are not."""
    return {int(path.stem): path for path in folder.glob("[0-9]*") if path.stem.isdecimal()}


def _changed(folder: Path) -> float:
    return max((path.stat().st_mtime for path in (folder, *folder.iterdir())), default=0.0)
