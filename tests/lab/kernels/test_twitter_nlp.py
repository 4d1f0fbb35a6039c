"""Twitter NLP: words and their lengths."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.lab.oracle import kernels as oracle
from headrace.lab.workload import Row
from headrace.lab.workloads.kernels.model import Tweet
from headrace.lab.workloads.kernels.settings import TweetSettings
from headrace.lab.workloads.kernels.twitter_nlp import WORKLOAD, measure
from tests.lab.kernels.logs import logged
from tests.lab.local_runs import generated_rows, oracle_rows

CASES = [
    ("It's HOT, so hot!", "it's hot so hot", "4 3 2 3", 3.0),
    ("#sun_day 42", "sun day 42", "3 3 2", 8 / 3),
    ("", "", "", 0.0),
    ("?! ...", "", "", 0.0),
    ("a", "a", "1", 1.0),
]


@pytest.mark.parametrize(("text", "words", "lengths", "mean"), CASES)
def test_words_are_found_and_measured(text: str, words: str, lengths: str, mean: float) -> None:
    assert measure(Tweet(3, 0, 1, text)) == (3, words, lengths, mean)


def test_the_oracle_answers_hand_made_tweets(tmp_path: Path) -> None:
    tweets = [Tweet(number, 0, 1, case[0]) for number, case in enumerate(CASES)]
    answer: list[Row] = [(number, *case[1:]) for number, case in enumerate(CASES)]
    found = oracle.twitter_nlp(logged(tweets, tmp_path), None)
    assert sorted(found) == answer
    assert all(type(row[3]) is float for row in found)


def test_generated_tweets_give_the_oracles_answer(tmp_path: Path) -> None:
    settings = TweetSettings(events=2_000, out_of_order=30)
    rows = generated_rows(WORKLOAD, settings)
    assert sorted(rows) == sorted(oracle_rows(WORKLOAD, settings, tmp_path))
    assert len(rows) == 2_000
