"""Beam's portable runners as systems: parts, options and rows without a JVM; real ones if there."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import apache_beam as beam
import pytest

from headrace.errors import OptionError, UnsupportedTransformError
from headrace.lab.benches import AbsentError, bench_of
from headrace.lab.catalog import CATALOG
from headrace.lab.data_engine.schedule import Schedule
from headrace.lab.endpoints.names import Sink, SinkKind, Source, SourceKind
from headrace.lab.environments import NotInstalledError
from headrace.lab.experiments.table.runs import settings_of
from headrace.lab.installing import INSTALLED, install
from headrace.lab.job_servers import parts
from headrace.lab.job_servers.parts import JOB_SERVERS, JobServer, differing, jars_of, sums_of
from headrace.lab.record.trial import Load
from headrace.lab.run import run_workload
from headrace.lab.spec import SystemSpec
from headrace.lab.systems.choose import choose
from headrace.lab.systems.left_rows import Leave, read_left
from headrace.lab.systems.live import LiveBench, LiveSettings
from headrace.lab.systems.portable_job import command, take_python
from headrace.lab.systems.portable_options import options_of
from headrace.lab.systems.system import Request, Tuning
from headrace.lab.workload import Mode

Q1 = CATALOG.workload("nexmark", "q1")


def asked(
    folder: Path, name: str = "q1", *, mode: Mode = Mode.BATCH, source: SourceKind | None = None,
    sink: SinkKind = SinkKind.FILE, events: int = 2_000,
) -> Request:
    workload = CATALOG.workload("nexmark", name)
    return Request(
        workload=workload, settings=settings_of(workload, events), mode=mode, folder=folder,
        source=Source(source or SourceKind.GENERATOR), sink=Sink(sink), shards=2,
        tuning=Tuning(bundle_ms=70, bundle_events=300),
    )


# --- parts


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "headrace" / "lab"


@pytest.fixture
def toy(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A job server of two jars, whose list of sums lies where a test can change it."""
    monkeypatch.setattr(parts, "__file__", str(tmp_path / "parts.py"))
    monkeypatch.setitem(parts.JOB_SERVERS, "toy", JobServer(driver="Toy", parts=("g:a:1", "g:b:2")))
    lines = [f"{hashlib.sha256(text).hexdigest()}  {name}" for name, text in JARS.items()]
    (tmp_path / "toy.sha256").write_text("\n".join(lines))
    return "toy"


JARS = {"a-1.jar": b"one", "b-2.jar": b"two"}


def given_by_maven(monkeypatch: pytest.MonkeyPatch, jars: dict[str, bytes]) -> list[str]:
    """Put a Maven on the path that copies these files; gives the poms that it is asked for."""
    poms: list[str] = []

    def run(told: list[str], **_how: object) -> subprocess.CompletedProcess[str]:
        poms.append(Path(told[told.index("-f") + 1]).read_text())
        folder = Path(told[-1].partition("=")[2])
        for name, text in jars.items():
            (folder / name).write_bytes(text)
        return subprocess.CompletedProcess(told, 0 if jars else 1, "[ERROR] no such jar\n", "")

    monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}")
    monkeypatch.setattr(subprocess, "run", run)
    return poms


