"""What a workload is: events, a question, the pipeline that answers it, and who else knows.

Frozen descriptions. Oracles and native versions are named, not imported: a pipeline that is
started on a cluster must not need the packages of its referee.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from importlib import import_module
from typing import Any, NamedTuple

from headrace.lab.data.generator import Generator

#: One row of an answer: plain values, in the order of the workload's columns.
Row = tuple[Any, ...]
#: Makes the rows of an answer comparable; most answers are compared as they are.
Rule = Callable[[Iterable[Row]], Counter[Row]]


class Kind(Enum):
    """The types that a column of an answer may have; the values are Spark's names of them."""

    LONG = "long"
    DOUBLE = "double"
    STRING = "string"


class Column(NamedTuple):
    """A column of an answer."""

    name: str
    kind: Kind


class Mode(Enum):
    """How a workload may be run."""

    BATCH = "batch"
    STREAMING = "streaming"


def all_rows(rows: Iterable[Row]) -> Counter[Row]:
    """Compare every row, and how often it comes; the order does not count."""
    return Counter(rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why a system cannot answer a question."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ByColumns:
    """The same question, asked of the columns of the log instead of elements made from them."""

    columns: tuple[str, ...]  # of the log, as Spark's `select` takes them; `time` is not among them
    build: Callable[[Any], Any]  # settings -> PTransform from rows of these columns to the answer
    native: str = ""  # as in `Workload`; empty: the same, which reads columns anyway


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A question about a stream of events."""

    suite: str  # as in `headrace run nexmark q5`: nexmark
    name: str  # q5
    title: str  # the question, in one sentence
    settings: type  # the frozen dataclass of its settings, see `parameters`
    generator: Callable[[Any], Generator]  # settings -> events
    columns: tuple[Column, ...]  # of the answer
    build: Callable[[Any], Any]  # settings -> PTransform from events to rows
    oracle: str  # "module:function", (path of the logged events as Parquet, settings) -> rows
    native: str | Refusal  # "module:function", (DataFrame of events, settings) -> DataFrame of rows
    rule: Rule = all_rows
    stateless: bool = False
    modes: tuple[Mode, ...] = (Mode.BATCH, Mode.STREAMING)
    by_columns: ByColumns | None = None  # None: it is asked of elements alone

    @property
    def full_name(self) -> str:
        """The name that is unique among all workloads."""
        return f"{self.suite} {self.name}"


def find(name: str) -> Callable[..., Any]:
    """Load what "module:function" names."""
    module, _, function = name.partition(":")
    return getattr(import_module(module), function)  # type: ignore[no-any-return]
