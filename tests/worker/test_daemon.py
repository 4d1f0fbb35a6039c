"""What the worker daemon adds to Spark's own."""

from __future__ import annotations

import pytest

from headrace.worker.daemon import leaving_quietly


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
