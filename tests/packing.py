"""Decides which tests one process runs together, and which are begun first.

`make test` deals groups out to its processes. A group is a file, since its tests may share what one
of them has made; the files of a folder that shares a server or a cluster are one, so that it starts
once in a run. Takes the names of tests; knows nothing of what they show.
"""

from __future__ import annotations

from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

#: Folders whose tests share something that takes long to make: a server, a cluster, a wheel.
SHARED = ("tests/connect/", "tests/cluster/", "tests/kafka/", "tests/packaging/")
#: What takes longest, by the beginning of its group: begun last, it would run on alone.
FIRST = (
    *SHARED, "tests/docs/test_pages", "tests/lab/experiments/faults/test_campaign",
    "tests/terminal/", "tests/notebooks/", "tests/lab/", "tests/conformance/",
)  # fmt: skip


def group_of(nodeid: str) -> str:
    """Give the group of a test.

    >>> group_of("tests/io/test_rows.py::test_a"), group_of("tests/connect/test_batch.py::test_b")
    ('tests/io/test_rows.py', 'tests/connect/')
    """
    file = nodeid.partition("::")[0]
    return next((folder for folder in SHARED if file.startswith(folder)), file)


def in_order(items: list[pytest.Item]) -> None:
    """Put the groups into the order in which they are begun.

    Those that need a JVM come first: a few tests of theirs take as long as a hundred others, which
    fill up what is left of the processes' time.
    """
    slow = {group_of(item.nodeid) for item in items if item.get_closest_marker("spark")}

    def rank(item: pytest.Item) -> tuple[bool, int, str]:
        group = group_of(item.nodeid)
        place = next((n for n, name in enumerate(FIRST) if group.startswith(name)), len(FIRST))
        return group not in slow, place, group

    items.sort(key=rank)


class Groups(LoadScopeScheduling):  # type: ignore[misc]
    """Deals out groups; the marker `xdist_group` has no effect with pytest 9.2."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)

    def remove_node(self, node: Any) -> str | None:
        """Give the test with which a process has ended; what it had left goes to another one.

        pytest-xdist would give that test to the next process too, and end that one with it.
        """
        units = self.assigned_work[node]
        ended = next((t for unit in units.values() for t, done in unit.items() if not done), None)
        if ended is not None:
            units[group_of(ended)][ended] = True
        self.assigned_work[node] = {g: unit for g, unit in units.items() if not all(unit.values())}
        super().remove_node(node)
        return ended
