"""PageRank: the loop in blocks, the pipeline, and the oracle."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.lab.oracle import kernels as oracle
from headrace.lab.workloads.kernels.blocks import ONE, Blocks, Round
from headrace.lab.workloads.kernels.model import Edge
from headrace.lab.workloads.kernels.pagerank import WORKLOAD
from headrace.lab.workloads.kernels.settings import PageRankSettings
from tests.lab.kernels.logs import logged
from tests.lab.local_runs import generated_rows, oracle_rows, rows_on_beam

S = 1_000_000
# Two pages, one link, half the visitors jump. Page 1 is a dead end: its 0.5 is shared by both.
#   page 0: 0.5 x 0.5 + 0.5 x 0.25 = 0.375      page 1: 0.5 x 0.5 + 0.5 x (0.5 + 0.25) = 0.625
ONE_ROUND = PageRankSettings(
    vertices=2, damping_percent=50, rounds=1, tolerance=0.0, window_ms=1_000, blocks=3
)
LINK = [Edge(0, 0, 0, 1)]
# In the next window both pages link to each other, and nothing changes.
CIRCLE = [Edge(1, S, 0, 1), Edge(2, S + 1, 1, 0)]
ANSWER = [(0, 0, 0.375, 0), (0, 1, 0.625, 0), (1_000, 0, 0.5, 1), (1_000, 1, 0.5, 1)]


def test_a_window_has_the_ranks_of_its_own_edges() -> None:
    edges = [*CIRCLE, *LINK]
    rows = rows_on_beam(WORKLOAD, ONE_ROUND, edges, [edge.time for edge in edges])
    assert sorted(rows) == ANSWER


def test_the_oracle_answers_hand_made_edges(tmp_path: Path) -> None:
    assert sorted(oracle.pagerank(logged([*CIRCLE, *LINK], tmp_path), ONE_ROUND)) == ANSWER


def run_blocks(edges: list[Edge], settings: PageRankSettings) -> list[tuple[int, float, int]]:
    """Run the loop without a pipeline."""
    blocks = Blocks(
        vertices=settings.vertices, blocks=settings.blocks, damping_percent=settings.damping_percent
    )
    moving = gather(map(blocks.code, edges))
    parcels = [parcel for group in moving.items() for parcel in blocks.open(group)]
    for number in range(1, settings.rounds + 2):
        step = Round(
            blocks=blocks, number=number, rounds=settings.rounds, tolerance=settings.tolerance
        )
        parcels = [sent for group in gather(parcels).items() for sent in step.run(group)]
    return sorted(row for parcel in parcels for row in blocks.ranks(parcel))


def gather(pairs: Any) -> dict[int, list[Any]]:
    """Group by key."""
    groups: dict[int, list[Any]] = defaultdict(list)
    for key, value in pairs:
        groups[key].append(value)
    return groups


def naive(edges: list[Edge], settings: PageRankSettings) -> list[tuple[int, float, int]]:
    """Follow the formulas page by page."""
    pages = range(settings.vertices)
    ranks = {page: ONE // settings.vertices for page in pages}
    out = {page: sum(edge.source == page for edge in edges) for page in pages}
    for number in range(1, settings.rounds + 1):
        lost = sum(ranks[page] for page in pages if not out[page])
        new = {}
        for page in pages:
            shares = sum(ranks[e.source] // out[e.source] for e in edges if e.target == page)
            jump = (100 - settings.damping_percent) * (ONE // settings.vertices)
            follow = settings.damping_percent * (shares + lost // settings.vertices)
            new[page] = (jump + follow) // 100
        change = sum(abs(new[page] - ranks[page]) for page in pages)
        ranks = new
        if change <= int(settings.tolerance * ONE):
            return [(page, ranks[page] / ONE, number) for page in pages]
    return [(page, ranks[page] / ONE, 0) for page in pages]


@given(st.data())
def test_blocks_give_the_ranks_of_the_formulas(data: st.DataObject) -> None:
    vertices = data.draw(st.integers(1, 7))
    page = st.integers(0, vertices - 1)
    settings = PageRankSettings(
        vertices=vertices,
        blocks=data.draw(st.integers(1, 9)),
        damping_percent=data.draw(st.integers(0, 99)),
        rounds=data.draw(st.integers(1, 12)),
        tolerance=data.draw(st.sampled_from([0.0, 1e-6, 1e-3, 0.1, 1.0])),
    )
    ends = data.draw(st.lists(st.tuples(page, page), min_size=1, max_size=25))
    edges = [Edge(number, 0, *pair) for number, pair in enumerate(ends)]
    assert run_blocks(edges, settings) == naive(edges, settings)


def test_settled_ranks_solve_the_equations() -> None:
    settings = PageRankSettings(vertices=40, rounds=100, tolerance=1e-12, events=200)
    edges = WORKLOAD.generator(settings).elements(0, 200)[0]
    links = np.zeros((40, 40))
    for edge in edges:
        links[edge.target, edge.source] += 1
    leaving = links.sum(axis=0)
    links = np.where(leaving > 0, links / np.maximum(leaving, 1), 1 / 40)
    right = np.linalg.solve(np.eye(40) - 0.85 * links, np.full(40, 0.15 / 40))
    rows = run_blocks(edges, settings)
    assert all(0 < settled < 100 for _, _, settled in rows)
    assert np.abs(np.array([rank for _, rank, _ in rows]) - right).max() < 1e-11


@pytest.mark.parametrize("group", [1, 80])
def test_generated_edges_give_the_oracles_answer(group: int, tmp_path: Path) -> None:
    settings = PageRankSettings(
        events=4_000, rate=1_000, out_of_order=group, vertices=100, window_ms=2_000,
        tolerance=1e-3,
    )
    rows = generated_rows(WORKLOAD, settings)
    assert sorted(rows) == sorted(oracle_rows(WORKLOAD, settings, tmp_path))
    assert len(rows) == 200
    assert all(0 < settled < 8 for *_, settled in rows)
