"""Experiments as a spec asks for them: what stands in the summary of a run of the fake."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.lab import searches
from headrace.lab.laboratory import run_spec
from headrace.lab.report.page import page
from headrace.lab.results.folder import RunFolder
from headrace.lab.results.summary import REFUSED, Figure, Shown
from headrace.lab.spec import read_spec

SEARCH = "[sustainable]\nprobe_seconds = 10\nconfirm_seconds = 20\n"


def run(tmp_path: Path, text: str) -> RunFolder:
    return run_spec(read_spec(text), tmp_path)


def found(folder: RunFolder) -> dict[str, Figure]:
    return {figure.name: figure for figure in folder.summary().figures}


def test_scaling_tells_what_it_foresaw_beside_what_it_measured(tmp_path: Path) -> None:
    told = found(run(tmp_path, f"""
[systems.fake]
capacity = 2000
serial_share = 0.2
{SEARCH}
[scaling]
shards = [1, 2]
"""))
    assert told["rate on 1 cores"].value == pytest.approx(2_000, rel=0.05)
    assert told["rate on 2 cores"].value == pytest.approx(2_000 / 0.6, rel=0.05)
    assert told["predicted on 2 cores"].value == pytest.approx(2_000 / 0.6, rel=0.05)
    assert told["error of what was predicted on 2 cores"].value == pytest.approx(0, abs=0.06)
    assert told["speed-up on 2 cores"].value == pytest.approx(1 / 0.6, rel=0.06)
    assert told["predicted on 4 cores"].value == pytest.approx(2_000 / 0.4, rel=0.1)
    assert told["cpu of driver"].value == pytest.approx(0.2 / 2_000 * 1e6)
    # One core: another shard gives nothing.
    assert told["speed-up on 2 shards"].value == pytest.approx(1, rel=0.05)


@pytest.mark.parametrize("in_series", ["false", "true"])
def test_every_rate_that_scaling_tried_is_kept(tmp_path: Path, in_series: str) -> None:
    folder = run(tmp_path, f"""
[systems.fake]
capacity = 2000
{SEARCH}in_series = {in_series}
[scaling]
shards = [1, 2]
""")
    told = found(folder)
    tried = [each for each in folder.summary().probes if each.experiment == "scaling"]
    assert {(each.system, each.question, each.repeat) for each in tried} == {("fake", "count", 0)}
    confirmed = [each.rate for each in tried if each.is_confirmation and each.status == "kept up"]
    assert confirmed == [told[f"rate on {count}"].value for count in (
        "1 cores", "2 cores", "1 shards", "2 shards",
    )]


def test_a_prediction_that_was_off_says_nothing_of_more_cores(tmp_path: Path) -> None:
    told = found(run(tmp_path, f"""
[systems.fake]
capacity = 2000
contention = 0.5
{SEARCH}
[scaling]
"""))
    error = told["error of what was predicted on 2 cores"].value
    assert error == pytest.approx(1.0, rel=0.1)
    assert told["predicted on 4 cores"].void.startswith("the model was off by +")


@pytest.mark.parametrize("in_series", [False, True])
def test_scaling_searches_as_the_spec_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_series: bool
) -> None:
    begun: list[tuple[str, float, bool]] = []
    for name in ("find_rate", "find_rate_in_series"):
        search = getattr(searches, name)

        def noting(bench: Any, how: Any, name: str = name, search: Any = search) -> Any:
            begun.append((name, how.first_rate, how.ramp))
            return search(bench, how)

        monkeypatch.setattr(searches, name, noting)
    run(tmp_path, f"""
[systems.fake]
capacity = 2000
first_rate = 1700
{SEARCH}in_series = {str(in_series).lower()}
ramp = true
[scaling]
""")
    name = "find_rate_in_series" if in_series else "find_rate"
    assert begun[0] == (name, 1_700.0, True)
    # On more cores it sets out from the rate of fewer.
    assert [begun[1][0], begun[1][2]] == [name, False]
    assert begun[1][1] == pytest.approx(2_000, rel=0.05)


def test_congestion_and_growth_leave_their_figures(tmp_path: Path) -> None:
    told = found(run(tmp_path, f"""
[systems.fake]
capacity = 2000
state_bytes_per_event = 8
{SEARCH}
[congestion]
over_seconds = 10
[growth]
rate = 1000
seconds = 20
"""))
    assert told["queue worked off"].value == pytest.approx(9, rel=0.15)
    assert told["results young again"].value == pytest.approx(10, rel=0.15)
    assert told["lost"].value == told["doubled"].value == 0
    late = told["late"].value
    assert late is not None and 0.3 < late < 0.7
    assert told["state"].value == pytest.approx(8_000, rel=0.05)
    assert told["checkpoint"].value == pytest.approx(8_000, rel=0.05)


def test_rows_that_congestion_loses_are_counted_and_void_the_rest(tmp_path: Path) -> None:
    told = found(run(tmp_path, """
[systems.fake]
drop_every = 100
[congestion]
rate = 1000
over_seconds = 5
after_seconds = 10
"""))
    lost = told["lost"].value
    assert lost is not None and lost > 0
    assert "wrong answer" in told["queue worked off"].void


def test_a_killed_driver_is_told_apart_from_a_killed_worker(tmp_path: Path) -> None:
    folder = run(tmp_path, """
[systems.fake]
[systems.lossy]
kind = "fake"
loses_on_fault = 2
[systems.direct]
[fault]
kind = "kill-driver"
rate = 1000
""")
    figures = {(f.system, f.name): f for f in folder.summary().figures}
    assert figures["fake", "recovery, kill-driver"].value == pytest.approx(2, rel=0.3)
    assert "2 rows missing" in figures["lossy", "recovery, kill-driver"].void
    refused = figures["direct", "recovery, kill-driver"].void
    assert refused.startswith(f"{REFUSED}direct cannot be given the fault kill-driver")
    shown = {(g.system, g.name[:5]): g.shown for g in folder.summary().guarantees}
    assert shown["fake", "durab"] is Shown.YES
    assert shown["lossy", "durab"] is Shown.NO
    assert shown["fake", "exact"] is Shown.OPEN


def test_a_sweep_is_a_table_of_its_own_and_refuses_what_a_system_has_not(tmp_path: Path) -> None:
    folder = run(tmp_path, """
[systems.fake]
cpu_seconds_per_batch = 0.01
[sweep]
rate = 1000
seconds = 20
trigger_ms = [100, 1000]
per_batch = [1, 2]
""")
    told = found(folder)
    assert told["p99 at trigger_ms = 100"].value == pytest.approx(0.05 + 0.1, rel=0.05)
    assert told["p99 at trigger_ms = 1000"].value == pytest.approx(0.05 + 0.99, rel=0.05)
    assert told["cpu at trigger_ms = 100"].value == pytest.approx(100 + 100, rel=0.05)
    assert told["p99 at any per_batch"].void.startswith(f"{REFUSED}fake has no setting per_batch")
    kept = [series for series in folder.series() if series.experiment == "sweep"]
    assert [series.repeat for series in kept] == [0, 1]
    html = page([folder])
    assert 'id="sweep"' in html
    assert "<td>trigger_ms = 1000</td>" in html
