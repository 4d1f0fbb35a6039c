"""Says how one shard has fared in an epoch: what was late, what waits, what holds time back.

Takes the stages of a task at the end of an epoch, gives figures for its report: a few per stage,
none per element. Decides nothing.
"""

from __future__ import annotations

import os
import re
import socket
import time
from typing import Any

from headrace.worker.beam_types import Value
from headrace.worker.task.build import Built
from headrace.worker.task.stage import StageRun

#: Elements that are shown of one stage and epoch, and letters of each.
SAMPLES, SHOWN_LETTERS = 3, 200
#: A name that Beam makes up for rows of a schema.
_ROW = re.compile(r"^BeamSchema_\w+")


def late_of(built: Built) -> dict[int, int]:
    """Give how many elements each stage has dropped as too late; stages with none are not in.

    A grouping counts for the stage that reads what it makes.
    """
    found: dict[int, int] = {}
    counted: set[int] = set()
    for stage in built.stages:
        count = 0 if stage.late is None else stage.late.dropped
        for port in stage.stage.reads:
            grouper = built.groupers.get(port.channel)
            if grouper is not None and id(grouper) not in counted:
                counted.add(id(grouper))
                count += grouper.dropped
        if count:
            found[stage.number] = count
    return found


def waiting_of(built: Built) -> dict[int, int]:
    """Give how many elements wait for side inputs, by stage; those where none waits are not in."""
    counts = {s.number: s.pending.count() for s in built.stages if s.pending is not None}
    return {stage: count for stage, count in counts.items() if count}


def hold_of(stage: StageRun, watermark: int, grouped: int) -> tuple[str, int] | None:
    """Say what holds the output watermark of a stage behind its input's; None: nothing does.

    Args:
        stage: after it has advanced.
        watermark: of its input.
        grouped: how far its groupings let time go.
    """
    what, least = min({"panes": grouped, **stage.holds}.items(), key=lambda hold: hold[1])
    return (what, least) if least < watermark else None


class Telling:
    """What one task tells of an epoch beside its results.

    Args:
        samples: whether some elements are shown.
    """

    def __init__(self, *, samples: bool) -> None:
        self._asked = samples
        self._began = self._sealing = 0.0
        self._holds: dict[int, tuple[str, int]] = {}  # by stage
        self._late: dict[int, int] = {}
        self._waiting: dict[int, int] = {}
        self._samples: dict[int, Samples] = {}  # by stage, if somebody asked

    def begin(self, built: Built) -> None:
        """Begin an epoch."""
        self._began = time.monotonic()
        self._holds = {}
        if self._asked:
            self._samples = {stage.number: Samples() for stage in built.stages}
            for stage in built.stages:
                stage.bundles.see = self._samples[stage.number].see

    def advanced(self, stage: StageRun, watermark: int, grouped: int) -> None:
        """Take what holds a stage back that has just advanced; see `hold_of`."""
        if (hold := hold_of(stage, watermark, grouped)) is not None:
            self._holds[stage.number] = hold

    def seals(self, built: Built) -> None:
        """From here on, state is written to the checkpoint, and cannot be asked any more."""
        self._late, self._waiting = late_of(built), waiting_of(built)
        self._sealing = time.monotonic()

    def figures(self, built: Built, *, holds: bool) -> dict[str, Any]:
        """Give fields of a `ShardReport`, once state is written; `holds`: time is told of here."""
        late, waiting, now = self._late, self._waiting, time.monotonic()
        return {
            "dropped": sum(late.values()), "late": late,
            "pushed_back": sum(waiting.values()), "waiting": waiting,
            "holds": self._holds if holds else {},
            "keys": built.outlets.watched,
            "samples": {n: found.shown for n, found in self._samples.items() if found.shown},
            "seconds": now - self._began, "sealing": now - self._sealing,
            "host": f"{socket.gethostname()}/{os.getpid()}",
        }  # fmt: skip


class Samples:
    """The first elements that came to a stage in an epoch, as Python writes them."""

    def __init__(self) -> None:
        self.shown: list[str] = []

    def see(self, values: list[Value]) -> None:
        """Take a batch; of most batches nothing is looked at."""
        if len(self.shown) < SAMPLES and len(values):
            self.shown.append(_shown(next(iter(values[:1]))))


def _shown(value: Value) -> str:
    try:
        text = _ROW.sub("row", repr(value), count=1)
    except Exception:  # noqa: BLE001 (a look at an element must not fail the pipeline)
        text = f"a {type(value).__name__}"
    return text if len(text) <= SHOWN_LETTERS else text[:SHOWN_LETTERS] + "..."
