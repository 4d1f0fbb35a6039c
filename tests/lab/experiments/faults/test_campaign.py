"""The campaign of faults: its planning, its counting, and a short form of the real thing."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.errors import CheckpointError
from headrace.lab.ending import Ending
from headrace.lab.experiments.faults import campaign, command, inside, rounds
from headrace.lab.experiments.faults.campaign import (
    Asked,
    Campaign,
    Result,
    known,
    run_round,
    variant_of,
)
from headrace.lab.experiments.faults.disks import Disks
from headrace.lab.experiments.faults.faults import (
    ENDING,
    FULL,
    Fault,
    Gap,
    Kind,
    Life,
    crash_text,
    plan_round,
)
from headrace.lab.experiments.faults.inside import Inside, JumpingTime, noted
from headrace.lab.experiments.faults.page import GAPS, page, summary
from headrace.lab.experiments.faults.processes import Driver
from headrace.lab.experiments.faults.reading import written
from headrace.lab.experiments.faults.sinks import LEDGER, Ledger
from headrace.lab.experiments.faults.variants import PLAIN, VARIANTS, SinkKind, Source
from headrace.lab.slow_disk import slow_files
from headrace.state.crash_points import Point, asked_for
from headrace.state.files import Files
from tests.engine.test_checkpoints import opened

ROOT = Path(__file__).parents[4]
SLOW = "HEADRACE_SLOW" in os.environ
SEEDS = range(1, 28)  # three times the number of gaps


# -- planning


def test_the_same_seed_gives_the_same_plan_and_another_one_another() -> None:
    plans = [plan_round(seed, 18) for seed in SEEDS]
    assert plans == [plan_round(seed, 18) for seed in SEEDS]
    assert len(set(plans)) == len(plans)


def test_a_round_has_at_least_the_faults_that_were_asked_for() -> None:
    for seed in SEEDS:
        assert 18 <= sum(life.planned for life in plan_round(seed, 18)) < 18 + 10


def test_every_kind_of_fault_and_every_gap_appears_within_a_few_seeds() -> None:
    lives = [life for seed in SEEDS for life in plan_round(seed, 18)]
    assert {gap.point for life in lives for gap in life.gaps} == set(Point)
    kinds = {fault.kind for life in lives for fault in life.faults}
    assert kinds == set(Kind) - {Kind.GAP, Kind.SLOW, Kind.CLOCK}  # those are no acts from outside
    assert any(life.slow_seconds for life in lives)
    jumps = [by for life in lives for _, by in life.jumps]
    assert min(jumps) < 0 < max(jumps)
    assert {life.shards for life in lives} == {2, 3, 4}
    assert any(life.wipe for life in lives)


def test_every_variant_meets_every_rare_fault_and_every_gap_over_a_night() -> None:
    """The seed's number deals out both the variant and what is rare: not in step."""
    met: dict[str, set[object]] = {name: set() for name in VARIANTS}
    for seed in range(1, 61):
        for life in plan_round(seed, 18):
            met[variant_of(seed).name] |= {fault.kind for fault in life.faults}
            met[variant_of(seed).name] |= {gap.point for gap in life.gaps}
    for found in met.values():
        assert {*FULL, Kind.TWO_DRIVERS, *Point} <= found


def test_only_the_last_fault_of_a_life_ends_it_and_something_does() -> None:
    for seed in SEEDS:
        for life in plan_round(seed, 18):
            assert not any(fault.kind in ENDING for fault in life.faults[:-1])
            by_driver = any(
                gap.point not in (Point.BEFORE_SEAL, Point.AFTER_SEAL) for gap in life.gaps
            )
            assert by_driver or life.faults[-1].kind in ENDING


