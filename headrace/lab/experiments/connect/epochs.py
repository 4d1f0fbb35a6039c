"""How long epochs of our own loop take on a Connect server, and how often they ask it something.

The pipelines are those of `headrace lab run streaming ownloop`. Times depend on what else the
machine does, the number of requests does not: each is a round trip to wherever the server is.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest.mock import patch

from headrace.engine.epoch_run import EpochRunner
from headrace.lab.experiments.streaming.bed import Bed, load
from headrace.lab.experiments.streaming.epoch import COLD_EPOCHS, ROWS
from headrace.lab.experiments.streaming.figures import Bar, CaseResult, Line
from headrace.lab.experiments.streaming.ownloop import BAR_MILLIS, own_epochs

EMPTY, TINY = "an empty epoch", "a tiny epoch with one exchange"
STAGES = "the same in stages"


@contextmanager
def requests() -> Iterator[list[str]]:
    """Give what is asked of servers while the block lasts, by the names of Connect's own calls."""
    from pyspark.sql.connect.client.core import SparkConnectClient as Client

    found: list[str] = []

    def noted(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def asked(client: Any, *args: Any, **more: Any) -> Any:
            found.append(name)
            return call(client, *args, **more)

        return asked

    names = ("_execute_and_fetch_as_iterator", "_execute", "_analyze", "config", "add_artifacts")
    patches = [patch.object(Client, name, noted(name, getattr(Client, name))) for name in names]
    for each in patches:
        each.start()
    try:
        yield found
    finally:
        for each in patches:
            each.stop()


@contextmanager
def asked_in_epochs() -> Iterator[list[list[str]]]:
    """Give what each epoch asks of the server, of those that are run while the block lasts."""
    found: list[list[str]] = []
    run = EpochRunner.run
    with requests() as asked:

        def noted(runner: EpochRunner, *args: Any) -> None:
            before = len(asked)
            run(runner, *args)
            found.append(asked[before:])

        with patch.object(EpochRunner, "run", noted):
            yield found


def measure(
    session: Any, say: Callable[[str], None], *, epochs: int, rounds: int
) -> CaseResult:
    """Run all of them in turns."""
    if epochs <= COLD_EPOCHS:
        msg = f"{epochs} epochs: must be more than {COLD_EPOCHS}"
        raise ValueError(msg)
    bed, before = Bed(spark=session, cores=2, say=say), load()
    kinds: dict[str, Callable[..., tuple[list[float], list[str]]]] = {
        EMPTY: partial(own_epochs, small=True, empty=True), TINY: partial(own_epochs, small=True),
        STAGES: own_epochs,
    }
    samples: dict[str, list[float]] = {name: [] for name in kinds}
    asked: dict[str, list[int]] = {name: [] for name in kinds}
    wrong: list[str] = []
    for number in range(rounds):
        for name, run in kinds.items():
            with asked_in_epochs() as found:
                millis, complaints = run(bed, epochs, kept=True)
            samples[name] += millis[COLD_EPOCHS:epochs]
            wrong += complaints
            asked[name] += map(len, found[COLD_EPOCHS:epochs])
            last = statistics.median(millis[COLD_EPOCHS:epochs])
            say(f"epochs, round {number + 1}: {name}: {last:.0f} ms")
    lines = {
        name: Line(
            name=name, unit="ms per epoch", samples=tuple(found),
            details={"requests": statistics.median(asked[name])},
        )
        for name, found in samples.items()
    }
    return CaseResult(
        case="connect", what=f"an epoch of {ROWS} rows or none, on a server of 2 cores",
        lines=tuple(lines.values()),
        bars=tuple(
            Bar(what=f"{name}, ms", value=lines[name].median, limit=BAR_MILLIS, at_most=True)
            for name in (EMPTY, TINY)
        ),
        wrong=tuple(wrong), load=(before, load()),
    )
