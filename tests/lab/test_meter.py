"""Which processes are metered: of lists made by hand, and once for real."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from headrace.lab.meter import Process, peak_bytes, tree, workers


def made(*processes: tuple[int, int, str]) -> list[Process]:
    return [
        Process(pid=pid, parent=parent, command=command, own_seconds=1.0, cpu_seconds=1.0)
        for pid, parent, command in processes
    ]


def test_a_tree_holds_descendants_and_nobody_else() -> None:
    found = made((1, 0, "init"), (5, 1, "python"), (9, 5, "java"), (12, 9, "python3.11"),
                 (3, 12, "python3.11"), (8, 1, "python"))
    assert set(tree(5, found)) == {5, 9, 12, 3}


def test_workers_are_the_python_processes_below_the_jvm() -> None:
    found = made((5, 1, "python"), (6, 5, "python"), (9, 5, "java"),
                 (12, 9, "python3.11"), (13, 12, "python3.11"), (14, 9, "sh"))
    assert sorted(workers(tree(5, found))) == [12, 13]


def test_a_running_child_is_in_the_tree_with_its_name() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        found = tree(os.getpid())
        assert found[child.pid].parent == os.getpid()
        assert found[child.pid].command.startswith("python")
    finally:
        child.communicate(b"\n")


def test_the_high_water_mark_counts_where_there_is_one(tmp_path: Path) -> None:
    (tmp_path / "4").mkdir()
    status = tmp_path / "4" / "status"
    status.write_text("Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t     100 kB\n")
    assert peak_bytes(4, tmp_path) == 2048 * 1024
    status.write_text("Name:\tx\nVmRSS:\t     100 kB\n")
    assert peak_bytes(4, tmp_path) == 100 * 1024
    assert peak_bytes(5, tmp_path) == 0


def test_processor_time_of_a_child_that_has_ended_is_counted() -> None:
    """In a process of its own: below this one may be a Spark that ends idle workers just then."""
    burn = "import time\nwhile time.process_time() < 0.5: pass"
    measured = f"""
import subprocess, sys
from headrace.lab.meter import Meter
with Meter() as meter:
    subprocess.run([sys.executable, "-c", {burn!r}], check=True)
print(meter.cpu_seconds)
"""
    told = subprocess.run(
        [sys.executable, "-c", measured], check=True, capture_output=True, text=True,
        cwd=Path(__file__).parents[2],
    )
    assert 0.45 <= float(told.stdout) < 5


def test_processor_time_of_this_process_is_ours_alone() -> None:
    """In a process of its own: this one may have a JVM of other tests."""
    program = (
        "import time\n"
        "from headrace.lab.meter import PartsMeter\n"
        "with PartsMeter() as meter:\n"
        "    end = time.process_time() + 0.2\n"
        "    while time.process_time() < end:\n"
        "        pass\n"
        "print(*meter.seconds)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    java, workers_, driver = map(float, done.stdout.split())
    assert (java, workers_) == (0.0, 0.0)
    assert driver >= 0.15
