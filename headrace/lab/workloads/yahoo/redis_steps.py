"""The two steps of the Yahoo pipeline that talk to Redis: the look-up of ads, the store of counts.

Both gather what a bundle brings and make one round trip for many elements.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import apache_beam as beam
from apache_beam.utils.windowed_value import WindowedValue

from headrace.lab.workloads.yahoo.model import UNKNOWN_AD
from headrace.lab.workloads.yahoo.redis_store import connect, find_campaigns, store_counts

#: Elements of one round trip. Larger ones save little and hold results back for longer.
BATCH_ELEMENTS = 1_000


def wall_clock_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


class LookUpInRedis(beam.DoFn):  # type: ignore[misc]
    """Gives (campaign, 1) for an ad, from Redis or from what Redis has said before.

    Ads that Redis does not know are asked for again with the next bundle: they may be stored later.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self._client: Any = None
        self._known: dict[str, str] = {}
        self._waiting: list[tuple[str, Any, Any]] = []

    def setup(self) -> None:
        """Connect."""
        self._client = connect(self._address)

    def start_bundle(self) -> None:
        """Forget what a failed bundle left."""
        self._waiting = []

    def process(
        self,
        ad: str,
        timestamp: Any = beam.DoFn.TimestampParam,
        window: Any = beam.DoFn.WindowParam,
    ) -> Iterator[Any]:
        """Answer at once if the ad is known here, else with the next round trip."""
        campaign = self._known.get(ad)
        if campaign is not None:
            yield campaign, 1
            return
        self._waiting.append((ad, timestamp, window))
        if len(self._waiting) >= BATCH_ELEMENTS:
            yield from self._answers()

    def finish_bundle(self) -> Iterator[Any]:
        """Answer what is left."""
        yield from self._answers()

    def teardown(self) -> None:
        """Let the connection go."""
        if self._client is not None:
            self._client.close()

    def _answers(self) -> Iterator[Any]:
        waiting, self._waiting = self._waiting, []
        found = find_campaigns(self._client, (ad for ad, _, _ in waiting))
        self._known.update((ad, campaign) for ad, campaign in found.items() if campaign is not None)
        for ad, timestamp, window in waiting:
            yield WindowedValue((found[ad] or UNKNOWN_AD, 1), timestamp, (window,))


class StoreInRedis(beam.DoFn):  # type: ignore[misc]
    """Stores rows (campaign, window start, count) in Yahoo's layout and hands them on."""

    def __init__(self, address: str, now_ms: Callable[[], int] = wall_clock_ms) -> None:
        self._address = address
        self._now_ms = now_ms
        self._client: Any = None
        self._rows: list[tuple[str, int, int]] = []

    def setup(self) -> None:
        """Connect."""
        self._client = connect(self._address)

    def start_bundle(self) -> None:
        """Forget what a failed bundle left."""
        self._rows = []

    def process(self, row: tuple[str, int, int]) -> Iterator[tuple[str, int, int]]:
        """Keep the row for the next round trip."""
        self._rows.append(row)
        if len(self._rows) >= BATCH_ELEMENTS:
            self._store()
        yield row

    def finish_bundle(self) -> None:
        """Store what is left."""
        self._store()

    def teardown(self) -> None:
        """Let the connection go."""
        if self._client is not None:
            self._client.close()

    def _store(self) -> None:
        rows, self._rows = self._rows, []
        if rows:
            store_counts(self._client, rows, self._now_ms())
