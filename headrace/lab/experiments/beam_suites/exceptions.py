"""What is known of tests that cannot pass as they are: the table `exceptions.toml`, kept by hand.

Takes the file, gives frozen rows and finds the one for a test. Each row names its tests, says in
one line what is the matter, and of which kind the reason is. Runs and judges nothing.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import tomllib

#: Enough that the elements of a collection are in two places, few enough to be quick.
SHARDS = 2
FILE = Path(__file__).with_name("exceptions.toml")


class Kind(Enum):
    """Whose the reason is."""

    ONE_SHARD = "one_shard"  # asks for one bundle, or the order of one: passes with one shard
    IN_PROCESS = "in_process"  # looks, in its own process, at what functions did in another
    OTHER_RUNNER = "other_runner"  # asks for what one of Beam's runners does, not for Beam's model
    BEAM = "beam"  # fails on Beam's own local runner too, with the packages that are here
    OURS = "ours"  # a defect of headrace


@dataclass(frozen=True, kw_only=True)
class Known:
    """A row: tests that are expected to fail, or to need one shard, for one reason."""

    tests: tuple[str, ...]  # as `io.textio_test::Class::test_name`; * stands for any text
    kind: Kind
    reason: str
    sometimes: bool = False  # they may pass: what they ask for happens now and then
    run: bool = True  # False: they would wait for a server that is not there

    def __post_init__(self) -> None:
        if not self.tests or not self.reason.strip() or "\n" in self.reason:
            msg = f"exceptions: {self.tests} need a reason of one line"
            raise ValueError(msg)

    def holds_for(self, test: str) -> bool:
        """Whether the row speaks of a test."""
        return any(fnmatch.fnmatchcase(test, pattern) for pattern in self.tests)


@dataclass(frozen=True, kw_only=True)
class LeftOut:
    """Modules that are not run at all, for one reason."""

    modules: tuple[str, ...]
    reason: str

    def holds_for(self, module: str) -> bool:
        """Whether the row speaks of a module."""
        return any(fnmatch.fnmatchcase(module, pattern) for pattern in self.modules)


def read_table(file: Path = FILE) -> tuple[tuple[Known, ...], tuple[LeftOut, ...]]:
    """Read the table; a row that lacks something is refused."""
    raw = tomllib.loads(file.read_text(encoding="utf-8"))
    known = tuple(
        Known(
            tests=tuple(row["tests"]), kind=Kind(row["kind"]), reason=row["reason"],
            sometimes=row.get("sometimes", False), run=row.get("run", True),
        )
        for row in raw.get("known", ())
    )  # fmt: skip
    left_out = tuple(
        LeftOut(modules=tuple(row["modules"]), reason=row["reason"])
        for row in raw.get("left_out", ())
    )
    return known, left_out


def row_for(test: str, known: Sequence[Known]) -> Known | None:
    """The row that speaks of a test; None: it is expected to pass.

    >>> rows = [Known(tests=("io.a_test::T::*",), kind=Kind.BEAM, reason="no")]
    >>> row_for("io.a_test::T::test_x", rows).kind, row_for("io.b_test::T::test_x", rows)
    (<Kind.BEAM: 'beam'>, None)
    """
    return next((row for row in known if row.holds_for(test)), None)


def shards_for(test: str, known: Sequence[Known]) -> int:
    """How many shards a test runs with."""
    row = row_for(test, known)
    return 1 if row is not None and row.kind is Kind.ONE_SHARD else SHARDS
