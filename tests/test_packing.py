"""Which tests run together, and in which order; and that what is named there is in the tree."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.packing import FIRST, Groups, group_of, in_order

ROOT = Path(__file__).parents[1]


class Item:
    """As much of a test as is looked at."""

    def __init__(self, nodeid: str, *markers: str) -> None:
        self.nodeid = nodeid
        self._markers = markers

    def get_closest_marker(self, name: str) -> str | None:
        return name if name in self._markers else None


def test_what_needs_a_jvm_comes_first_and_what_shares_a_server_before_it_in_one_group() -> None:
    items: list[Any] = [
        Item("tests/engine/test_a.py::test_1"),
        Item("tests/io/test_b.py::test_1"),
        Item("tests/connect/test_d.py::test_1"),
        Item("tests/io/test_b.py::test_2", "spark"),
        Item("tests/docs/test_pages.py::test_1[docs/a.md]", "spark"),
        Item("tests/connect/test_c.py::test_1", "spark"),
    ]
    in_order(items)
    assert [(item.nodeid, group_of(item.nodeid)) for item in items] == [
        ("tests/connect/test_d.py::test_1", "tests/connect/"),
        ("tests/connect/test_c.py::test_1", "tests/connect/"),
        ("tests/docs/test_pages.py::test_1[docs/a.md]", "tests/docs/test_pages.py"),
        ("tests/io/test_b.py::test_1", "tests/io/test_b.py"),
        ("tests/io/test_b.py::test_2", "tests/io/test_b.py"),
        ("tests/engine/test_a.py::test_1", "tests/engine/test_a.py"),
    ]


@pytest.mark.parametrize("beginning", FIRST)
def test_what_is_begun_first_is_in_the_tree(beginning: str) -> None:
    assert list(ROOT.glob(f"{beginning}*"))


def test_pytest_xdist_deals_out_these_groups(pytestconfig: pytest.Config) -> None:
    made = pytestconfig.hook.pytest_xdist_make_scheduler(config=Config(), log=None)
    assert isinstance(made, Groups)
    assert made._split_scope("tests/cluster/test_standalone.py::test_a") == "tests/cluster/"


class Node:
    """As much of a process as a scheduler looks at."""

    def __init__(self, tests: list[str]) -> None:
        self.tests, self.shutting_down = tests, False
        self.sent: list[str] = []

    def send_runtest_some(self, indices: list[int]) -> None:
        self.sent += [self.tests[at] for at in indices]

    def shutdown(self) -> None:
        self.shutting_down = True


@pytest.mark.parametrize(("done", "ended", "left"), [
    (0, "tests/a/test_1.py::a", ["tests/a/test_1.py::b", "tests/b/test_2.py::c"]),
    (1, "tests/a/test_1.py::b", ["tests/b/test_2.py::c"]),
    (2, "tests/b/test_2.py::c", []),
    (3, None, []),
])
def test_a_test_that_ends_its_process_is_told_and_not_given_to_the_next_one(
    done: int, ended: str | None, left: list[str]
) -> None:
    tests = ["tests/a/test_1.py::a", "tests/a/test_1.py::b", "tests/b/test_2.py::c"]
    groups, first, second = Groups(Config(), None), Node(tests), Node(tests)
    groups.add_node(first)
    groups.add_node_collection(first, tests)
    groups.schedule()
    for at in range(done):
        groups.mark_test_complete(first, at)
    assert first.sent == tests
    assert groups.remove_node(first) == ended
    groups.add_node(second)
    groups.add_node_collection(second, tests)
    while groups.workqueue:
        groups._reschedule(second)
    assert second.sent == left


#: Stands where no signal is heard: in a lock of C's that this thread holds already.
HANGS = """
import ctypes
def test_before(): pass
def test_hangs():
    library, lock = ctypes.PyDLL(None), ctypes.create_string_buffer(64)
    for _ in range(2):
        library.pthread_mutex_lock(lock)
def test_behind(): pass
"""


def test_a_test_that_hears_no_signal_ends_in_bounded_time_says_where_and_the_others_run(
    tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    assert 900 < float(pytestconfig.getini("faulthandler_timeout")) <= 1_800
    assert pytestconfig.getini("faulthandler_exit_on_timeout") is True
    (tmp_path / "test_hang.py").write_text(HANGS)
    (tmp_path / "conftest.py").write_text(
        "from tests.packing import Groups\n"
        "def pytest_xdist_make_scheduler(config, log):\n    return Groups(config, log)\n"
    )
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "1", "-o", "timeout=1", "-o",
         "faulthandler_timeout=5", "-o", "faulthandler_exit_on_timeout=true"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
        check=False, timeout=250,
    )
    assert "1 failed, 2 passed" in done.stdout
    assert "crashed while running 'test_hang.py::test_hangs'" in done.stdout
    assert "in test_hangs" in done.stdout + done.stderr


class Config:
    """As much of pytest's as a scheduler looks at."""

    option = SimpleNamespace(loadscopereorder=False)

    def getvalue(self, name: str) -> list[str]:
        assert name == "tx"
        return ["popen"]

    def getoption(self, name: str) -> list[str]:
        return self.getvalue(name)
