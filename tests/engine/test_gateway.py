"""A silent JVM, unless the user has a log of his own or something is said that is not known."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from headrace.engine.spark.gateway import (
    LOG4J,
    OPTIONS,
    SAID_ELSEWHERE,
    _forward,
    log_options,
)


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SPARK_HOME", "SPARK_CONF_DIR", "SPARK_SUBMIT_OPTS", "JAVA_TOOL_OPTIONS"):
        monkeypatch.delenv(name, raising=False)


def test_log4j_is_given_a_file_that_lets_errors_through() -> None:
    option, _, path = log_options({}).partition("=file:")
    assert option == f"-D{LOG4J}"
    text = Path(path).read_text()
    assert "rootLogger.level = error" in text
    for name in SAID_ELSEWHERE:
        assert f".name = {name}\n" in text


def test_a_configuration_of_the_users_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert log_options({OPTIONS: f"-D{LOG4J}=mine.xml"}) == ""
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", f"-D{LOG4J}=mine.xml")
    assert log_options({}) == ""
    monkeypatch.delenv("SPARK_SUBMIT_OPTS")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert log_options({}) != ""  # a folder alone says nothing of a log
    (tmp_path / "log4j2.properties").write_text("")
    assert log_options({}) == ""


def through(*parts: bytes) -> None:
    reads, writes = os.pipe()
    thread = threading.Thread(target=_forward, args=(reads, "stderr"))
    thread.start()
    for part in parts:
        os.write(writes, part)
    os.close(writes)
    thread.join(10)


def test_lines_come_whole_and_the_jvms_own_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    through(b"WARNING: Using incub", b"ator modules: x\nfirst ", b"line\nlast\xff")
    assert capsys.readouterr().err == "first line\nlast\\xff"


GONE = b"""Traceback (most recent call last):
  File "/x/pyspark.zip/pyspark/daemon.py", line 264, in manager
  File "/x/pyspark.zip/pyspark/daemon.py", line 95, in worker
BrokenPipeError: [Errno 32] Broken pipe
"""


def test_a_daemon_whose_stream_was_stopped_is_not_told(capsys: pytest.CaptureFixture[str]) -> None:
    through(b"before\n" + GONE[:50], GONE[50:] + b"after\n")
    assert capsys.readouterr().err == "before\nafter\n"


@pytest.mark.parametrize("trace", [
    GONE.replace(b"BrokenPipeError", b"ValueError"),
    GONE.replace(b"daemon.py", b"worker.py"),
    GONE[:100],  # whoever wrote it was killed
])
def test_any_other_trace_is_told_whole(trace: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    through(trace)
    assert capsys.readouterr().err.encode() == trace
