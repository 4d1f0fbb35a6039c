"""DuckDB in a process of its own."""

from __future__ import annotations

import os
import signal
import sys
import threading

import pytest

from headrace.lab.oracle import duck
from headrace.lab.oracle.duck import Duck, OracleError, ask

pytest.importorskip("duckdb", reason="the oracle asks DuckDB")


def test_statements_run_in_turn_and_the_last_one_answers() -> None:
    rows = ask(
        "CREATE TABLE t AS SELECT range AS n FROM range(5)",
        "SELECT n, 'ü' FROM t WHERE n > $least",
        values={"least": 2},
    )
    assert sorted(rows) == [(3, "ü"), (4, "ü")]


def test_questions_do_not_see_each_others_tables() -> None:
    ask("CREATE TABLE mine AS SELECT 1", "SELECT * FROM mine", values={})
    with pytest.raises(OracleError, match="mine"):
        ask("SELECT * FROM mine", values={})


def test_a_question_that_duckdb_refuses_is_told_and_the_next_one_is_answered() -> None:
    with pytest.raises(OracleError, match="Parser"):
        ask("SELEKT 1", values={})
    assert ask("SELECT 1", values={}) == [(1,)]


def test_many_rows_come_whole() -> None:
    rows = ask("SELECT range, 'x' || range FROM range(200000)", values={})
    assert len(rows) == 200_000
    assert rows[-1] == (199_999, "x199999")


def test_threads_may_ask_at_once() -> None:
    found: dict[int, list[tuple[int]]] = {}

    def work(n: int) -> None:
        found[n] = ask("SELECT $n", values={"n": n})

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {n: [(n,)] for n in range(8)}


def test_a_process_that_dies_is_an_error_of_the_oracle_and_is_started_again() -> None:
    own = Duck()
    assert own.ask(("SELECT 1",), {}) == [(1,)]
    process = own._process
    assert process is not None
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert own.ask(("SELECT 2",), {}) == [(2,)]
    own.end()
    assert own._process is None


def test_without_duckdb_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(ModuleNotFoundError, match="duckdb"):
        ask("SELECT 1", values={})


def test_the_parent_does_not_load_duckdb() -> None:
    assert "duckdb" not in vars(duck)