def test_crashes_are_asked_for_by_the_epoch_or_by_the_attempt_that_will_come() -> None:
    """Incarnation 4 is next, and epoch 10: its first try is 4.1."""
    gaps = (
        Gap(point=Point.BEFORE_SEAL, tries=2, partition="1-0"),
        Gap(point=Point.AFTER_MANIFEST, tries=3),
        Gap(point=Point.AFTER_RETURN, tries=1),
        Gap(point=Point.WORKER_LOST, tries=5),
        Gap(point=Point.BETWEEN_SINKS, tries=1),
    )
    text = crash_text(gaps, incarnation=4, epoch=10)
    assert text == (
        "before_seal:4.2:1-0,after_manifest:4.3,after_return:*,before_seal:4.5,worker_lost:*,"
        "between_sinks:10,between_sinks:11"
    )
    assert len(asked_for(text)) == 7


# -- faults inside the driver


def test_a_clock_that_jumps_tells_the_jumps_that_it_made(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    clock = JumpingTime(((0.0, 600.0), (0.0, -90.0), (3600.0, 5.0)), str(trace))
    ahead = clock.time_ns() - time.time_ns()
    assert 509e9 < ahead < 511e9
    assert noted(trace) == ["clock jump"] * 2  # the third is an hour away


def test_what_a_driver_does_to_itself_survives_its_command_line() -> None:
    told = Inside(trace="t", slow_seconds=0.2, jumps=((1.0, -5.0),), no_locks=True)
    assert Inside.from_json(told.to_json()) == told


def test_slow_files_stay_slow_when_they_are_sent_to_a_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(inside.time, "sleep", slept.append)  # type: ignore[attr-defined]
    make, arguments = slow_files(str(tmp_path), 0.5).__reduce__()
    make(*arguments).write("a/b", b"c")
    assert Files(str(tmp_path)).read("a/b") == b"c"
    assert len(slept) == 2 and all(0 <= seconds <= 0.5 for seconds in slept)


def test_without_locks_a_second_driver_may_have_the_checkpoint_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With locks it is refused, and there would be no two drivers to speak of."""
    with opened(str(tmp_path)):
        with pytest.raises(CheckpointError, match="in use"):
            opened(str(tmp_path))
    monkeypatch.setattr("fcntl.flock", inside.no_lock)
    with opened(str(tmp_path)) as old, opened(str(tmp_path)) as new:
        assert new.incarnation == old.incarnation + 1


# -- sinks and their reading


def test_a_function_that_gets_an_epoch_twice_keeps_its_last_rows(tmp_path: Path) -> None:
    class Frame:
        def __init__(self, *rows: tuple[Any, ...]) -> None:
            self._rows = rows

        def collect(self) -> list[tuple[Any, ...]]:
            return list(self._rows)

    row, other = ("a", 0, 1, 2, 3, 4), ("b", 0, 1, 2, 3, 4)
    ledger = Ledger(str(tmp_path / "flushes" / LEDGER))
    ledger(Frame(row), 1)
    ledger(Frame(row, other), 2)
    ledger(Frame(other), 2)
    ledger(Frame(other), 3, 7)
    ledger(Frame(row), 3, 6)  # a driver that was overtaken
    ledger(Frame(), 3, 7)
    variant = replace(PLAIN, sinks={"flushes": SinkKind.FUNCTION})
    assert written(tmp_path, variant) == {"flushes": Counter([row, other])}


def test_rows_are_read_back_from_partitions_and_from_lines(tmp_path: Path) -> None:
    row = ("a", 5, 1, 2, 3, 4)
    folder = tmp_path / "totals" / "epoch=00000003" / "start=5"
    folder.mkdir(parents=True)
    pq.write_table(
        pa.table({"key": ["a"], "end": [1], "count": [2], "total": [3], "mix": [4]}),
        folder / "part-0.parquet",
    )
    (tmp_path / "joined").mkdir()
    (tmp_path / "joined" / "5-0-of-1.txt").write_text(json.dumps(row) + "\n")
    sinks = {"totals": SinkKind.PARTITIONS, "joined": SinkKind.BEAM_FILES}
    found = written(tmp_path, replace(PLAIN, sinks=sinks))
    assert found == {"totals": Counter([row]), "joined": Counter([row])}


def test_all_sinks_and_sources_are_in_some_variant() -> None:
    assert {sink for v in VARIANTS.values() for sink in v.sinks.values()} == set(SinkKind)
    assert {variant.source for variant in VARIANTS.values()} == set(Source)


# -- disks


def test_a_disk_without_room_refuses_a_file_until_it_has_room_again(tmp_path: Path) -> None:
    disks = Disks.make((tmp_path / "disk",))
    if disks is None:
        pytest.skip("nothing can be mounted here")
    try:
        (tmp_path / "disk" / "first").write_bytes(b"x" * 100_000)
        assert disks.fill(tmp_path / "disk", 10_000)
        with pytest.raises(OSError, match="No space left"):
            (tmp_path / "disk" / "second").write_bytes(b"x" * 100_000)
        disks.empty(tmp_path / "disk")
        (tmp_path / "disk" / "second").write_bytes(b"x" * 100_000)
        assert (tmp_path / "disk").stat().st_mode & 0o777 == 0o700
    finally:
        disks.close(keep=True)
    assert (tmp_path / "disk" / "first").stat().st_size == 100_000


# -- the campaign


def result(seed: int, verdict: Ending = Ending.RIGHT, **more: Any) -> Result:
    return Result(
        seed=seed, variant="plain", asked=Asked(), verdict=verdict,
        hits=(("machine killed", "between two epochs", 7), ("ended in a gap", "after_sinks", 3)),
        starts=4, epochs=30, rows=100, seconds=60.0, **more,
    )


def test_a_campaign_goes_on_where_it_was_cut_off_and_ends_with_enough_faults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten faults a round: of seeds 5 to 8, which make forty, 6 is known already."""
    ran: list[int] = []
    said: list[str] = []
    log = tmp_path / "rounds.jsonl"
    log.write_text(json.dumps(result(6).to_json()) + "\n")

    def run(seed: int, *unused: object) -> Result:
        ran.append(seed)
        return result(seed)

    monkeypatch.setattr(campaign, "run_round", run)
    found = Campaign(
        faults=40, first_seed=5, asked=Asked(faults=10), jobs=1, minutes=None, keep=tmp_path,
        log=log, say=said.append,
    ).run()
    assert ran == [5, 7, 8]
    assert [each.seed for each in found] == [5, 6, 7, 8] == sorted(r.seed for r in known(log))
    assert "40 in all" in said[-1]


def test_the_words_in_files_of_campaigns_stay_and_every_round_that_is_kept_is_read() -> None:
    for ending, word in ((Ending.RIGHT, "right"), (Ending.WRONG, "DIFFERENT"),
                         (Ending.FAILED, "FAILED")):
        told = result(5, ending).to_json()
        assert told["verdict"] == word
        assert Result.from_json(json.loads(json.dumps(told))) == result(5, ending)
    log = ROOT / "results" / "chaos-campaign.jsonl"
    assert len(known(log)) == len(log.read_text(encoding="utf-8").splitlines()) > 0


def test_a_line_that_was_cut_off_is_no_result(tmp_path: Path) -> None:
    log = tmp_path / "rounds.jsonl"
    log.write_text(json.dumps(result(6).to_json()) + "\n" + '{"seed": 7, "cut o')
    assert known(log) == [result(6)]


def test_a_wrong_round_is_told_with_the_command_that_runs_it_again() -> None:
    wrong = replace(result(9, Ending.FAILED, told=("it broke",)), asked=Asked(faults=30))
    assert wrong.command == "headrace lab run faults round --seed 9 --variant plain --faults 30"
    told = summary([result(1), result(2), wrong], "2026-01-01", "a machine")
    assert told["verdicts"] == {"right": 2, "DIFFERENT": 0, "FAILED": 1}
    assert told["faults"] == 30
    text = page(told)
    assert "2 of 3 rounds right" in text and "none lost" not in text
    assert f"`{wrong.command}`" in text and "it broke" in text
    assert "| machine killed | 21 |" in text
    assert "| after step 3: no manifest | 9 |" in text
    assert "none lost, none doubled" in page(summary([result(1)], "2026-01-01", "a machine"))


def test_the_page_tells_of_every_gap() -> None:
    text = page(json.loads(json.dumps(summary([result(1)], "2026-01-01", "a machine"))))
    for point in Point:
        assert f"| {GAPS[point]} |" in text


def test_a_remark_stands_on_the_page_and_stays_with_the_totals(tmp_path: Path) -> None:
    saved, shown = tmp_path / "totals.json", tmp_path / "page.md"
    saved.write_text(json.dumps(summary([result(1)], "2026-01-01", "a machine")))
    assert command.main(["page", str(saved), str(shown), "--remark", "Seed 9 was left out."]) == 0
    assert "\n\nSeed 9 was left out.\n\n" in shown.read_text()
    assert command.main(["page", str(saved), str(shown)]) == 0
    assert "Seed 9 was left out." in shown.read_text()


# -- processes


def test_a_jvm_that_is_not_there_yet_is_waited_for_and_killed(tmp_path: Path) -> None:
    """A driver that has just been started has none; that it runs on does not mean that it hangs."""
    java = tmp_path / "java"
    shutil.copy(shutil.which("sleep") or "/bin/sleep", java)
    code = (
        "import subprocess, sys, time; time.sleep(0.5); "
        f"sys.exit(subprocess.run([{str(java)!r}, '60']).returncode == -9 and 7)"
    )
    driver = object.__new__(Driver)
    driver._process = subprocess.Popen([sys.executable, "-c", code])
    assert driver.kill_jvm(20.0) == 7


def test_a_crash_says_where_it_is_before_the_process_ends(tmp_path: Path) -> None:
    """The count of gaps relies on it."""
    code = (
        "from headrace.state.crash_points import *; crash_point(Point.AFTER_SINKS, 7, '1.8')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path,
        env={**os.environ, "HEADRACE_CRASH": "after_sinks:7"},
    )
    assert done.returncode == -signal.SIGKILL
    assert rounds.CRASHED.findall(done.stderr) == [("after_sinks", "7", "1.8", "-")]


# -- the real thing, in short

SHORT = Asked(elements=6_000, files=8, rate_files=3, faults=5)
LIVES = (
    Life(
        shards=2,
        jumps=((0.0, 600.0),),
        gaps=(Gap(point=Point.AFTER_SEAL, tries=2),),
        faults=(
            Fault(kind=Kind.WORKER_STOPPED, epochs=2, delay=0.2, lasting=1.2),
            Fault(kind=Kind.MACHINE, epochs=1, delay=0.3),
        ),
    ),
    Life(shards=3, gaps=(Gap(point=Point.BETWEEN_SINKS, tries=2),)),
)


@pytest.mark.spark
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ["mixed", "splittable"] if SLOW else ["mixed"])
def test_a_short_round_of_cheap_faults_loses_and_doubles_nothing(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(campaign, "plan_round", lambda *_: LIVES)
    found = run_round(5, VARIANTS[name], SHORT, tmp_path)
    assert (found.verdict, found.told) == (Ending.RIGHT, ())
    assert found.starts == 3
    kinds = {kind: count for kind, _, count in found.hits}
    assert kinds["machine killed"] == kinds["clock jump"] == kinds["worker stopped"] == 1
    gaps = {where for kind, where, _ in found.hits if kind == "ended in a gap"}
    assert gaps == {"after_seal", "between_sinks"}


def test_a_plan_can_be_read_before_it_is_carried_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["round", "--seed", "3", "--plan"]) == 0
    assert capsys.readouterr().out.count("Life(") == len(plan_round(3, Asked().faults))
