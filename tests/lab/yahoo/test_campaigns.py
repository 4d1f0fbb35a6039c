"""The Yahoo pipeline, its oracle and its native version."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.lab.oracle import yahoo as oracle
from headrace.lab.workloads import yahoo
from headrace.lab.workloads.yahoo.ads import ads
from headrace.lab.workloads.yahoo.settings import Settings
from tests.lab.local_runs import generated_rows, native_rows, oracle_rows, rows_on_beam

(WORKLOAD,) = yahoo.WORKLOADS
# Two campaigns with two ads each; with seed 0 ads 0 and 2 belong to campaign 0.
SMALL = Settings(campaigns=2, ads_per_campaign=2, seed=0)
TAIL = "-0000-4{}00-8000-000000000000"
AD = ["0000000" + str(number) + TAIL.format("a") for number in range(5)]
CAMPAIGN = ["0000000" + str(number) + TAIL.format("c") for number in range(2)]
# (ad, type, ms)
EVENTS = [
    (AD[0], "view", 0),
    (AD[2], "view", 9_999),
    (AD[1], "view", 5_000),
    (AD[3], "click", 5_000),
    (AD[3], "view", 10_000),
    (AD[0], "purchase", 10_001),
    (AD[4], "view", 10_001),  # no campaign has a fifth ad
    (AD[0], "view", 1),
]
EXPECTED = [
    (CAMPAIGN[0], 0, 3),
    (CAMPAIGN[1], 0, 1),
    (CAMPAIGN[1], 10_000, 1),
    ("UNKNOWN AD", 10_000, 1),
]


def line(ad: str, kind: str, ms: int) -> str:
    """An event's text, its fields in another order than the generator's."""
    fields = {"event_time": ms, "event_type": kind, "ad_id": ad, "ad_type": "mail"}
    return json.dumps({**fields, "user_id": "u", "page_id": "p", "ip_address": "10.0.0.1"})


def test_views_are_counted_by_campaign_and_window() -> None:
    lines = [line(*event) for event in EVENTS]
    rows = rows_on_beam(WORKLOAD, SMALL, lines, [ms * 1_000 for _, _, ms in EVENTS])
    assert Counter(rows) == Counter(EXPECTED)


def test_the_oracle_counts_views_by_campaign_and_window(tmp_path: Path) -> None:
    ad, kind, ms = zip(*EVENTS, strict=True)
    table = pa.table({"ad_id": ad, "event_type": kind, "event_time": pa.array(ms, pa.int64())})
    pq.write_table(table, tmp_path / "log.parquet")
    assert Counter(oracle.campaigns(str(tmp_path / "*.parquet"), SMALL)) == Counter(EXPECTED)


def test_the_length_of_the_windows_is_a_setting() -> None:
    settings = Settings(campaigns=2, ads_per_campaign=2, seed=0, window_size_sec=5)
    lines = [line(AD[0], "view", 4_999), line(AD[0], "view", 5_000)]
    rows = rows_on_beam(WORKLOAD, settings, lines, [4_999_000, 5_000_000])
    assert sorted(rows) == [(CAMPAIGN[0], 0, 1), (CAMPAIGN[0], 5_000, 1)]


@pytest.mark.parametrize("group", [1, 50])
def test_generated_events_give_the_oracles_answer(tmp_path: Path, group: int) -> None:
    settings = Settings(events=5_000, rate=200, seed=7, out_of_order=group, unknown_ads=20)
    expected = oracle_rows(WORKLOAD, settings, tmp_path)
    assert Counter(generated_rows(WORKLOAD, settings)) == Counter(expected)
    assert any(campaign == "UNKNOWN AD" for campaign, _, _ in expected)
    assert len({start for _, start, _ in expected}) == 3, "25 seconds: three windows"


def test_a_text_that_is_no_event_ends_the_run_and_is_shown() -> None:
    with pytest.raises(Exception, match="Expecting"):
        rows_on_beam(WORKLOAD, SMALL, ["{oops"], [0])


def test_every_campaign_has_its_share_of_ads() -> None:
    settings = Settings(campaigns=7, ads_per_campaign=3, seed=12345)
    table = ads(settings)
    assert len(table) == 21
    assert sorted(Counter(table.values()).values()) == [3] * 7


@pytest.mark.spark
def test_spark_gives_the_oracles_answer(tmp_path: Path, spark: Any) -> None:
    settings = Settings(events=3_000, rate=200, seed=70_000, out_of_order=50, unknown_ads=20)
    expected = oracle_rows(WORKLOAD, settings, tmp_path)
    assert Counter(native_rows(WORKLOAD, settings, tmp_path, spark)) == Counter(expected)
