"""Network monitoring: counts by server and user, then by user."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.lab.oracle import kernels as oracle
from headrace.lab.workloads.kernels.model import Entry
from headrace.lab.workloads.kernels.network import WORKLOAD
from headrace.lab.workloads.kernels.settings import NetworkSettings
from tests.lab.kernels.logs import logged
from tests.lab.local_runs import generated_rows, oracle_rows, rows_on_beam

SETTINGS = NetworkSettings(window_ms=1_000, server_threshold=2, user_threshold=4)
# User 7: two entries on server 1 and two on server 2 in the first second, one on server 3, which is
# below the first threshold; three on server 1 in the next second, below the second threshold.
# User 8: four on one server, the last of them in the last microsecond of the first second.
KEY_GROUPS = [
    (0, 1, 7), (10, 2, 7), (20, 1, 7), (30, 2, 7), (40, 3, 7),
    (1_000_000, 1, 7), (1_000_001, 1, 7), (1_000_002, 1, 7),
    (1, 4, 8), (2, 4, 8), (3, 4, 8), (999_999, 4, 8),
]
ENTRIES = [Entry(number, *place) for number, place in enumerate(KEY_GROUPS)]
ANSWER = [(0, 7, 2, 4), (0, 8, 1, 4)]


def test_users_are_told_who_pass_both_thresholds() -> None:
    rows = rows_on_beam(WORKLOAD, SETTINGS, ENTRIES, [entry.time for entry in ENTRIES])
    assert sorted(rows) == ANSWER


def test_the_oracle_answers_hand_made_entries(tmp_path: Path) -> None:
    assert sorted(oracle.network(logged(ENTRIES, tmp_path), SETTINGS)) == ANSWER


@pytest.mark.parametrize("group", [1, 50])
def test_generated_entries_give_the_oracles_answer(group: int, tmp_path: Path) -> None:
    settings = NetworkSettings(
        events=4_000, rate=1_000, out_of_order=group, window_ms=700, servers=4, suspects=5,
        suspect_percent=30, user_threshold=38,
    )
    rows = generated_rows(WORKLOAD, settings)
    assert sorted(rows) == sorted(oracle_rows(WORKLOAD, settings, tmp_path))
    assert len(rows) > 5
    assert min(entries for _, _, _, entries in rows) >= 38
