"""Puts questions to DuckDB, which runs in a process of its own.

An engine in C++ inside a process with many threads of Spark's and ours is one fault away from
taking a whole run with it. The process is started with the first question, serves all that follow,
and ends with its parent: its standard input is then closed. Questions and rows pass as pickles
between the two, which are one user's and one program's.
"""

from __future__ import annotations

import atexit
import os
import pickle
import struct
import subprocess
import sys
import threading
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any, BinaryIO

from headrace.errors import HeadraceError
from headrace.lab.workload import Row

_LENGTH = struct.Struct(">Q")


class OracleError(HeadraceError):
    """The oracle could not answer."""


class Duck:
    """The process, and whose turn it is to ask."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def ask(self, statements: tuple[str, ...], values: Mapping[str, Any]) -> list[Row]:
        """Run statements one after the other; give the rows of the last, which has the values."""
        with self._lock:
            process = self._running()
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                _send(process.stdin, (statements, dict(values)))
                kind, told = _receive(process.stdout)
            except (OSError, EOFError) as error:
                self._end()
                status = process.poll()
                msg = f"the process of the oracle ended (status {status}) while it was asked"
                raise OracleError(msg) from error
        if kind == "failed":
            raise OracleError(told)
        return told  # type: ignore[no-any-return]

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                # The child must find this package as its parent does.
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
        return self._process

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            if process.stdin is not None:
                process.stdin.close()
            process.wait()

    def end(self) -> None:
        """End the process."""
        with self._lock:
            self._end()


_DUCK = Duck()
atexit.register(_DUCK.end)


def ask(*statements: str, values: Mapping[str, Any]) -> list[Row]:
    """Answer a question: the rows of the last statement, `$name` in it standing for a value.

    Raises:
        ModuleNotFoundError: DuckDB is not installed.
        OracleError: DuckDB refused a statement, or its process died.
    """
    if find_spec("duckdb") is None:
        raise ModuleNotFoundError("No module named 'duckdb'", name="duckdb")  # noqa: EM101
    return _DUCK.ask(statements, values)


def _send(stream: BinaryIO | Any, told: Any) -> None:
    data = pickle.dumps(told, protocol=5)
    stream.write(_LENGTH.pack(len(data)))
    stream.write(data)
    stream.flush()


def _receive(stream: BinaryIO | Any) -> Any:
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        raise EOFError
    (length,) = _LENGTH.unpack(head)
    data = stream.read(length)
    if len(data) < length:
        raise EOFError
    return pickle.loads(data)


def _serve() -> None:
    """Answer until nobody asks any more."""
    import duckdb

    source, drain = sys.stdin.buffer, sys.stdout.buffer
    while True:
        try:
            statements, values = _receive(source)
        except EOFError:
            return
        try:
            with duckdb.connect() as connection:
                for statement in statements[:-1]:
                    connection.execute(statement)
                rows = connection.execute(statements[-1], values).fetchall()
            answer: tuple[str, Any] = ("rows", rows)
        except duckdb.Error as error:
            answer = ("failed", f"{type(error).__name__}: {error}")
        _send(drain, answer)


if __name__ == "__main__":
    _serve()
