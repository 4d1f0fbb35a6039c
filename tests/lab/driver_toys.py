"""Counters for drivers that are killed: one that goes on with its checkpoint, and those that err.

Each counts the events of every window and key, as the question `count` asks; its checkpoint is a
file with how far it has read and what it holds, written whole after the rows have left.
"""

from __future__ import annotations

import os
import pickle
import time
from collections import Counter
from pathlib import Path
from typing import Any

from headrace.lab.data_engine.client import EngineClient
from headrace.lab.data_engine.launch import Feed
from headrace.lab.endpoints.kept_rows import KeptRows
from headrace.lab.systems.system import Outcome, Request, checkpoint_of
from headrace.lab.workload import Mode


class Toy:
    """Counts in plain Python; its name says how it goes on."""

    def __init__(self, name: str) -> None:
        self.name = name

    def prepare(self, request: Request) -> None:
        """Nothing is to be started."""

    def stop(self) -> None:
        """Nothing was started."""

    def run(self, request: Request) -> Outcome:
        """Count to the end, an epoch for every look at the queue."""
        (address,) = Feed.read(request.source.path).addresses
        checkpoint = checkpoint_of(request) / "state"
        checkpoint.parent.mkdir(exist_ok=True)
        state: dict[str, Any] = {"epoch": 0, "at": 0, "counts": Counter(), "lasts": {}}
        if checkpoint.exists():
            if self.name == "failing":
                msg = "the checkpoint cannot be read"
                raise RuntimeError(msg)
            state = pickle.loads(checkpoint.read_bytes())
            if self.name == "forgetful":
                state["counts"] = Counter()
        left = KeptRows(Path(request.sink.path))
        with EngineClient(address) as client:
            while not self._epoch(client, request.settings.window_ms, state, left):
                unfinished = checkpoint.with_suffix(".new")
                unfinished.write_bytes(pickle.dumps(state))
                os.replace(unfinished, checkpoint)
                client.acknowledge(state["at"])
                time.sleep(0.3)  # long beside what a busy machine adds to it
        return Outcome(
            system=self.name, engine="a loop", mode=Mode.STREAMING, events=state["at"],
            seconds=1.0, rows=None, row_count=None, checkpoint_bytes=checkpoint.stat().st_size,
            stamped=tuple((at, tuple(rows)) for at, rows in left.read().values()),
        )

    def _epoch(
        self, client: EngineClient, size: int, state: dict[str, Any], left: KeptRows
    ) -> bool:
        batches, status = client.pull(state["at"], 100_000, wait=0.02)
        counts, lasts = state["counts"], state["lasts"]
        for batch in batches:
            state["at"] += batch.num_rows
            millis = batch.column("nanos").to_numpy() // 1_000_000 // size * size
            keys, numbers = (batch.column(n).to_pylist() for n in ("key", "number"))
            for window, key, number in zip(millis.tolist(), keys, numbers, strict=True):
                counts[window, key] += 1
                lasts[window, key] = number
        done = status.ended and state["at"] >= status.total
        newest = max((window for window, _ in counts), default=0)
        ready = [place for place in counts if place[0] < newest or done]
        rows = [(*place, counts.pop(place), lasts[place]) for place in ready]
        if rows:
            left.keep(state["epoch"], time.time(), rows)
        state["epoch"] += 1
        return done


def make(name: str, *, master: str) -> Toy:
    """Make one, as `choose` makes systems."""
    del master
    return Toy(name)
