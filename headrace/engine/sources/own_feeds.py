"""Batches of streaming DataFrames on our own loop, without Structured Streaming's queries.

A source says how far it could be read and gives the rows between two positions; who asks it, and
when, is decided here. The log is kept as Spark keeps it, in the same files and form: a batch's
offsets are logged before it is run, its commit after. One without a commit comes again at the next
start with the same rows, so a crash in any gap is what it is with Spark's queries.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol

from headrace.engine.host import Arrived
from headrace.engine.sources.queries import ENDING, EndingError
from headrace.errors import CheckpointError
from headrace.state.files import Files

#: Batches whose files stay in a log, as in Spark's.
KEPT_BATCHES = 100
#: Old files are looked for once in so many batches.
_SWEEP_BATCHES = 20
#: A look at a source is followed by a pause of so many times what it took.
_SHARE = 10
#: A source that others are waiting for is asked at least so often, whatever else is due.
PATIENCE_SECONDS = 0.5


class OwnSource(Protocol):
    """What is read by positions: values of JSON's, of which only the source knows the meaning."""

    #: How long to leave it alone after it had nothing new; 0: somebody wakes the loop.
    look_seconds: float

    def first(self) -> Any:
        """Give the position of a new run."""

    def advanced(self, start: Any) -> Any:
        """Give the end of the next batch, or the same position if there is nothing new."""

    def fix(self) -> None:
        """Take note of what is there now; what comes later is left for another run."""

    def rows(self, start: Any, end: Any) -> Any:
        """Give the rows between two positions, as a bounded DataFrame, the same every time."""

    def promised(self, start: Any, end: Any) -> int | None:
        """Give how many rows are read between two positions at most; None: nobody knows yet."""

    def counted(self, end: Any) -> None:
        """Hear that all up to a position counts."""

    def close(self) -> None:
        """Let go of what is held."""


#: Opens the source of a streaming DataFrame: the read's name, the frame, the checkpoint, the log.
Opener = Callable[[str, Any, Files, str], OwnSource]


class OwnQuery:
    """Brings the batches of one source, and keeps their log."""

    def __init__(
        self, name: str, source: OwnSource, files: Files, log: str, arrived: Arrived, *,
        available_now: bool = False, trigger_seconds: float = 0.0,
    ) -> None:
        self.name = name
        self.isActive = True
        self.source = source
        self._files, self._log, self._arrived = files, log, arrived
        self._available_now = available_now
        self._trigger = 0.0 if available_now else trigger_seconds  # an interval is for what comes
        if not files.exists(f"{log}/metadata"):
            self._note("metadata", json.dumps({"id": str(uuid.uuid4())}).encode())
        offered, done = newest(files, f"{log}/offsets"), newest(files, f"{log}/commits")
        self._batch = done + 1  # the next one
        self._start = source.first() if done < 0 else self._end_of(done)
        # Its offsets are logged and its commit is not: it comes again as it was.
        self._planned = self._end_of(offered) if offered > done else None
        self._next_look = 0.0
        self._looked = time.monotonic()
        if available_now:
            source.fix()

    def stop(self) -> None:
        """Bring no more."""
        self.isActive = False

    def is_last(self) -> bool:
        """Whether nothing follows the batch that is being brought."""
        end = self._planned
        return self._available_now and end is not None and self.source.advanced(end) == end

    def promised(self) -> int | None:
        """Give how many rows the batch that is being brought has at most; None: nobody knows."""
        end = self._planned
        return None if end is None else self.source.promised(self._start, end)

    def is_hungry(self) -> bool:
        """Whether it was left alone for long."""
        now = time.monotonic()
        if not self.isActive or not self.source.look_seconds or now < self._next_look:
            return False
        return now - self._looked > max(PATIENCE_SECONDS, self._trigger)

    def rest(self) -> float:
        """Give for how many seconds the source is left alone."""
        return max(0.0, self._next_look - time.monotonic())

    def bring(self) -> bool:
        """Bring the next batch, if there is one; say whether anything has happened."""
        if not self.isActive or time.monotonic() < self._next_look:
            return False
        began = self._looked = time.monotonic()
        end = self._planned
        if end is None:
            end = self.source.advanced(self._start)
            if end == self._start:
                if self._available_now:
                    self.isActive = False  # all that it was to read is read
                    return True
                now, pause = time.monotonic(), self.source.look_seconds
                # A source that is slow to answer is asked less often.
                self._next_look = now + (max(pause, _SHARE * (now - began)) if pause else 0.0)
                return False
            self._note(f"offsets/{self._batch}", offsets(end))
            self._planned = end
        try:
            self._arrived(self.name, partial(self.source.rows, self._start, end), self._batch)
        except EndingError:
            self.isActive = False
            raise
        self._note(f"commits/{self._batch}", b'v1\n{"nextBatchWatermarkMs":0}')
        self.source.counted(end)
        self._batch, self._start, self._planned = self._batch + 1, end, None
        self._next_look = began + self._trigger
        if self._batch % _SWEEP_BATCHES == 0:
            self._sweep()
        return True

    def _note(self, name: str, data: bytes) -> None:
        """Write a file of the log; as on Spark, one that is there is another query's."""
        if not self._files.create(f"{self._log}/{name}", data):
            self.isActive = False
            path = self._files.path(f"{self._log}/{name}")
            msg = f"{self.name}: {path} was written by another query; two drivers use this log"
            raise CheckpointError(msg)

    def _sweep(self) -> None:
        """Forget batches that nobody goes back to."""
        for kind in ("offsets", "commits"):
            names = self._files.names(f"{self._log}/{kind}")
            old = [name for name in names if -1 < _number(name) < self._batch - KEPT_BATCHES]
            self._files.delete(old)

    def _end_of(self, batch: int) -> Any:
        line = self._files.read(f"{self._log}/offsets/{batch}").decode().splitlines()[-1]
        return json.loads(line)


