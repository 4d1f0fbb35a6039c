"""A Java or a Spark that does not fit is refused in words that say what to do."""

from __future__ import annotations

import os
import stat
import tempfile
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.clientserver import ClientServerConnection

from headrace.engine.spark.classic_door import ClassicDoor
from headrace.engine.spark.session import (
    SOCKETS_ENABLED,
    SOCKETS_FOLDER,
    check_version,
    find_target,
    own_query,
    socket_settings,
)
from headrace.errors import SessionError
from tests.spark_session import shared_session


def session(version: str, **settings: str) -> Any:
    """As much of a session as is looked at."""
    conf = SimpleNamespace(get=settings.get)
    context = SimpleNamespace(_conf=conf, master="local[2]")
    return SimpleNamespace(version=version, sparkContext=context)


@pytest.mark.parametrize("version", ["3.5.1", "4.0.0", "4.0.1-SNAPSHOT"])
def test_a_spark_without_repartition_by_id_is_refused(version: str) -> None:
    with pytest.raises(SessionError, match=f"Spark {version} .* 4.1 or newer"):
        check_version(session(version))


@pytest.mark.parametrize("version", ["4.1.0", "4.3.0", "4.10.0", "5.0.0"])
def test_a_spark_that_has_it_is_taken_without_advice(version: str) -> None:
    check_version(session(version))
    assert ClassicDoor(session(version)).check() == []


def test_workers_that_are_not_used_again_are_advised_against() -> None:
    door = ClassicDoor(session("4.3.0", **{"spark.python.worker.reuse": "false"}))
    (advice,) = door.check()
    assert advice.startswith("spark.python.worker.reuse is false")


def test_sockets_of_a_local_session_lie_where_nobody_else_can_enter() -> None:
    told = socket_settings(True, {})
    assert told[SOCKETS_ENABLED] == "true"
    assert stat.S_IMODE(os.stat(told[SOCKETS_FOLDER]).st_mode) == 0o700


@pytest.mark.parametrize(("mask", "files"), [(0o022, "true"), (0o077, "true"), (0o002, "false")])
def test_on_a_cluster_sockets_are_files_only_if_the_umask_closes_them(
    mask: int, files: str
) -> None:
    before = os.umask(mask)
    try:
        assert socket_settings(False, {}) == {SOCKETS_ENABLED: files}
        assert os.umask(mask) == mask
    finally:
        os.umask(before)


@pytest.mark.parametrize("given", [{SOCKETS_ENABLED: "false"}, {SOCKETS_FOLDER: "/run/mine"}])
def test_what_was_submitted_about_sockets_is_left_alone(given: dict[str, str]) -> None:
    assert socket_settings(True, given) == {}


def test_a_temporary_folder_with_a_long_name_is_used_only_if_it_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = tmp_path / ("x" * 60)
    long.mkdir(mode=0o700)
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    sockets = long / "headrace-sockets-1"
    monkeypatch.setattr("headrace.engine.spark.session._sockets", lambda: sockets)
    assert socket_settings(True, {}) == {SOCKETS_ENABLED: "true"}
    long.chmod(0o755)
    assert socket_settings(True, {}) == {SOCKETS_ENABLED: "false"}


@pytest.mark.spark
def test_the_sockets_of_the_running_session_are_there() -> None:
    session = shared_session()
    folder = Path(session.sparkContext.getConf().get(SOCKETS_FOLDER))
    assert session.sparkContext.parallelize([1, 2], 2).sum() == 3
    assert len(list(folder.glob(".*.sock"))) >= 2  # the accumulators' and the daemon's


@pytest.mark.spark
def test_a_session_made_in_another_thread_is_found_and_keeps_its_settings() -> None:
    """Spark's builder would find it too, and write our settings into it."""
    session = shared_session()
    before = dict(session.conf.getAll)
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(find_target(None, None)))
    thread.start()
    thread.join()
    assert found[0].parent.sparkContext is session.sparkContext
    assert dict(session.conf.getAll) == before


@pytest.mark.spark
def test_our_session_has_the_settings_of_the_users_and_asks_for_them_in_few_calls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """PySpark takes some 500 calls of the JVM for the same: two for each of its settings."""
    users = shared_session().newSession()
    odd = {
        "spark.sql.session.timeZone": "Asia/Kathmandu", "spark.sql.ansi.enabled": "false",
        "spark.sql.redaction.string.regex": "a -> b\nc = d",
        "spark.sql.optimizer.excludedRules": "",
    }  # fmt: skip
    for name, value in odd.items():
        users.conf.set(name, value)
    calls: list[str] = []
    send = ClientServerConnection.send_command

    def counted(connection: Any, command: str) -> Any:
        calls.append(command)
        return send(connection, command)

    monkeypatch.setattr(ClientServerConnection, "send_command", counted)
    target = find_target(users)
    count = len(calls)
    assert {name: target.session.conf.get(name) for name in odd} == odd
    assert count < 100


@pytest.mark.spark
def test_a_query_on_a_source_of_sparks_own_asks_for_none_in_python(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Spark would start a Python process to look for such sources, at the first question."""
    calls: list[str] = []
    send = ClientServerConnection.send_command

    def noted(connection: Any, command: str) -> Any:
        calls.append(command)
        return send(connection, command)

    users = shared_session()
    frame = users.readStream.format("rate").load()
    target = find_target(users)
    monkeypatch.setattr(ClientServerConnection, "send_command", noted)
    mine = own_query(target, frame, local_logs=True)
    assert mine.isStreaming
    assert mine.sparkSession is target.session
    assert [command for command in calls if "dataSourceExists" in command] == []
