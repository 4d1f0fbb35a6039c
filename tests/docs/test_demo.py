"""The streaming example against plain loops, and the demo that shows it."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms import trigger, window
from rich.console import Console

from examples import auction_stream, demo

BIDS = 2_000


def test_no_bid_is_longer_underway_than_the_watermark_allows() -> None:
    latest = 0
    out_of_order = 0
    for bid in auction_stream.arrivals(BIDS):
        out_of_order += bid.second < latest
        latest = max(latest, bid.second)
        assert bid.second >= latest - auction_stream.SECONDS_UNDERWAY
    assert out_of_order > BIDS // 2
    assert sorted(auction_stream.arrivals(BIDS)) == sorted(auction_stream.bids(BIDS))


def test_the_streaming_example_gives_what_plain_loops_give() -> None:
    """On Beam's own runner, so that it is the example and not headrace that is tested."""
    answers = auction_stream.expected(BIDS)
    stamp = beam.Map(lambda event: window.TimestampedValue(event, event.second))
    with beam.Pipeline("FnApiRunner") as p:
        results = auction_stream.build(
            p,
            p | "Bids" >> beam.Create(auction_stream.arrivals(BIDS)) | "BidTimes" >> stamp,
            p | "Rates" >> beam.Create(auction_stream.rates()) | "RateTimes" >> stamp,
        )
        summed = (
            results["volume"]
            | "Key" >> beam.Map(lambda pane: (pane[:2], pane[2]))
            | "All" >> beam.WindowInto(window.GlobalWindows(), trigger=trigger.DefaultTrigger())
            | "Sum" >> beam.CombinePerKey(sum)
            | "Line" >> beam.MapTuple(lambda key, cents: (*key, cents))
        )
        sales = results["sales"] | "Plain" >> beam.Map(tuple)
        assert_that(sales, equal_to(answers["sales"]), label="sales")
        assert_that(summed, equal_to(answers["volume"]), label="volume")
        assert_that(results["ledger"], equal_to(answers["ledger"]), label="ledger")


def as_written(answers: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """Right results: each minute's volume in two panes."""
    panes = []
    for category, minute, cents in answers["volume"]:
        panes += [(category, minute, cents - 7, "early"), (category, minute, 7, "on_time")]
    return {**answers, "volume": panes}


@pytest.mark.parametrize("name", ["sales", "volume", "ledger"])
def test_the_demo_sees_a_row_that_is_lost_and_one_that_is_doubled(name: str) -> None:
    answers = auction_stream.expected(BIDS)
    right = as_written(answers)
    lost = {**right, name: right[name][1:]}
    doubled = {**right, name: [*right[name], right[name][0]]}
    said = io.StringIO()
    assert demo.compare_stream(answers, right, Console(file=said)) == 0
    assert "demo passed" in said.getvalue()
    for wrong in (lost, doubled):
        said = io.StringIO()
        assert demo.compare_stream(answers, wrong, Console(file=said)) == 1
        assert "WRONG" in said.getvalue()
        assert "demo FAILED" in said.getvalue()


def test_the_market_writes_every_bid_and_rate_once(tmp_path: Path) -> None:
    market = demo.Market(tmp_path / "market", BIDS, seconds=0.5)
    market.run()
    written = {
        kind: [
            json.loads(line)
            for path in sorted((tmp_path / "market" / kind).glob("*.json"))
            for line in path.read_text().splitlines()
        ]
        for kind in ("bids", "rates")
    }
    assert [auction_stream.Bid(**row) for row in written["bids"]] == auction_stream.arrivals(BIDS)
    assert [auction_stream.Rate(**row) for row in written["rates"]] == auction_stream.rates()
    assert not list(tmp_path.rglob(".*"))


@pytest.mark.spark
@pytest.mark.timeout(240)
def test_the_demo_runs_a_stream_and_finds_it_right(
    spark: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    said = io.StringIO()
    console = Console(file=said, width=100)
    assert demo.run_stream(spark, BIDS, 1.0, ["--progress=off"], console) == 0
    assert said.getvalue().count("equal") == 3
    sold = len(auction_stream.expected(BIDS)["sales"])
    assert f"the hammer fell {sold} times" in said.getvalue()
    assert capsys.readouterr().out.startswith("good: epoch ")
