"""Twitter CEP: tweets in a row, in the order of time and not of arrival."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.lab.oracle import kernels as oracle
from headrace.lab.workload import Row
from headrace.lab.workloads.kernels.model import Tweet
from headrace.lab.workloads.kernels.settings import TweetSettings
from headrace.lab.workloads.kernels.twitter_cep import WORKLOAD, Match, tags_of
from tests.lab.kernels.logs import logged
from tests.lab.local_runs import generated_rows, oracle_rows, rows_on_beam

SETTINGS = TweetSettings(run=3, slice_ms=1_000, partitions=2)
S = 1_000_000
# In the order of time author 1 writes 10, 12, 11, 13 about "a b" (two matches: 10-12-11, 12-11-13),
# then 14 without tags, then 15 and 16: a new run, too short. 11 and 12 are in the same slice and
# arrive in the wrong order, 10 arrives last. Author 3 shares the partition of author 1.
TWEETS = [
    Tweet(11, 2 * S + 500, 1, "x #b #a"),
    Tweet(12, 2 * S + 400, 1, "#A y #B #b"),
    Tweet(13, 5 * S, 1, "#a#b"),
    Tweet(14, 6 * S, 1, "none"),
    Tweet(15, 7 * S, 1, "#a #b"),
    Tweet(16, 8 * S, 1, "#b #a"),
    Tweet(20, 5 * S, 3, "#a #b"),
    Tweet(21, 5 * S, 3, "#a #b"),
    Tweet(22, 5 * S, 3, "#a #b"),
    Tweet(10, 1 * S, 1, "#a #b"),
]
ANSWER = [(1, "a b", 10, 11), (1, "a b", 12, 13), (3, "a b", 20, 22)]


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        ("no tags", ""),
        ("#", ""),
        ("#One two", "one"),
        ("#b #a #B", "a b"),
        ("c# #c_1!", "c_1"),
        ("##x", "x"),
    ],
)
def test_tags_have_one_spelling(text: str, tags: str) -> None:
    assert tags_of(text) == tags


def test_matches_are_found_whatever_the_order_of_arrival() -> None:
    times = [tweet.time for tweet in TWEETS]
    assert sorted(rows_on_beam(WORKLOAD, SETTINGS, TWEETS, times)) == ANSWER
    assert sorted(rows_on_beam(WORKLOAD, SETTINGS, TWEETS[::-1], times[::-1])) == ANSWER


def test_the_oracle_answers_hand_made_tweets(tmp_path: Path) -> None:
    assert sorted(oracle.twitter_cep(logged(TWEETS, tmp_path), SETTINGS)) == ANSWER


def naive(run: int, tweets: list[tuple[int, int, int, str]]) -> list[Row]:
    """Look at every tweet with the ones before it, author by author."""
    found: list[Row] = []
    for author in {tweet[2] for tweet in tweets}:
        own = [tweet for tweet in tweets if tweet[2] == author]
        for at in range(run - 1, len(own)):
            last = own[at - run + 1 : at + 1]
            if {tweet[3] for tweet in last} == {own[at][3]} and own[at][3]:
                found.append((author, own[at][3], last[0][1], own[at][1]))
    return sorted(found)


@given(
    st.integers(2, 4),
    st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["", "a", "b"])), max_size=40),
    st.integers(0, 40),
)
def test_matches_are_those_of_a_look_at_every_tweet(
    run: int, drawn: list[tuple[int, str]], cut: int
) -> None:
    tweets = [(number, number, *author_and_tags) for number, author_and_tags in enumerate(drawn)]
    match, known = Match(run), {}  # type: ignore[var-annotated]
    found = match(known, tweets[:cut]) + match(known, tweets[cut:])
    assert sorted(found) == naive(run, tweets)


@pytest.mark.parametrize("group", [1, 90])
def test_generated_tweets_give_the_oracles_answer(group: int, tmp_path: Path) -> None:
    settings = TweetSettings(
        events=3_000, rate=500, out_of_order=group, authors=60, slice_ms=300, partitions=3
    )
    rows = generated_rows(WORKLOAD, settings)
    assert sorted(rows) == sorted(oracle_rows(WORKLOAD, settings, tmp_path))
    assert len(rows) > 500
