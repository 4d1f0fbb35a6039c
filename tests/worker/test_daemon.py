"""What the worker daemon adds to Spark's own."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from pathlib import Path

import pytest

from headrace.worker.daemon import SOCKETS, leaving_quietly, private_sockets


def test_the_daemon_listens_where_nobody_else_can_enter(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    given = Path(tempfile.mkdtemp(prefix="hr-"))  # the fixture's own is too long for a socket
    try:
        given.chmod(0o1777)
        monkeypatch.setenv(SOCKETS, str(given))
        made = private_sockets()
        assert Path(made).parent == given
        assert os.environ[SOCKETS] == made
        assert stat.S_IMODE(os.stat(made).st_mode) == 0o700
        assert private_sockets() == ""  # nothing to be mended there
        assert os.environ[SOCKETS] == made
    finally:
        shutil.rmtree(given)
    long = tmp_path / ("x" * 100)
    long.mkdir()
    long.chmod(0o755)
    monkeypatch.setenv(SOCKETS, str(long))
    assert private_sockets() == ""
    assert list(long.iterdir()) == []
    monkeypatch.delenv(SOCKETS)
    assert private_sockets() == ""


def test_a_worker_whose_jvm_has_gone_ends_without_an_exception() -> None:
    def worker(sock: str, authenticated: bool) -> int:
        raise BrokenPipeError(32, sock if authenticated else "")

    assert leaving_quietly(worker)("sock", True) == 1


def test_all_else_passes_through() -> None:
    def failing(_: object) -> int:
        message = "no pipe"
        raise OSError(message)

    assert leaving_quietly(lambda a, b: (a, b))(1, 2) == (1, 2)
    with pytest.raises(OSError, match="no pipe"):
        leaving_quietly(failing)(None)
