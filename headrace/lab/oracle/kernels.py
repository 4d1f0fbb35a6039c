"""Answers to the application kernels, from the logged events.

Takes a glob of Parquet files and the settings (read by attribute), gives rows in any order. Batch
definitions in SQL, or in plain Python where SQL cannot; no code is shared with the pipelines.
"""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from itertools import groupby
from typing import Any

from headrace.lab.oracle.duck import ask
from headrace.lab.workload import Row


def network(log: str, settings: Any) -> list[Row]:
    """Which users act suspiciously often, on servers where they do so?"""
    question = """
        WITH there AS (
            SELECT
                nanos // 1000000 // $window * $window AS start_ms, server, user,
                count(*) AS entries
            FROM read_parquet($log)
            GROUP BY ALL
            HAVING count(*) >= $server_threshold
        )
        SELECT start_ms, user, count(*), CAST(sum(entries) AS BIGINT)
        FROM there
        GROUP BY start_ms, user
        HAVING sum(entries) >= $user_threshold
    """
    return ask(
        question,
        values={
            "log": log,
            "window": settings.window_ms,
            "server_threshold": settings.server_threshold,
            "user_threshold": settings.user_threshold,
        },
    )


def twitter_nlp(log: str, settings: Any) -> list[Row]:
    """Which words has a tweet, how long are they, and how long on average?"""
    del settings
    question = """
        WITH split AS (
            SELECT number, regexp_extract_all(lower(text), '[a-z0-9'']+') AS words
            FROM read_parquet($log)
        )
        SELECT
            number,
            array_to_string(words, ' '),
            array_to_string(list_transform(words, lambda word: length(word)), ' '),
            coalesce(list_sum(list_transform(words, lambda word: length(word))) / len(words), 0.0)
        FROM split
    """
    return [
        (number, words, lengths, float(mean))
        for number, words, lengths, mean in ask(question, values={"log": log})
    ]


def twitter_cep(log: str, settings: Any) -> list[Row]:
    """When does an author write `run` tweets in a row with the same hash tags?"""
    question = """
        WITH parsed AS (
            SELECT number, nanos // 1000 AS time, author, array_to_string(list_sort(list_distinct(
                regexp_extract_all(lower(text), '#([a-z0-9_]+)', 1))), ' ') AS tags
            FROM read_parquet($log)
        ),
        placed AS (  -- the difference of the two places is the same all along a run
            SELECT *,
                row_number() OVER (PARTITION BY author ORDER BY time, number) AS place,
                row_number() OVER (PARTITION BY author, tags ORDER BY time, number) AS among_equals
            FROM parsed
        ),
        within AS (
            SELECT *, lag(number, $run - 1) OVER (
                PARTITION BY author, tags, place - among_equals ORDER BY place
            ) AS first
            FROM placed
        )
        SELECT author, tags, first, number FROM within WHERE tags <> '' AND first IS NOT NULL
    """
    return ask(question, values={"log": log, "run": settings.run})


def finance(log: str, settings: Any) -> list[Row]:
    """Which quotes offer a stock below the average price of its last trades?"""
    question = """
        SELECT symbol, number, kind, price, size FROM read_parquet($log)
        ORDER BY symbol, nanos // 1000, number
    """
    ticks = ask(question, values={"log": log})
    rows: list[Row] = []
    for symbol, own in groupby(ticks, key=lambda tick: tick[0]):
        trades: list[tuple[int, int]] = []  # price and size of all so far
        for _, number, kind, price, size in own:
            if kind == "trade":
                trades.append((price, size))
                continue
            recent = trades[-settings.last :]
            if not recent:
                continue
            paid = sum(price * size for price, size in recent)
            average = Fraction(paid, sum(size for _, size in recent))
            saved = (average - price) * size
            if saved >= 1:
                rows.append((number, symbol, price, float(average), int(saved)))
    return rows


def pagerank(log: str, settings: Any) -> list[Row]:
    """How important is each page, by the links between pages?"""
    question = """
        SELECT nanos // 1000000 // $window * $window AS start_ms, source, target, count(*)
        FROM read_parquet($log) GROUP BY ALL
    """
    links = ask(question, values={"log": log, "window": settings.window_ms})
    graphs: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for start, source, target, times in links:
        graphs[start].append((source, target, times))
    rows: list[Row] = []
    for start, graph in graphs.items():
        ranks, settled = _settle(graph, settings)
        rows += [(start, page, rank / _ONE, settled) for page, rank in enumerate(ranks)]
    return rows


_ONE = 10**15  # ranks are whole numbers of 1 / _ONE


def _settle(graph: list[tuple[int, int, int]], settings: Any) -> tuple[list[int], int]:
    """Give the ranks of a graph, and the round after which they had settled (0: they had not)."""
    pages, damping = settings.vertices, settings.damping_percent
    leaving = [0] * pages
    for source, _, times in graph:
        leaving[source] += times
    dead_ends = [page for page in range(pages) if leaving[page] == 0]
    ranks = [_ONE // pages] * pages
    for number in range(1, settings.rounds + 1):
        lost = sum(ranks[page] for page in dead_ends)
        arriving = [lost // pages] * pages
        for source, target, times in graph:
            arriving[target] += ranks[source] // leaving[source] * times
        jump = (100 - damping) * (_ONE // pages)
        fresh = [(jump + damping * arrived) // 100 for arrived in arriving]
        change = sum(abs(new - old) for new, old in zip(fresh, ranks, strict=True))
        ranks = fresh
        if change <= int(settings.tolerance * _ONE):
            return ranks, number
    return ranks, 0
