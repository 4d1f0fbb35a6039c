"""How often were the ads of each campaign viewed, in every window of ten seconds?

Input:  str, the JSON text of an event: user_id, page_id, ad_id, ad_type, event_type, event_time
        (ms), ip_address. The element's timestamp is event_time.
Output: (campaign_id: str, window_start: int in ms since 1970, count: int), at the window's end.

Views of ads that the table does not know are counted under "UNKNOWN AD".
"""

from __future__ import annotations

from typing import Any

import apache_beam as beam
from apache_beam.transforms.combiners import CountCombineFn
from apache_beam.transforms.window import FixedWindows

from headrace.lab.workload import Column, Kind, Workload
from headrace.lab.workloads.yahoo.ads import ads
from headrace.lab.workloads.yahoo.generator import YahooGenerator
from headrace.lab.workloads.yahoo.model import UNKNOWN_AD, viewed_ads
from headrace.lab.workloads.yahoo.settings import Settings


class LookUpInMemory:
    """Gives (campaign, 1) for an ad, from a copy of the table in every worker."""

    def __init__(self, table: dict[str, str]) -> None:
        self._find = table.get
        self._table = table

    def __call__(self, ad: str) -> tuple[str, int]:
        """Look one ad up."""
        return self._find(ad, UNKNOWN_AD), 1

    def __reduce__(self) -> tuple[Any, ...]:
        return LookUpInMemory, (self._table,)


def row(counted: tuple[str, int], window: Any = beam.DoFn.WindowParam) -> tuple[str, int, int]:
    """Write a count with the window it belongs to."""
    return counted[0], window.start.micros // 1_000, counted[1]


class CountViews(beam.PTransform):  # type: ignore[misc]
    """The benchmark's pipeline: parse, filter, project, look up, window, count."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self._settings = settings

    def expand(self, lines: Any) -> Any:
        """Build the steps."""
        settings = self._settings
        counts = (
            lines
            | "Viewed ads" >> beam.FlatMap(viewed_ads).with_output_types(str)
            | "Campaigns" >> self._look_up().with_output_types(tuple[str, int])
            | "Windows" >> beam.WindowInto(FixedWindows(settings.window_size_sec))
            | "Count" >> beam.CombinePerKey(CountCombineFn()).with_output_types(tuple[str, int])
            | "Rows" >> beam.Map(row).with_output_types(tuple[str, int, int])
        )
        if settings.sink == "rows":
            return counts
        from headrace.lab.workloads.yahoo.redis_steps import StoreInRedis

        store = beam.ParDo(StoreInRedis(settings.redis)).with_output_types(tuple[str, int, int])
        return counts | "Store" >> store

    def _look_up(self) -> Any:
        if self._settings.table == "memory":
            return beam.Map(LookUpInMemory(ads(self._settings)))
        from headrace.lab.workloads.yahoo.redis_steps import LookUpInRedis

        return beam.ParDo(LookUpInRedis(self._settings.redis))


def build(settings: Settings) -> CountViews:
    """Give the pipeline; with the table in Redis, store the table there first.

    Raises:
        OptionError: no Redis server answers where the settings say.
    """
    if settings.table == "redis":
        from headrace.lab.workloads.yahoo.redis_store import store_ads_at

        store_ads_at(settings.redis, ads(settings))
    return CountViews(settings)


WORKLOAD = Workload(
    suite="yahoo",
    name="campaigns",
    title="How often were the ads of each campaign viewed, in every window of ten seconds?",
    settings=Settings,
    generator=YahooGenerator,
    columns=(
        Column("campaign_id", Kind.STRING),
        Column("window_start", Kind.LONG),
        Column("count", Kind.LONG),
    ),
    build=build,
    oracle="headrace.lab.oracle.yahoo:campaigns",
    native="headrace.lab.native.yahoo:campaigns",
)
