"""The settings of the application kernels: one dataclass for each stream of events."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.lab.parameters import Real, Whole, setting
from headrace.lab.workloads.kernels.paced import StreamSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkSettings(StreamSettings):
    """Settings of network monitoring."""

    servers: int = setting(16, Whole(1, 10**6), "Servers that write logs.")
    users: int = setting(1_000, Whole(1, 10**6), "Users whose actions are logged.")
    suspects: int = setting(20, Whole(1, 10**6), "The first users, who act suspiciously often.")
    suspect_percent: int = setting(20, Whole(0, 100), "Entries in a hundred made by suspects.")
    window_ms: int = setting(2_000, Whole(1, 10**9), "Entries are counted in windows of this.")
    server_threshold: int = setting(
        8, Whole(1), "Entries of a user on one server in a window that are suspicious there."
    )
    user_threshold: int = setting(
        190, Whole(1), "Entries in all on such servers that make a user suspicious."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TweetSettings(StreamSettings):
    """Settings of the two Twitter kernels."""

    authors: int = setting(1_000, Whole(1, 10**6), "Authors, chosen at random for each tweet.")
    topics: int = setting(50, Whole(1, 10_000), "Different sets of hash tags.")
    stray_percent: int = setting(
        15, Whole(0, 100), "Tweets in a hundred that are not about their author's topic."
    )
    run: int = setting(5, Whole(2, 1_000), "Consecutive tweets that make a match.")
    slice_ms: int = setting(
        1_000, Whole(1, 10**9), "How much event time is put in order at once; no effect on rows."
    )
    partitions: int = setting(
        32, Whole(1, 10_000), "Parts that authors are divided into; no effect on rows."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FinanceSettings(StreamSettings):
    """Settings of the finance kernel."""

    symbols: int = setting(500, Whole(1, 17_576), "Stocks, chosen at random for each event.")
    quote_percent: int = setting(50, Whole(0, 100), "Quotes in a hundred events; else trades.")
    last: int = setting(15, Whole(1, 10_000), "Trades that the average price is made of.")
    slice_ms: int = setting(
        1_000, Whole(1, 10**9), "How much event time is put in order at once; no effect on rows."
    )
    partitions: int = setting(
        32, Whole(1, 10_000), "Parts that symbols are divided into; no effect on rows."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRankSettings(StreamSettings):
    """Settings of PageRank."""

    vertices: int = setting(1_000, Whole(1, 10**6), "Pages.")
    window_ms: int = setting(5_000, Whole(1, 10**9), "Edges of one window make one graph.")
    damping_percent: int = setting(85, Whole(0, 99), "How often in a hundred a link is followed.")
    tolerance: float = setting(
        1e-5, Real(0.0, 1.0), "Ranks have settled when a round changes them by this much in all."
    )
    rounds: int = setting(8, Whole(1, 100), "Rounds after which ranks are taken as they are.")
    blocks: int = setting(4, Whole(1, 1_000), "Parts of the graph; no effect on rows.")