class OwnFeeds:
    """The streaming DataFrames of one run; see `headrace.engine.host.Feeds`.

    Args:
        opener: opens the source of a DataFrame that is listened to.
        available_now: read what is there now, then end.
        trigger_seconds: between the beginnings of two batches of a DataFrame that goes on; 0: none.
    """

    def __init__(
        self, opener: Opener | None = None, *, available_now: bool = False,
        trigger_seconds: float = 0.0,
    ) -> None:
        self._open = opener
        self._available_now, self._trigger = available_now, trigger_seconds
        self._queries: dict[str, OwnQuery] = {}
        self._turn = 0
        self.closing = False

    @property
    def started(self) -> Mapping[str, OwnQuery]:
        """Those that were started, running or not."""
        return dict(self._queries)

    def listen(self, name: str, frame: Any, files: Files, log: str, arrived: Arrived) -> None:
        """Begin to bring the batches of a DataFrame."""
        assert self._open is not None
        self.ask(name, self._open(name, frame, files, log), files, log, arrived)

    def ask(
        self, name: str, source: OwnSource, files: Files, log: str, arrived: Arrived
    ) -> None:
        """Begin to bring the batches of a source."""
        self._queries[name] = OwnQuery(
            name, source, files, log, arrived,
            available_now=self._available_now, trigger_seconds=self._trigger,
        )

    def is_started(self, name: str) -> bool:
        """Whether a DataFrame is listened to, or was."""
        return name in self._queries

    def is_listening(self, name: str) -> bool:
        """Whether a DataFrame may still bring rows."""
        return name not in self._queries or self._queries[name].isActive

    def promised(self, name: str) -> int | None:
        """Give how many rows the batch that is being brought has at most."""
        return self._queries[name].promised()

    def is_last(self, name: str) -> bool:
        """Whether nothing follows the batch that is being brought, of this DataFrame or another."""
        others = (query for other, query in self._queries.items() if other != name)
        return not any(query.isActive for query in others) and self._queries[name].is_last()

    def is_hungry(self) -> bool:
        """Whether a DataFrame was left alone for long."""
        return any(query.is_hungry() for query in self._queries.values())

    def bring(self) -> bool:
        """Bring one batch; DataFrames take turns."""
        queries = list(self._queries.values())
        for _ in queries:
            query = queries[self._turn % len(queries)]
            self._turn += 1
            try:
                if query.bring():
                    return True
            except EndingError as error:
                if ENDING not in str(error):
                    raise
                return True  # the run knows why, and raises it
        return False

    def rest(self) -> float | None:
        """Give for how many seconds no source need be asked; None: none has to be by itself."""
        rests = [
            query.rest() for query in self._queries.values()
            if query.isActive and query.source.look_seconds
        ]
        return min(rests, default=None)

    def failure(self) -> BaseException | None:
        """Nothing fails here but in the loop itself."""
        return None

    def end(self) -> None:
        """Bring no more."""
        for query in self._queries.values():
            query.stop()
            query.source.close()

    def abandon(self) -> None:
        """Bring no more."""
        self.end()


def offsets(end: Any) -> bytes:
    """Give a file of offsets in Spark's form: a version, its own settings, where the source is."""
    settings = {
        "batchWatermarkMs": 0, "batchTimestampMs": time.time_ns() // 1_000_000, "conf": {}
    }
    return f"v1\n{json.dumps(settings)}\n{json.dumps(end)}".encode()


def newest(files: Files, folder: str) -> int:
    """Give the greatest number among the names of a folder's files; -1 if there is none."""
    return max(map(_number, files.names(folder)), default=-1)


def _number(name: str) -> int:
    base = name.rpartition("/")[2]
    return int(base) if base.isdigit() else -1
