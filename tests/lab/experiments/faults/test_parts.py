"""The parts of the chaos run that need no Spark: input, oracle, plan of kills, phases."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.lab.commands import number
from headrace.lab.experiments.faults.data import DISORDER_SECONDS, InputSpec, write_input
from headrace.lab.experiments.faults.kill_run import main
from headrace.lab.experiments.faults.kills import Kind, plan
from headrace.lab.experiments.faults.oracle import BRANCHES, differences, right_answer
from headrace.lab.experiments.faults.phases import Phase, Progress, phase_of, phases_of, status
from headrace.lab.experiments.faults.processes import descendants, end
from headrace.lab.experiments.faults.reading import written

INPUT_SPEC = InputSpec(elements=3_000, files=5, rate_files=3, seed=11)
SECOND = 1_000_000


def events_of(folder: Path) -> list[tuple[int, str, int]]:
    """All events in the order in which a reader meets them."""
    found: list[tuple[int, str, int]] = []
    paths = sorted((folder / "events").iterdir(), key=lambda path: path.stat().st_mtime)
    for path in paths:
        table = pq.read_table(path)
        columns = [table["at"].cast("int64"), table["key"], table["value"]]
        found += zip(*(column.to_pylist() for column in columns), strict=True)
    return found


def test_the_same_seed_gives_the_same_input_and_another_one_another(tmp_path: Path) -> None:
    for name, spec in (
        ("a", INPUT_SPEC), ("b", INPUT_SPEC), ("c", dataclasses.replace(INPUT_SPEC, seed=12)),
    ):
        write_input(tmp_path / name, spec)
    assert events_of(tmp_path / "a") == events_of(tmp_path / "b") != events_of(tmp_path / "c")
    assert InputSpec(**json.loads((tmp_path / "a" / "spec.json").read_text())) == INPUT_SPEC


def test_no_event_is_further_out_of_order_than_the_watermark_allows(tmp_path: Path) -> None:
    write_input(tmp_path, INPUT_SPEC)
    events = events_of(tmp_path)
    assert sorted(value for *_, value in events) == list(range(INPUT_SPEC.elements))
    newest, most = 0, 0
    for at, *_ in events:
        newest = max(newest, at)
        most = max(most, newest - at)
    assert DISORDER_SECONDS * SECOND / 2 < most < DISORDER_SECONDS * SECOND


def test_the_oracle_agrees_with_an_answer_worked_out_by_hand(tmp_path: Path) -> None:
    """Key a: 5 at 1 s, 6 at 4.9 s, 10 at 8.9 s (a gap of 4 s after 6), 15 at 61 s."""
    kinds = {"at": pa.timestamp("us", tz="UTC"), "key": pa.string()}

    def save(name: str, **columns: list[object]) -> None:
        (tmp_path / name).mkdir()
        made = {n: pa.array(v, kinds.get(n, pa.int64())) for n, v in columns.items()}
        pq.write_table(pa.table(made), tmp_path / name / "0.parquet")

    save(
        "events", at=[8_900_000, SECOND, 61 * SECOND, 4_900_000], key=["a"] * 4,
        value=[10, 5, 15, 6],
    )
    save("rates", at=[0, 0, 60 * SECOND], kind=[5, 2, 7], rate=[2, 3, 4])
    late = 60 * SECOND
    assert right_answer(tmp_path) == {
        "totals": Counter(
            [("a", 0, 30 * SECOND, 3, 21, 5 ^ 6 ^ 10), ("a", late, 90 * SECOND, 1, 15, 15)]
        ),
        "sessions": Counter(
            [
                ("a", SECOND, 8_900_000, 2, 11, 5 ^ 6),
                ("a", 8_900_000, 12_900_000, 1, 10, 10),
                ("a", 61 * SECOND, 65 * SECOND, 1, 15, 15),
            ]
        ),
        "flushes": Counter(
            [("a", 0, late, 3, 21, 5 ^ 6 ^ 10), ("a", late, 120 * SECOND, 1, 15, 15)]
        ),
        "joined": Counter(
            [("a", 0, 30 * SECOND, 2, 40, 10 ^ 30), ("a", late, 90 * SECOND, 1, 60, 60)]
        ),
    }


def test_a_lost_row_and_a_doubled_one_are_both_differences(tmp_path: Path) -> None:
    row = {"key": "a", "start": 0, "end": 1, "count": 2, "total": 3, "mix": 4}
    for epoch in (3, 4):
        folder = tmp_path / "totals" / f"epoch={epoch:08d}"
        folder.mkdir(parents=True)
        pq.write_table(pa.Table.from_pylist([row]), folder / "part-0.parquet")
    found = written(tmp_path)
    one = tuple(row.values())
    assert found == {**{branch: Counter() for branch in BRANCHES}, "totals": Counter({one: 2})}
    assert differences(found, found) == []
    wanted = {**found, "totals": Counter([one]), "flushes": Counter([one])}
    assert differences(found, wanted) == [  # type: ignore[arg-type]
        "totals: 1 rows too many, such as ('a', 0, 1, 2, 3, 4)",
        "flushes: 1 rows missing, such as ('a', 0, 1, 2, 3, 4)",
    ]


def test_kills_are_drawn_from_the_seed_in_the_order_of_the_epochs() -> None:
    kills = plan(200, 50, 2.0, 5)
    assert kills == plan(200, 50, 2.0, 5) != plan(200, 50, 2.0, 6)
    assert {kill.kind for kill in kills} == set(Kind)
    epochs = [kill.epoch for kill in kills if kill.epoch is not None]
    assert epochs == sorted(epochs) and 0 <= epochs[0] and epochs[-1] < 48
    assert any(kill.epoch is None for kill in kills)
    assert {kill.shards for kill in kills} == {2, 3, 4}
    assert 0 < sum(kill.wipe for kill in kills) < 200


def touch(path: Path, text: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_the_phase_of_a_dead_run_is_read_from_what_the_steps_leave(tmp_path: Path) -> None:
    """Step after step of one epoch; each leaves one file more."""
    checkpoint, output = tmp_path / "checkpoint", tmp_path / "out"
    assert status(checkpoint) == Progress(-1, 0, ())

    def now(since: float = 0.0) -> Phase:
        return phase_of(checkpoint, output, claimed_before=2, since=since)

    for claimed in (1, 2):
        touch(checkpoint / "incarnations" / f"{claimed:08d}.json")
    assert now() is Phase.STARTING
    touch(checkpoint / "incarnations" / "00000003.json")
    manifest = {"epoch": 6, "batches": {"Events": 4, "Rates": 0}}
    touch(checkpoint / "manifests" / "00000006.json", json.dumps(manifest) + "\nsum\n")
    for source, last in ((0, 4), (1, 0)):
        for step in ("offsets", "commits"):
            touch(checkpoint / "spark" / str(source) / step / str(last))
    assert status(checkpoint) == Progress(6, 3, (4, 0))
    assert now() is Phase.BETWEEN
    touch(checkpoint / "spark" / "1" / "offsets" / "1")
    touch(checkpoint / "spark" / "1" / "commits" / ".1.crc")  # never finished
    assert now() is Phase.OFFSETS
    touch(checkpoint / "state" / "1-0" / "00000007-2-left-by-an-earlier-driver.log")
    assert now() is Phase.OFFSETS
    touch(checkpoint / "state" / "1-0" / "00000007-3-ours.log")
    assert now() is Phase.SEALING
    touch(output / "totals" / "epoch=00000007" / "part-0.parquet")
    assert now() is Phase.SINKS
    assert now(since=time.time() + 60) is Phase.SEALING  # an earlier driver's rows
    manifest = {"epoch": 7, "batches": {"Events": 4, "Rates": 1}}
    touch(checkpoint / "manifests" / "00000007.json", json.dumps(manifest) + "\nsum\n")
    assert now() is Phase.COMMITTED
    touch(checkpoint / "spark" / "0" / "offsets" / "5")  # the other source is faster
    both = phases_of(checkpoint, output, claimed_before=2, since=0.0)
    assert both == (Phase.COMMITTED, Phase.OFFSETS)
    touch(checkpoint / "spark" / "1" / "commits" / "1")
    assert now() is Phase.OFFSETS
    (checkpoint / "spark" / "0" / "offsets" / "5").unlink()
    assert now() is Phase.BETWEEN


def test_all_processes_below_one_are_found_and_ended() -> None:
    code = "import subprocess, sys, time; subprocess.run([sys.executable, '-c', sys.argv[1]])"
    sleep = "import time; time.sleep(60)"
    process = subprocess.Popen([sys.executable, "-c", code, sleep])
    try:
        deadline = time.monotonic() + 20
        while not (below := descendants(process.pid)):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert len(below) == 1
        end(below, linger=0)
        assert process.wait(20) == 0  # it had waited for its child only
    finally:
        process.kill()
        process.wait()
    assert descendants(os.getpid()) & below == set()


@pytest.mark.parametrize(("text", "count"), [("40K", 40_000), ("2M", 2_000_000), ("7", 7)])
def test_numbers_are_written_as_people_do(text: str, count: int) -> None:
    assert number(text) == count


@pytest.mark.skipif(
    "HEADRACE_SLOW" not in os.environ, reason="takes minutes; set HEADRACE_SLOW=1, or make chaos"
)
@pytest.mark.spark
@pytest.mark.timeout(900)
def test_a_run_that_is_killed_writes_what_a_run_in_peace_writes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = "--elements 40K --kills 3 --files 6 --rate-files 3 --seed 7".split()
    told = main([*asked, "--folder", str(tmp_path)])
    said = capsys.readouterr().out
    assert told == 0, said
    assert "verdict: nothing lost, nothing doubled" in said
    assert said.count(": the same ") == 3
