"""Keeps what has been seen of a run: records of epochs, sums, and what is wrong with it.

Takes records as they come, from any thread; gives the data of the page and of `/metrics`. Costs a
few additions for each epoch: findings are looked for when somebody asks.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from headrace.plan.epoch_records import EpochRecord, HotRecord, RetryRecord
from headrace.ui.finding import Finding
from headrace.ui.findings import findings
from headrace.ui.graph import Graph

#: Epochs that are kept, and those that one answer has at most.
KEPT, AT_ONCE = 600, 240


@dataclass(kw_only=True)
class Totals:
    """Sums since this process began to watch."""

    epochs: int = 0
    retries: int = 0
    seconds: float = 0.0
    tasks: float = 0.0
    commit: float = 0.0
    waited: float = 0.0  # for publishing
    sinks: dict[str, float] = field(default_factory=dict)  # seconds by sink
    published: dict[str, float] = field(default_factory=dict)  # seconds by sink, beside epochs
    into: dict[str, int] = field(default_factory=dict)  # elements by step
    out: dict[str, int] = field(default_factory=dict)
    busy: dict[str, float] = field(default_factory=dict)  # seconds by step
    late: dict[int, int] = field(default_factory=dict)  # elements by stage
    untimed: int = 0

    def add(self, record: EpochRecord) -> None:
        """Count one more epoch."""
        self.epochs += 1
        self.seconds += record.seconds
        self.tasks += record.tasks
        self.commit += record.commit
        self.waited += record.waited
        self.untimed += record.untimed
        for sink, spent in record.sinks.items():
            self.sinks[sink] = self.sinks.get(sink, 0.0) + spent
        for sink, spent in record.published.items():
            self.published[sink] = self.published.get(sink, 0.0) + spent
        for name, step in record.steps.items():
            self.into[name] = self.into.get(name, 0) + step.into
            self.out[name] = self.out.get(name, 0) + step.out
            self.busy[name] = self.busy.get(name, 0.0) + step.busy
        for stage, count in record.late.items():
            self.late[stage] = self.late.get(stage, 0) + count


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """All that is known of a run at one moment."""

    graph: Graph
    state: str  # Beam's word for how far it is
    epochs: tuple[EpochRecord, ...]
    failing: tuple[RetryRecord, ...]
    totals: Totals
    findings: tuple[Finding, ...]


class History:
    """What has been seen of one run.

    Args:
        graph: the pipeline.
        samples: whether elements, and what exceptions said, may be shown.
        keys: whether hot keys may be shown by name.
        kind: what is watched: "run", or "checkpoint" where manifests alone tell of it.
    """

    def __init__(
        self, graph: Graph, *, samples: bool = False, keys: bool = True, kind: str = "run"
    ) -> None:
        self._graph = graph
        self._samples, self._keys, self._kind = samples, keys, kind
        self._lock = threading.Lock()
        self._epochs: deque[EpochRecord] = deque(maxlen=KEPT)
        self._failing: list[RetryRecord] = []
        self._totals = Totals()
        self._state = "RUNNING"
        self._failure = ""

    def epoch(self, record: EpochRecord) -> None:
        """An epoch has come to count."""
        if not self._samples or not self._keys:
            record = self._without_data(record)
        with self._lock:
            self._epochs.append(record)
            self._totals.add(record)
            self._failing = []

    def _without_data(self, record: EpochRecord) -> EpochRecord:
        """Take out what may be private."""
        if not self._samples:
            record = replace(
                record, samples={}, retries=tuple(replace(r, text="") for r in record.retries)
            )
        if not self._keys:
            hidden = {
                channel: HotRecord(
                    elements=hot.elements,
                    keys={f"(hidden {n})": c for n, c in enumerate(hot.keys.values(), 1)},
                )
                for channel, hot in record.hot.items()
            }
            record = replace(record, hot=hidden)
        return record

    def retry(self, record: RetryRecord) -> None:
        """A try at an epoch has failed."""
        shown = record if self._samples else replace(record, text="")
        with self._lock:
            self._failing.append(shown)
            self._totals.retries += 1

    def ended(self, state: str, failure: RetryRecord | None = None) -> None:
        """The run is over."""
        words = ""
        if failure is not None:
            where = f" in step {failure.step}" if failure.step else ""
            words = f"{failure.error}{where}" + (f": {failure.text}" if self._samples else "")
        with self._lock:
            self._state, self._failure = state, words

    def seen(self) -> Seen:
        """Give all that is known, with what is wrong."""
        with self._lock:
            epochs, failing = tuple(self._epochs), tuple(self._failing)
            totals, state = deepcopy(self._totals), self._state
        return Seen(
            graph=self._graph, state=state, epochs=epochs, failing=failing, totals=totals,
            findings=tuple(findings(self._graph, epochs, failing)),
        )

    def document(self, since: int = -1) -> dict[str, Any]:
        """Give what the page shows, as plain data; of epochs, those after `since`."""
        seen = self.seen()
        new = [record for record in seen.epochs if record.epoch > since][-AT_ONCE:]
        return {
            "kind": self._kind,
            "name": seen.graph.name,
            "state": seen.state,
            "failure": self._failure,
            "shards": seen.graph.shards,
            "samples": self._samples,
            "graph": _plain(seen.graph),
            "findings": [asdict(finding) for finding in seen.findings],
            "failing": [asdict(retry) for retry in seen.failing],
            "epochs": [asdict(record) for record in new],
            "retries": seen.totals.retries,
            "first": seen.epochs[0].epoch if seen.epochs else None,
        }  # fmt: skip


def _plain(graph: Graph) -> Mapping[str, Any]:
    return {
        "stages": [asdict(stage) for stage in graph.stages.values()],
        "channels": [asdict(channel) for channel in graph.channels.values()],
    }
