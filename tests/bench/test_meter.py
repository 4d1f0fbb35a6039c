"""Reading /proc: from a folder made by hand, and once for real."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.meter import PROC, Meter, Process, peak_bytes, read_stat, tree, workers

TICKS = os.sysconf("SC_CLK_TCK")


def stat_line(pid: int, parent: int, command: str, ticks: tuple[int, int, int, int]) -> str:
    return f"{pid} ({command}) S {parent} 1 1 0 -1 4194304 5 6 7 8 {' '.join(map(str, ticks))} 20 0"


def made(folder: Path, *processes: tuple[int, int, str]) -> Path:
    for pid, parent, command in processes:
        (folder / str(pid)).mkdir()
        (folder / str(pid) / "stat").write_text(stat_line(pid, parent, command, (1, 2, 3, 4)))
    return folder


def test_a_command_with_spaces_and_brackets_does_not_shift_the_fields() -> None:
    assert read_stat(stat_line(7, 3, "a) R (b", (TICKS, TICKS, TICKS, 0))) == Process(
        pid=7, parent=3, command="a) R (b", cpu_seconds=3.0
    )


def test_a_tree_holds_descendants_and_nobody_else(tmp_path: Path) -> None:
    proc = made(tmp_path, (1, 0, "init"), (5, 1, "python"), (9, 5, "java"), (12, 9, "python3.11"),
                (3, 12, "python3.11"), (8, 1, "python"))
    assert set(tree(5, proc)) == {5, 9, 12, 3}


def test_workers_are_the_python_processes_below_the_jvm(tmp_path: Path) -> None:
    proc = made(tmp_path, (5, 1, "python"), (6, 5, "python"), (9, 5, "java"),
                (12, 9, "python3.11"), (13, 12, "python3.11"), (14, 9, "sh"))
    assert sorted(workers(tree(5, proc))) == [12, 13]


def test_the_high_water_mark_counts_where_there_is_one(tmp_path: Path) -> None:
    (tmp_path / "4").mkdir()
    status = tmp_path / "4" / "status"
    status.write_text("Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t     100 kB\n")
    assert peak_bytes(4, tmp_path) == 2048 * 1024
    status.write_text("Name:\tx\nVmRSS:\t     100 kB\n")
    assert peak_bytes(4, tmp_path) == 100 * 1024
    assert peak_bytes(5, tmp_path) == 0


def test_without_proc_there_is_no_tree(tmp_path: Path) -> None:
    assert tree(os.getpid(), tmp_path) == {}


@pytest.mark.skipif(not PROC.exists(), reason="this system has no /proc")
def test_processor_time_of_a_child_that_has_ended_is_counted() -> None:
    burn = "import time\nwhile time.process_time() < 0.5: pass"
    with Meter() as meter:
        subprocess.run([sys.executable, "-c", burn], check=True)
    assert meter.cpu_seconds is not None
    assert meter.cpu_seconds >= 0.45