def test_jars_are_fetched_once_and_are_there_only_whole(
    toy: str, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(NotInstalledError, match="headrace lab install toy"):
        jars_of(toy)
    given_by_maven(monkeypatch, {})
    with pytest.raises(OptionError, match="no such jar"):
        parts.install(toy)
    assert list(cache.iterdir()) == []
    poms = given_by_maven(monkeypatch, JARS)
    assert parts.install(toy) == jars_of(toy) == parts.install(toy)
    assert len(poms) == 1 and "<artifactId>b</artifactId><version>2</version>" in poms[0]


@pytest.mark.parametrize(
    ("came", "why"),
    [
        ({**JARS, "b-2.jar": b"other"}, "b-2.jar has the SHA-256 "),
        ({**JARS, "c-3.jar": b""}, "c-3.jar is not one of its jars"),
        ({"a-1.jar": b"one"}, "b-2.jar is missing"),
    ],
)
def test_other_jars_than_those_of_the_list_are_not_used(
    toy: str, cache: Path, monkeypatch: pytest.MonkeyPatch, came: dict[str, bytes], why: str
) -> None:
    given_by_maven(monkeypatch, came)
    with pytest.raises(OptionError, match=why):
        parts.install(toy)
    assert list(cache.iterdir()) == []


def test_jars_that_were_changed_later_are_not_used(
    toy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given_by_maven(monkeypatch, JARS)
    (parts.install(toy) / "a-1.jar").write_bytes(b"changed")
    with pytest.raises(OptionError, match=r"a-1\.jar has the SHA-256 .* Remove it"):
        jars_of(toy)


def test_without_maven_the_user_is_told_to_install_it(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    with pytest.raises(OptionError, match="install Maven"):
        install("beam-spark")
    assert list(cache.iterdir()) == []


@pytest.mark.parametrize("system", JOB_SERVERS)
def test_the_list_has_a_sum_for_every_part_that_is_asked_for(system: str) -> None:
    sums = sums_of(system)
    for part in JOB_SERVERS[system].parts:
        _, artifact, version = part.split(":")
        assert f"{artifact}-{version}.jar" in sums
    assert all(len(digest) == 64 for digest in sums.values())


def test_an_empty_folder_differs_from_a_list(tmp_path: Path) -> None:
    assert differing(tmp_path, {"a.jar": "0"}) == "a.jar is missing (1 in all)"
    assert differing(tmp_path, {}) == ""


# --- what they are asked, and told


def test_a_system_without_its_job_server_says_the_command(cache: Path, tmp_path: Path) -> None:
    for name in JOB_SERVERS:
        with pytest.raises(NotInstalledError, match=f"headrace lab install {name}"):
            choose(name).prepare(asked(tmp_path))
    with pytest.raises(AbsentError, match="headrace lab install beam-flink"):
        bench_of(SystemSpec(name="x", kind="beam-flink", settings={}))
    assert set(INSTALLED) == {"pyflink", *JOB_SERVERS}


def test_the_spark_runner_is_not_asked_to_stream(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="asked in batch only.*silently wrong"):
        choose("beam-spark").prepare(asked(tmp_path, mode=Mode.STREAMING))
    with pytest.raises(AbsentError, match="asked in batch only"):
        bench_of(SystemSpec(name="x", kind="beam-spark", settings={}))


def test_the_flink_runner_is_not_asked_for_what_waits_for_the_clock(tmp_path: Path) -> None:
    """Processing-time timers do not end there: q12 counts in windows of the clock."""
    with pytest.raises(UnsupportedTransformError, match="nexmark q12 waits for times of the clock"):
        choose("beam-flink").prepare(asked(tmp_path, "q12", mode=Mode.STREAMING))


def test_what_writes_with_spark_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="has the sinks file, vector, null"):
        choose("beam-flink").prepare(asked(tmp_path, sink=SinkKind.SPARK))
    with pytest.raises(OptionError, match="the source log is a DataFrame"):
        choose("beam-flink").prepare(asked(tmp_path, source=SourceKind.LOG))


def test_flink_keeps_its_state_where_the_run_does_and_bundles_as_it_is_tuned(
    tmp_path: Path,
) -> None:
    batch = options_of("beam-flink", asked(tmp_path), 3)
    stream = options_of("beam-flink", asked(tmp_path, mode=Mode.STREAMING), 3)
    assert "--parallelism=3" in batch and "--sdk_worker_parallelism=3" in batch
    assert set(batch) < set(stream)
    assert {"--max_bundle_time_mills=70", "--max_bundle_size=300"} < set(stream)
    (path,) = (told for told in stream if told.startswith("--state_backend_storage_path="))
    assert path.endswith((tmp_path / "checkpoint").as_uri())


def test_a_job_server_is_told_free_ports_and_its_master(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.lab.systems.portable_job.jars_of", lambda name: Path("/j", name))
    spark, flink = (command(name, tmp_path, 2) for name in ("beam-spark", "beam-flink"))
    assert "--spark-master-url=local[2]" in spark and "-Dspark.ui.enabled=false" in spark
    assert "--flink-master=[local]" in flink
    for told, name in ((spark, "beam-spark"), (flink, "beam-flink")):
        assert JOB_SERVERS[name].driver in told and f"/j/{name}/*" in told
        assert {"--job-port=0", "--artifact-port=0", "--expansion-port=0"} < set(told)
    assert "rest.bind-address: 127.0.0.1" in (tmp_path / "flink-conf.yaml").read_text()


def test_workers_are_started_with_the_interpreter_of_this_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", os.environ["PATH"])
    take_python(tmp_path)
    said = subprocess.run(
        ["python", "-c", "import sys; print(sys.executable, sys.argv[1])", "a b"],
        capture_output=True, text=True, check=True,
    )
    assert said.stdout.strip() == f"{sys.executable} a b"


# --- rows


def test_rows_leave_to_files_of_their_own_with_the_time(tmp_path: Path) -> None:
    with beam.Pipeline() as p:
        rows = p | beam.Create([(1, "x", 2.5), (2, "y", 3.0)])
        rows | beam.ParDo(Leave(str(tmp_path), keeps=True, at_once=False))
    kept, count = read_left(tmp_path)
    assert sorted(row for _, row in kept) == [(1, "x", 2.5), (2, "y", 3.0)]
    assert count == 2 and all(at > 1.6e9 for at, _ in kept)


def test_rows_that_are_not_kept_are_counted(tmp_path: Path) -> None:
    with beam.Pipeline() as p:
        p | beam.Create(range(7)) | beam.ParDo(Leave(str(tmp_path), keeps=False, at_once=False))
    assert read_left(tmp_path) == ([], 7)


# --- the real ones


def _installed(name: str) -> bool:
    try:
        return bool(os.environ.get("HEADRACE_SLOW") and jars_of(name))
    except OptionError:
        return False


def real(name: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(
        not _installed(name),
        reason=f"needs `headrace lab install {name}`, and HEADRACE_SLOW=1: a JVM, a minute",
    )


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("name", "engine"),
    [
        pytest.param("beam-spark", "Spark 3.5.0 by SparkPipelineRunner", marks=real("beam-spark")),
        pytest.param("beam-flink", "Flink 1.19.0 by FlinkPipelineRunner", marks=real("beam-flink")),
    ],
)
def test_a_portable_runner_answers_in_batch_as_the_oracle_does(
    name: str, engine: str, tmp_path: Path
) -> None:
    system = choose(name)
    try:
        for query in ("q1", "q5"):
            report = run_workload(asked(tmp_path / query, query), system)
            assert report.verdict is not None and report.verdict.right, query
            assert report.row_count and report.outcome.engine.startswith(engine)
    finally:
        system.stop()


@real("beam-flink")
@pytest.mark.timeout(900)
def test_the_flink_runner_answers_live() -> None:
    settings = LiveSettings(keys=4, window_ms=500, warm_seconds=2.0, panes=3, one_in=7, every=25)
    made = LiveBench("beam-flink", settings)
    try:
        for question in ("filter", "count", "sliding", "state"):
            load = Load(schedule=Schedule.steady(500, 4))
            trial = made.asked(question).trial(load)
            assert not trial.trouble, question
            assert trial.engine.startswith("Flink 1.19.0 by FlinkPipelineRunner")
    finally:
        made.stop()
