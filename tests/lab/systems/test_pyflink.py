"""PyFlink as a system: a fake that speaks as its process does, and the real one where it is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.errors import OptionError
from headrace.lab import environments
from headrace.lab.benches import AbsentError, bench_of
from headrace.lab.data_engine.schedule import Schedule
from headrace.lab.environments import NotInstalledError, folder_of, install, python_of
from headrace.lab.record.trial import Load, Patience, Trial
from headrace.lab.spec import QUESTIONS, SystemSpec
from headrace.lab.systems import pyflink_system
from headrace.lab.systems.live import LiveBench, LiveSettings
from headrace.lab.systems.pyflink_system import PyFlinkSystem, read_rows

#: Counts in plain Python what the job counts on Flink, and speaks as it does.
FAKE = '''
import json, sys, time
from collections import Counter
from headrace.lab.data_engine.client import EngineClient
print("a warning that is no JSON")
print(json.dumps({"ready": True}), flush=True)
for line in sys.stdin:
    if not line.strip():
        break
    task = json.loads(line)
    print(json.dumps({"engine": "a fake, " + task["mode"] + " mode"}), flush=True)
    size, counts, lasts, at = task["window_ms"], Counter(), {}, 0
    with EngineClient(task["address"]) as client, open(task["rows"], "a") as out:
        while True:
            batches, status = client.pull(at, task["per_tick"], wait=0.02)
            for batch in batches:
                at += batch.num_rows
                for nanos, key, number in zip(*(batch.column(n).to_pylist() for n in
                                                ("nanos", "key", "number"))):
                    place = (nanos // 1_000_000 // size * size, key)
                    counts[place] += 1
                    lasts[place] = number
            done = status.ended and not batches
            newest = max((window for window, _ in counts), default=0)
            for place in [p for p in counts if p[0] < newest or done]:
                row = [time.time(), 0, *place, counts.pop(place), lasts[place]]
                out.write(json.dumps(row) + "\\n")
            if done:
                break
    print(json.dumps({"done": True}), flush=True)
'''
BROKEN = '''
import sys
sys.stderr.write("Traceback\\nCaused by: java.lang.Exception: no slots\\n\\tat a.B\\n")
sys.exit(3)
'''


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    job = tmp_path / "job.py"
    job.write_text(FAKE)
    monkeypatch.setattr(pyflink_system, "_JOB", job)
    # In an environment of its own headrace is not; the fake borrows the client of data engines.
    root = str(Path(environments.__file__).parents[2])
    whole = environments.surroundings
    monkeypatch.setattr(
        environments, "surroundings", lambda python: {**whole(python), "PYTHONPATH": root}
    )
    return job


def tried() -> Trial:
    system = PyFlinkSystem("pyflink", python=Path(sys.executable))
    try:
        settings = LiveSettings(keys=4, window_ms=250, warm_seconds=0.5)
        return LiveBench("pyflink", settings, system).trial(load())
    finally:
        system.stop()


def load(rate: float = 4_000, patience: Patience | None = None) -> Load:
    return Load(schedule=Schedule.steady(rate, 2), patience=patience)


def test_rows_that_a_job_writes_are_judged_and_timed(fake: Path) -> None:
    system = PyFlinkSystem("pyflink-thread", python=Path(sys.executable))
    made = LiveBench(
        system.name, LiveSettings(keys=4, window_ms=250, warm_seconds=0.5), system
    )
    processes = set()
    for _ in range(2):  # one process, whose JVM is started once
        trial = made.trial(load())
        processes.add(system.pid)
        assert not trial.trouble
        assert trial.engine == "a fake, thread mode, 2 shards"
        assert 7 * 4 <= len(trial.due) <= 8 * 4
        assert 0 < float(trial.latency.min())
        assert trial.cost.cpu_seconds is not None and trial.cost.cpu_seconds > 0.01
    assert len(processes) == 1 and os.getpid() not in processes
    system.stop()


def test_what_answers_is_told_to_the_job(fake: Path) -> None:
    fake.write_text(FAKE.replace('"a fake, "', 'task["api"] + ", "'))
    for name, api in (("pyflink", "datastream"), ("flink-sql", "sql")):
        system = PyFlinkSystem(name, python=Path(sys.executable))
        settings = LiveSettings(keys=4, window_ms=250, warm_seconds=0.5)
        trial = LiveBench(name, settings, system).trial(load())
        system.stop()
        assert not trial.trouble and trial.engine == f"{api}, process mode, 2 shards"


def test_a_job_that_loses_a_row_is_found_out(fake: Path) -> None:
    fake.write_text(FAKE.replace("counts[place] += 1", "counts[place] += number != 1_000"))
    trial = tried()
    assert "wrong answer" in trial.trouble


def test_a_job_that_fails_says_why_in_javas_words(fake: Path) -> None:
    fake.write_text(BROKEN)
    trial = tried()
    assert trial.trouble == (
        "the system failed: TransportError: PyFlink ended with 3: java.lang.Exception: no slots"
    )


def test_a_job_that_fails_while_it_runs_says_why_and_the_next_one_has_a_new_process(
    fake: Path,
) -> None:
    system = PyFlinkSystem("pyflink", python=Path(sys.executable))
    made = LiveBench("pyflink", LiveSettings(keys=4, window_ms=250, warm_seconds=0.5), system)
    fake.write_text(FAKE.replace("    task = json.loads(line)", "    sys.exit('no slots')"))
    assert "PyFlink ended with 1: no slots" in made.trial(load()).trouble
    fake.write_text(FAKE)
    assert not made.trial(load()).trouble
    system.stop()


def test_what_a_restarted_job_writes_again_stands_in_for_what_it_wrote_before(
    tmp_path: Path,
) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(
        "[1.0, 0, 1000, 7, 3, 9]\n[1.1, 0, 2000, 7, 1, 12]\n"
        "[2.0, 1, 2000, 7, 5, 19]\n[2.1, 1, 2000, 7, 5, 19]\n"  # twice by one attempt: it stays
    )
    assert read_rows(path) == [
        (1.0, (1000, 7, 3, 9)), (2.0, (2000, 7, 5, 19)), (2.1, (2000, 7, 5, 19)),
    ]


def test_two_data_engines_are_refused(fake: Path) -> None:
    settings = LiveSettings(keys=4, partitions=2, warm_seconds=0.5)
    made = LiveBench("pyflink", settings, PyFlinkSystem("pyflink", python=Path(sys.executable)))
    with pytest.raises(OptionError, match="set partitions = 1"):
        made.trial(load())


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("HEADRACE_LAB_PYFLINK_PYTHON", raising=False)
    return tmp_path / "cache"


def test_a_system_without_its_environment_is_absent_with_the_command(cache: Path) -> None:
    with pytest.raises(NotInstalledError, match="headrace lab install pyflink"):
        python_of("pyflink")
    for kind in ("pyflink", "pyflink-thread", "flink-sql"):
        with pytest.raises(AbsentError, match="apache-flink==.* is not installed"):
            bench_of(SystemSpec(name="x", kind=kind, settings={}))


def test_an_environment_made_elsewhere_is_taken(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_LAB_PYFLINK_PYTHON", sys.executable)
    assert python_of("pyflink") == Path(sys.executable)


def test_an_environment_is_made_once_and_only_whole(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[str]] = []

    def run(command: list[str], **_how: object) -> subprocess.CompletedProcess[str]:
        asked.append(command)
        if command[2] == "venv":
            (Path(command[3]) / "bin").mkdir()
            (Path(command[3]) / "bin" / "python").touch()
        return subprocess.CompletedProcess(command, fails, "", "ERROR: no such version\n")

    monkeypatch.setattr(subprocess, "run", run)
    fails = 1
    with pytest.raises(OptionError, match="no such version"):
        install("pyflink")
    assert list((cache / "headrace" / "lab").iterdir()) == []
    fails = 0
    assert install("pyflink") == folder_of("pyflink") == install("pyflink")
    assert python_of("pyflink").parent.parent == folder_of("pyflink")
    assert len(asked) == 3 and asked[2][-1] == "apache-flink==2.3.0"
    with pytest.raises(OptionError, match="'spark' needs no environment of its own"):
        install("spark")


def _installed() -> bool:
    try:
        python_of("pyflink")
    except NotInstalledError:
        return False
    return True


@pytest.mark.skipif(
    not _installed() or not os.environ.get("HEADRACE_SLOW"),
    reason="needs `headrace lab install pyflink`, and HEADRACE_SLOW=1: two JVMs, half a minute",
)
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("name", "engine"),
    [
        ("pyflink", "PyFlink 2.3.0 DataStream, process mode"),
        ("pyflink-thread", "PyFlink 2.3.0 DataStream, thread mode"),
        ("flink-sql", "PyFlink 2.3.0 SQL, process mode"),
    ],
)
def test_pyflink_itself_answers_every_question_right(name: str, engine: str) -> None:
    settings = LiveSettings(
        keys=4, window_ms=250, warm_seconds=2.0, panes=3, one_in=7, every=25
    )
    made = LiveBench(name, settings)
    try:
        for question in QUESTIONS:
            trial = made.asked(question).trial(load(rate=2_000))
            assert not trial.trouble, question
            assert trial.engine.startswith(engine)
            assert len(trial.due) >= 4
    finally:
        made.stop()
