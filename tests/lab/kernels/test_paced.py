"""The generators of kernels, micro and scaling: the same events from everywhere, on time."""

from __future__ import annotations

import datetime as dt
import pickle
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from headrace.errors import OptionError
from headrace.lab.workload import Workload
from headrace.lab.workloads import kernels, micro, scaling
from headrace.lab.workloads.kernels.generator import (
    EdgeGenerator,
    FinanceGenerator,
    NetworkGenerator,
    TweetGenerator,
)
from headrace.lab.workloads.kernels.settings import (
    FinanceSettings,
    NetworkSettings,
    PageRankSettings,
    TweetSettings,
)

EVERY = pytest.mark.parametrize(
    "workload",
    [*kernels.WORKLOADS, *micro.WORKLOADS, *scaling.WORKLOADS],
    ids=lambda workload: workload.full_name,
)
# 9 does not divide 100: the last group of places is not full.
ODD = {"events": 100, "rate": 333, "out_of_order": 9, "seed": 5}


def made_by(workload: Workload) -> Any:
    """A small generator of the workload's events, out of order."""
    return workload.generator(workload.settings(**ODD))


@EVERY
def test_rows_and_elements_tell_of_the_same_events(workload: Workload) -> None:
    made = made_by(workload)
    elements, times = made.elements(0, 100)
    batch = made.batch(0, 100)
    assert batch.schema == made.schema
    epoch = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
    for element, time, row in zip(elements, times, batch.to_pylist(), strict=True):
        nanos, moment = row.pop("nanos"), row.pop("time")
        assert element._asdict() == {"time": nanos // 1_000, **row}
        assert time == element.time == (moment - epoch) // dt.timedelta(microseconds=1)
        assert all(type(value) in (int, str) for value in element)


@EVERY
def test_any_range_is_made_as_part_of_the_whole(workload: Workload) -> None:
    made = pickle.loads(pickle.dumps(made_by(workload)))
    whole, times = made.elements(0, 100)
    for start, count in ((0, 0), (0, 1), (13, 29), (99, 1)):
        assert made.elements(start, count) == (
            whole[start : start + count], times[start : start + count]
        )
        assert made.batch(start, count).equals(made.batch(0, 100).slice(start, count))


@EVERY
def test_another_seed_gives_other_events(workload: Workload) -> None:
    made = made_by(workload)
    other = workload.generator(replace(made.settings, seed=6))
    assert made.elements(0, 100)[0] != other.elements(0, 100)[0]


@EVERY
def test_no_event_is_older_than_the_watermark_before_it(workload: Workload) -> None:
    made = made_by(workload)
    times = made.elements(0, 100)[1]
    marks = [made.watermark(number) for number in range(120)]
    assert marks == sorted(marks)
    assert all(mark <= min(times[number:]) for number, mark in enumerate(marks[:100]))
    assert marks[100] > max(times)
    assert times != sorted(times)
    assert sorted(set(times)) == sorted(times)


def test_the_watermark_goes_on_growing_behind_the_last_event() -> None:
    made = EdgeGenerator(PageRankSettings(**ODD))
    assert made.watermark(10_000) - made.watermark(100) > 9_800 * 1_000_000 // 333


@EVERY
def test_a_line_is_read_back_as_the_element_it_was(workload: Workload) -> None:
    made = made_by(workload)
    for element, time in zip(*made.elements(0, 5), strict=True):
        line = made.to_line(element)
        assert "\n" not in line
        read, at = made.from_line(line)
        assert (read, type(read), at) == (element, type(element), time)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("nothing", "Expecting value"),
        ("[1, 2]", "an object with number, time, server, user"),
        ('{"number": 1, "time": 2, "server": 3}', "an object with"),
        ('{"number": 1, "time": 2, "server": 3, "user": "4"}', "user of Entry is of type int"),
        ('{"number": 1, "time": 2, "server": 3, "user": true}', "user of Entry is of type int"),
    ],
)
def test_a_line_that_is_no_event_is_refused(line: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        NetworkGenerator(NetworkSettings()).from_line(line)


def test_suspects_make_their_share_of_entries() -> None:
    made = NetworkGenerator(NetworkSettings(users=1_000, suspects=10, suspect_percent=30))
    entries = made.elements(0, 20_000)[0]
    users = Counter(entry.user for entry in entries)
    share = sum(users[user] for user in range(10)) / 20_000
    assert 0.29 < share < 0.33  # 30 %, and 1 % of the rest
    assert set(users) <= set(range(1_000))
    assert {entry.server for entry in entries} == set(range(16))


def test_more_suspects_than_users_are_all_users() -> None:
    made = NetworkGenerator(NetworkSettings(users=3, suspects=10, suspect_percent=100))
    assert {entry.user for entry in made.elements(0, 1_000)[0]} == {0, 1, 2}


def test_tweets_keep_to_their_authors_topic_but_for_strays() -> None:
    settings = TweetSettings(authors=20, topics=10, stray_percent=0)
    tweets = TweetGenerator(settings).elements(0, 5_000)[0]
    spellings = {(tweet.author, tweet.text.split(". ")[1]) for tweet in tweets}
    assert len(spellings) == 40  # two for each author
    stray = TweetGenerator(replace(settings, stray_percent=15)).elements(0, 5_000)[0]
    assert 300 < sum(one.text != other.text for one, other in zip(tweets, stray, strict=True)) < 800


def test_ticks_are_trades_and_quotes_near_their_stocks_level() -> None:
    ticks = FinanceGenerator(FinanceSettings(quote_percent=40)).elements(0, 20_000)[0]
    kinds = Counter(tick.kind for tick in ticks)
    assert set(kinds) == {"trade", "quote"}
    assert 7_600 < kinds["quote"] < 8_400
    for symbol in ("AAA", "AAB"):
        prices = [tick.price for tick in ticks if tick.symbol == symbol]
        assert max(prices) < 1.25 * min(prices)
    assert {tick.size for tick in ticks} == set(range(100, 1_001, 100))


def test_pages_with_small_numbers_have_more_links() -> None:
    edges = EdgeGenerator(PageRankSettings(vertices=100)).elements(0, 20_000)[0]
    # A quarter of the pages has the targets below a half: the root of 0.25.
    assert 0.48 < sum(edge.target < 25 for edge in edges) / 20_000 < 0.52
    assert {edge.source for edge in edges} == set(range(100))


def test_settings_outside_their_domain_are_refused() -> None:
    with pytest.raises(OptionError, match="run=1 is outside its domain"):
        TweetSettings(run=1)
    with pytest.raises(OptionError, match="rate=0 is outside its domain"):
        NetworkSettings(rate=0)
