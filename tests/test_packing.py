"""Which tests run together, and in which order; and that what is named there is in the tree."""

from __future__ import annotations

from pathlib import Path
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


class Config:
    """As much of pytest's as a scheduler looks at when it is made."""

    def getvalue(self, name: str) -> list[str]:
        assert name == "tx"
        return ["popen"]

    def getoption(self, name: str) -> list[str]:
        return self.getvalue(name)
