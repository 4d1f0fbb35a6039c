"""Streaming DataFrames of one run: our own loop brings some, Spark's queries bring the rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from headrace.engine.host import Arrived
from headrace.engine.sources.own_feeds import OwnFeeds, OwnSource
from headrace.engine.sources.queries import Queries
from headrace.state.files import Files


class MixedFeeds:
    """See `headrace.engine.host.Feeds`.

    Args:
        own: what our own loop asks.
        queries: Spark's.
        open_source: gives the source of a DataFrame; None: it is a query's.
    """

    def __init__(
        self, own: OwnFeeds, queries: Queries,
        open_source: Callable[[str, Any, Files, str], OwnSource | None],
    ) -> None:
        self._own, self._queries, self._open = own, queries, open_source
        self._closing = False

    @property
    def closing(self) -> bool:
        """Whether batches that come now are left for the next start."""
        return self._closing

    @closing.setter
    def closing(self, closing: bool) -> None:
        self._closing = self._own.closing = self._queries.closing = closing

    @property
    def started(self) -> Mapping[str, Any]:
        """Those that were started, running or not."""
        return {**self._queries.started, **self._own.started}

    def listen(self, name: str, frame: Any, files: Files, log: str, arrived: Arrived) -> None:
        """Begin to bring the batches of a DataFrame."""
        source = self._open(name, frame, files, log)
        if source is None:
            self._queries.listen(name, frame, files, log, arrived)
        else:
            self._own.ask(name, source, files, log, arrived)

    def is_started(self, name: str) -> bool:
        """Whether a DataFrame is listened to, or was."""
        return self._own.is_started(name) or self._queries.is_started(name)

    def is_listening(self, name: str) -> bool:
        """Whether a DataFrame may still bring rows."""
        return self._of(name).is_listening(name)

    def promised(self, name: str) -> int | None:
        """Give how many rows the batch that is being brought has at most."""
        return self._of(name).promised(name)

    def is_last(self, name: str) -> bool:
        """Whether nothing follows the batch that is being brought, of ours or of Spark's."""
        theirs = any(map(self._queries.is_listening, self._queries.started))
        return not theirs and self._of(name).is_last(name)

    def is_hungry(self) -> bool:
        """Whether a DataFrame of ours was left alone for long."""
        return self._own.is_hungry()

    def bring(self) -> bool:
        """Bring one batch of ours; Spark brings the others by itself."""
        return self._own.bring()

    def rest(self) -> float | None:
        """Give for how many seconds nobody need ask ours."""
        return self._own.rest()

    def failure(self) -> BaseException | None:
        """Give what ended a query that should have gone on."""
        return self._queries.failure()

    def end(self) -> None:
        """End all of them."""
        self._own.end()
        self._queries.end()

    def abandon(self) -> None:
        """End them whatever happens."""
        self._own.abandon()
        self._queries.abandon()

    def _of(self, name: str) -> OwnFeeds | Queries:
        return self._own if self._own.is_started(name) else self._queries
