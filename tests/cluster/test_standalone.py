"""One pipeline at many places: Beam's local runner, local masters, a cluster of two workers.

Every place runs in a process of its own (see `driver.py`); all runs of a process happen once, and
the tests look at what they left. HEADRACE_SLOW=1 takes more masters and numbers of shards.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.standalone import JAVA_OPTIONS, Standalone

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
SLOW = "HEADRACE_SLOW" in os.environ
SHARDS = (1, 2, 3, 7) if SLOW else (3,)
MASTERS = ("local[1]", "local[2]") if SLOW else ("local[2]",)
DRIVER_SECONDS = 400
#: The victim sleeps for 240 s: an error that comes sooner did not wait for it.
LOST_SECONDS = 60

# By hand: 60 events 0..59 with keys a, b, c in turn, in windows of 20 s. The sums of the first
# window are 0+3+..+18 = 63, 1+4+..+19 = 70, 2+5+..+17 = 57; every sum is multiplied by 10 and
# 1+2+3 is added.
ANSWER = sorted(
    [
        "total ant 0 636", "total bee 0 706", "total cat 0 576",
        "total ant 20 2106", "total bee 20 1776", "total cat 20 2036",
        "total ant 40 2976", "total bee 40 3436", "total cat 40 3506",
        f"ledger a 20 {[*range(0, 60, 3)]}",
        f"ledger b 20 {[*range(1, 60, 3)]}",
        f"ledger c 20 {[*range(2, 60, 3)]}",
    ]
)  # fmt: skip

#: 127.0.0.1 as Linux writes it in its tables, plain and inside IPv6.
LOOPBACK_ADDRESSES = {"0100007F", "0000000000000000FFFF00000100007F"}


def drive(folder: Path, *arguments: str) -> list[dict[str, Any]]:
    """Run the driver; kill the worker that offers itself, by the id it wrote."""
    out, offered = folder / "out.json", folder / "pid"
    command = [sys.executable, str(ROOT / "tests" / "cluster" / "driver.py"), *arguments]
    with (folder / "driver.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--victim", str(folder), "--out", str(out)],
            cwd=folder, env={**os.environ, **JAVA_OPTIONS, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
        )  # fmt: skip
    deadline = time.monotonic() + DRIVER_SECONDS
    killed = False
    try:
        while process.poll() is None:
            assert time.monotonic() < deadline, (folder / "driver.log").read_text()[-4000:]
            if not killed and offered.exists():
                os.kill(int(offered.read_text()), signal.SIGKILL)
                killed = True
            time.sleep(0.05)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0, (folder / "driver.log").read_text()[-4000:]
    assert killed, "no worker offered itself"
    return list(json.loads(out.read_text()))


@pytest.fixture(scope="module")
def local_runs(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    places = [word for place in ("beam", *MASTERS) for word in ("--place", place)]
    shards = [word for number in SHARDS for word in ("--shards", str(number))]
    return drive(tmp_path_factory.mktemp("local"), *places, *shards)


@pytest.fixture(scope="module")
def cluster_runs(
    cluster: Standalone, tmp_path_factory: pytest.TempPathFactory
) -> list[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("cluster")
    project = folder / "project"
    (project / "millstone").mkdir(parents=True)
    (project / "setup.py").write_text(
        "from setuptools import setup\n"
        "setup(name='millstone', version='1.0', packages=['millstone'],\n"
        "      install_requires=['apache-beam'])\n"
    )
    (project / "millstone" / "__init__.py").write_text("def grind(x):\n    return x.upper()\n")
    shards = [word for number in SHARDS for word in ("--shards", str(number))]
    setup = ("--setup_file", str(project / "setup.py"))
    return drive(folder, "--place", cluster.master, *shards, *setup)


def one(runs: list[dict[str, Any]], **facts: object) -> dict[str, Any]:
    found = [run for run in runs if all(run.get(name) == fact for name, fact in facts.items())]
    assert found, f"no run with {facts}"
    return found[0]


def test_beams_local_runner_gives_the_answer_worked_out_by_hand(
    local_runs: list[dict[str, Any]],
) -> None:
    assert one(local_runs, place="beam")["lines"] == ANSWER


@pytest.mark.parametrize("shards", SHARDS)
@pytest.mark.parametrize("place", MASTERS)
def test_a_local_master_gives_the_same_answer_on_any_number_of_shards(
    local_runs: list[dict[str, Any]], place: str, shards: int
) -> None:
    run = one(local_runs, place=place, kind="plain", shards=shards)
    assert run.get("lines") == ANSWER, run


@pytest.mark.parametrize("shards", SHARDS)
def test_a_cluster_gives_the_same_answer_on_any_number_of_shards(
    cluster_runs: list[dict[str, Any]], shards: int
) -> None:
    run = one(cluster_runs, kind="plain", shards=shards)
    assert run.get("lines") == ANSWER, run


def test_the_cluster_ran_on_two_executors(cluster_runs: list[dict[str, Any]]) -> None:
    assert one(cluster_runs, kind="facts")["executors"] == 2


def test_a_worker_killed_on_the_cluster_is_replaced_and_the_answer_is_right(
    cluster_runs: list[dict[str, Any]],
) -> None:
    run = one(cluster_runs, kind="victim")
    assert run.get("lines") == ANSWER, run


def test_a_worker_killed_under_a_local_master_is_one_clear_error_in_bounded_time(
    local_runs: list[dict[str, Any]],
) -> None:
    run = one(local_runs, kind="victim")
    assert run.get("error") == "WorkerLostError", run
    assert "a Python worker died" in run["text"]
    assert run["seconds"] < LOST_SECONDS


def test_a_users_session_is_sent_headrace_and_the_users_own_package(
    cluster_runs: list[dict[str, Any]],
) -> None:
    run = one(cluster_runs, kind="users")
    assert run.get("lines") == sorted(line.upper() for line in ANSWER), run


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="reads Linux's table of sockets")
def test_the_driver_listens_on_loopback_only(
    local_runs: list[dict[str, Any]], cluster_runs: list[dict[str, Any]]
) -> None:
    for runs in (local_runs, cluster_runs):
        addresses = one(runs, kind="facts")["addresses"]
        assert addresses and set(addresses) <= LOOPBACK_ADDRESSES
