"""Watches a streaming run and serves its page while it goes on.

Takes a stream that is about to run; gives the address. What fails here fails before the first
epoch, and by name; afterwards the page cannot harm the run.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from headrace.plan.epoch_records import retry_of
from headrace.plan.supersteps import Plan
from headrace.ui.graph import graph_of
from headrace.ui.history import History
from headrace.ui.server import PageServer, is_loopback


class Watched(Protocol):
    """A run that tells of its epochs; see `headrace.engine.stream.Stream`."""

    @property
    def watchers(self) -> list[Any]:
        """Whom it tells: `epoch(record)` and `retry(record)` are called."""


class Asked(Protocol):
    """What was asked of the page."""

    @property
    def host(self) -> str:
        """Where it listens."""

    @property
    def port(self) -> int | None:
        """At which port; None: one of a few."""

    @property
    def samples(self) -> bool:
        """Whether elements may be shown."""

    @property
    def keys(self) -> bool:
        """Whether hot keys may be named."""


@contextmanager
def watching(stream: Watched, plan: Plan, asked: Asked) -> Iterator[str]:
    """Serve the page of a run while the block runs; give its address."""
    history = History(graph_of(plan), samples=asked.samples, keys=asked.keys)
    server = PageServer(history, host=asked.host, port=asked.port)
    open_to = "" if is_loopback(asked.host) else ", open to whoever can reach this machine"
    print(f"headrace: live page at {server.url}{open_to}", file=sys.stderr, flush=True)
    stream.watchers.append(history)
    try:
        yield server.url
        history.ended("ENDED")
    except BaseException as error:
        history.ended("FAILED", retry_of(-1, error))
        raise
    finally:
        server.close()
