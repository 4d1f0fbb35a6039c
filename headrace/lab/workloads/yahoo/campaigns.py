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

from headrace.lab.workload import ByColumns, Column, Kind, Workload
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
            self._viewed(lines)
            | "Campaigns" >> self._look_up().with_output_types(tuple[str, int])
            | "Windows" >> beam.WindowInto(FixedWindows(settings.window_size_sec))
            | "Count" >> beam.CombinePerKey(CountCombineFn()).with_output_types(tuple[str, int])
            | "Rows" >> beam.Map(row).with_output_types(tuple[str, int, int])
        )
        if settings.counts == "rows":
            return counts
        from headrace.lab.workloads.yahoo.redis_steps import StoreInRedis

        store = beam.ParDo(StoreInRedis(settings.redis)).with_output_types(tuple[str, int, int])
        return counts | "Store" >> store

    def _viewed(self, lines: Any) -> Any:
        return lines | "Viewed ads" >> beam.FlatMap(viewed_ads).with_output_types(str)

    def _look_up(self) -> Any:
        if self._settings.table == "memory":
            return beam.Map(LookUpInMemory(ads(self._settings)))
        from headrace.lab.workloads.yahoo.redis_steps import LookUpInRedis

        return beam.ParDo(LookUpInRedis(self._settings.redis))


def is_view(row: Any) -> bool:
    """Whether an event is a view."""
    return bool(row.event_type == "view")


def ad_of(row: Any) -> str:
    """Give the ad of an event."""
    return row.ad_id  # type: ignore[no-any-return]


class CountViewsOfRows(CountViews):
    """The same pipeline from rows that have the fields of an event: nothing is left to parse."""

    def _viewed(self, rows: Any) -> Any:
        views = rows | "Views" >> beam.Filter(is_view)
        return views | "Ads" >> beam.Map(ad_of).with_output_types(str)


def build_of_rows(settings: Settings) -> CountViewsOfRows:
    """Give the pipeline from rows."""
    _store_table(settings)
    return CountViewsOfRows(settings)


def build(settings: Settings) -> CountViews:
    """Give the pipeline; with the table in Redis, store the table there first.

    Raises:
        OptionError: no Redis server answers where the settings say.
    """
    _store_table(settings)
    return CountViews(settings)


def _store_table(settings: Settings) -> None:
    if settings.table == "redis":
        from headrace.lab.workloads.yahoo.redis_store import store_ads_at

        store_ads_at(settings.redis, ads(settings))


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
    by_columns=ByColumns(
        columns=("ad_id", "event_type"), build=build_of_rows,
        native="headrace.lab.native.yahoo:campaigns_of_columns",
    ),
)
