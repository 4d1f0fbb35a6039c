"""What functions make of what a group's values add up to: on columns as on objects."""

from __future__ import annotations

import linecache
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.metrics import Metrics
from apache_beam.options.pipeline_options import PipelineOptions
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.compiler.lower.join import lower_reduced
from headrace.compiler.lower.one_step import NotLowered
from headrace.plan.joins import ReducedGroups
from headrace.plan.shapes import INT, TEXT
from headrace.testing import LocalRunner
from headrace.worker.batched.reduce_step import ReduceNode
from headrace.worker.grouping import column_tables
from tests.worker.lowering import on_columns
from tests.worker.test_joins_on_columns import (
    MODES,
    ROWS,
    SEEN,
    WINDOWS,
    Rows,
    note,
    run,
    streamed,
)

Steps = Callable[[Any], Any]


@pytest.fixture(autouse=True)
def all_as_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.worker.exchange.group_writer.FEW_ROWS", 0)


@pytest.fixture
def reduced(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many keys came as columns, window by window."""
    found: list[int] = []
    groups = ReduceNode.groups

    def noted(self: ReduceNode, given: Any, meta: Any) -> None:
        found.append(len(given))
        groups(self, given, meta)

    monkeypatch.setattr(ReduceNode, "groups", noted)
    return found


class Spread(beam.DoFn):  # type: ignore[misc]
    """Gives an output for some groups, with the end of their window."""

    def process(
        self, group: tuple[str, Any], window: Any = beam.DoFn.WindowParam
    ) -> Iterator[tuple[str, int, int]]:
        key, values = group
        if max(values) - min(values) > 20:
            yield key, window.end.micros, sum(values) // len(list(values))


class Tallies(beam.DoFn):  # type: ignore[misc]
    """Folds groups into fields, and hands them on at the end of a bundle."""

    def start_bundle(self) -> None:
        self.total, self.most, self.odd = 0, 0, 0

    def process(self, group: tuple[str, Any], window: Any = beam.DoFn.WindowParam) -> None:
        self.total += sum(group[1])
        self.most = max(self.most, max(group[1]))
        if len(list(group[1])) % 2 and window.start.micros >= 0:
            self.odd += 1

    def finish_bundle(self) -> None:
        note((self.total, self.most, self.odd))
        Metrics.counter("reduced", "total").inc(self.total)


#: By what they are: steps for groups of a text and whole numbers.
STEPS: dict[str, beam.PTransform] = {
    "sum": beam.Map(lambda group: (group[0], sum(group[1]))),
    "all": beam.MapTuple(
        lambda key, values: (key, min(values), max(values), len(list(values)), sum(values))
    ),
    "key alone": beam.Map(lambda group: group[0] + "!"),
    "spread": beam.ParDo(Spread()),
    "folded": beam.ParDo(Tallies()),
}


def grouped(step: beam.PTransform, windows: Any) -> Steps:
    def steps(rows: Any) -> Any:
        pairs = rows | "Pair" >> beam.Map(lambda row: (row.name, row.value))
        return pairs | beam.WindowInto(windows) | beam.GroupByKey() | "Of groups" >> step

    return steps


@on_columns
@pytest.mark.parametrize("windows", WINDOWS)
@pytest.mark.parametrize("name", STEPS)
def test_a_function_of_what_values_add_up_to_gives_the_same_on_columns(
    reduced: list[int], name: str, windows: str
) -> None:
    made = grouped(STEPS[name], WINDOWS[windows])
    rows = [row for row in ROWS if row[3] < 2**60]
    wanted = run(made, rows, "--columns=off")
    assert wanted and not reduced
    for mode in MODES:
        reduced.clear()
        assert run(made, rows, mode) == wanted
        assert sum(reduced) > 3 or windows == "uneven"  # such windows are given to objects


def test_sums_in_windows_are_what_plain_python_says() -> None:
    wanted = Counter(
        repr((name, sum(r[3] for r in ROWS if r[2] == name))) for name in {r[2] for r in ROWS}
    )
    assert run(grouped(STEPS["sum"], WINDOWS["global"]), ROWS) == wanted


@on_columns
@pytest.mark.parametrize("windows", ["fixed", "sliding"])
@pytest.mark.parametrize("name", ["sum", "all", "spread"])
def test_a_stream_gives_the_same_in_any_epochs(
    reduced: list[int], name: str, windows: str
) -> None:
    made = grouped(STEPS[name], WINDOWS[windows])
    rows = sorted(ROWS, key=lambda row: row[4])
    epochs = [rows[:140], rows[140:200], [*rows[:20], *rows[200:260]], rows[260:]]
    wanted = streamed(made, epochs, "--columns=off")
    assert wanted and not reduced
    for mode in MODES:
        assert streamed(made, epochs, mode) == wanted
    assert reduced


@on_columns
def test_sums_of_more_than_64_bits_and_values_that_are_missing_go_to_the_function(
    reduced: list[int]
) -> None:
    made = grouped(STEPS["sum"], WINDOWS["global"])
    wide: Rows = [*ROWS, *((1, 1, "wide", 2**63 - 1, 1.0) for _ in range(3))]
    assert run(made, wide)[repr(("wide", 3 * (2**63 - 1)))] == 1
    assert reduced
    reduced.clear()
    whole = grouped(
        beam.Map(lambda group: (group[0], len(list(group[1])))), WINDOWS["global"]
    )
    missing: Rows = [*ROWS, (1, 1, "n1", None, 1.0)]
    wanted = run(whole, missing, "--columns=off")
    for mode in MODES:
        assert run(whole, missing, mode) == wanted
    keys = len({row[2] for row in ROWS})
    assert sum(reduced) < keys * len(MODES)  # the shard of the missing value had none as columns


@on_columns
def test_a_group_that_columns_hand_back_goes_to_the_function_with_its_values(
    reduced: list[int]
) -> None:

    def shares(key: str, values: Any) -> tuple[str, int]:
        return key, 1_000 // sum(values)

    rows: Rows = [(1, 1, name, value, 1.0) for name in ("a", "b", "c") for value in (3, 5)]
    made = grouped(beam.MapTuple(shares), WINDOWS["global"])
    assert run(made, rows) == Counter({repr((name, 125)): 1 for name in ("a", "b", "c")})
    for mode in MODES:
        with pytest.raises(ZeroDivisionError, match="while running 'Of groups'"):
            run(made, [*rows, (1, 1, "none", 4, 1.0), (1, 1, "none", -4, 1.0)], mode)
    assert reduced

    def products(key: str, values: Any) -> tuple[str, int]:
        return key, max(values) * max(values)

    made = grouped(beam.MapTuple(products), WINDOWS["global"])
    rows += [(1, 1, "b", 2**62, 1.0)]
    for mode in MODES:
        assert run(made, rows, mode)[repr(("b", 2**124))] == 1


@on_columns
def test_groups_that_came_in_many_parts_are_columns_too(
    reduced: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """More of them than are made objects at once, if they had to be."""
    monkeypatch.setattr(column_tables, "SPREAD_ROWS", 100)
    SEEN.clear()
    made = beam.Pipeline(LocalRunner(), PipelineOptions(["--shards=2"]))
    _ = (
        made
        | beam.Create([(0, 4_000), (4_000, 70_000)], reshuffle=False)
        | beam.FlatMap(lambda x: ((i % 7, i) for i in range(*x)))
        | beam.GroupByKey()
        | beam.Map(lambda group: (group[0], sum(group[1]), len(list(group[1]))))
        | "Note" >> beam.Map(note)
    )
    made.run().wait_until_finish()
    groups = [range(key, 70_000, 7) for key in range(7)]
    assert sorted(SEEN) == [repr((g[0], sum(g), len(g))) for g in groups]
    assert sum(reduced) == 7


@pytest.mark.parametrize(
    "function",
    [
        lambda group: group,
        lambda group: (group[0], group[1]),
        lambda group: (group[0], list(group[1])),
        lambda group: (group[0], len(group[1])),
        lambda group: sorted(group[1])[0],
        lambda group: (group[0], bool(group[1])),
        lambda group: sum(group[1], 3) if group[1] else 0,
        lambda group: max(group[1], default=0),
        lambda group: max(group[1], key=abs),
        lambda group: min(group[1], group[0]),
        lambda group: sum(v * v for v in group[1]),
        lambda group: list(group[1])[0],
    ],
)
def test_what_needs_the_values_themselves_is_left_to_objects(function: Any) -> None:
    assert isinstance(lower_reduced(beam.Map(function).fn, TEXT, (), {}), NotLowered)


def test_a_filter_hands_its_groups_on_and_is_left_to_objects() -> None:
    kept = beam.Filter(lambda group: sum(group[1]) > 3).fn
    assert isinstance(lower_reduced(kept, INT, (), {}), NotLowered)
    assert isinstance(
        lower_reduced(beam.Map(lambda group: sum(group[1])).fn, INT, (), {}), ReducedGroups
    )


# Functions from a grammar -------------------------------------------------------------------------

_NUMBERS = count()
_ATOMS = st.sampled_from(
    ["k", "sum(v)", "min(v)", "max(v)", "len(list(v))", "0", "1", "-3", "7", "2 ** 62"]
)
_WHOLE = st.recursive(
    _ATOMS,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+ - * // %".split()), inner).map(
            lambda parts: f"({' '.join(parts)})"
        ),
        st.tuples(inner, st.sampled_from("< <= == != and or".split()), inner, inner).map(
            lambda parts: f"({parts[3]} if {parts[0]} {parts[1]} {parts[2]} else {parts[0]})"
        ),
        st.tuples(st.sampled_from(["abs", "-"]), inner).map(lambda p: f"{p[0]}({p[1]})"),
    ),
    max_leaves=6,
)
_ENDS = st.sampled_from([0, 1, -1, 2**31, 2**62, 2**63 - 1, -(2**63), -(2**62)])


def of_text(text: str) -> Any:
    """Make a function whose text is at hand."""
    name = f"<reduced {next(_NUMBERS)}>"
    source = f"def f(k, v):\n    return k, {text}\n"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    made: dict[str, Any] = {"__name__": __name__}
    exec(compile(source, name, "exec"), made)  # the grammar's own text
    return made["f"]


def outcome(steps: Steps, rows: Rows, *flags: str) -> Any:
    try:
        return run(steps, rows, *flags)
    except Exception as error:  # noqa: BLE001 (the kind is compared)
        return type(error)


@on_columns
@settings(max_examples=25, deadline=None)
@given(
    text=_WHOLE,
    pairs=st.lists(
        st.tuples(st.integers(-2, 2), st.one_of(st.integers(-9, 9), _ENDS)), min_size=1,
        max_size=12,
    ),
)
def test_functions_of_a_grammar_give_what_python_gives(
    text: str, pairs: list[tuple[int, int]]
) -> None:
    function = of_text(text)
    rows: Rows = [(0, key, "", value, 1.0) for key, value in pairs]

    def steps(given: Any) -> Any:
        keyed = given | "Pair" >> beam.Map(lambda row: (row.key, row.value))
        return keyed | beam.GroupByKey() | "Of groups" >> beam.MapTuple(function)

    values: dict[int, list[int]] = {}
    for key, value in pairs:
        values.setdefault(key, []).append(value)
    try:
        wanted: Any = Counter(repr(function(key, its)) for key, its in values.items())
    except ZeroDivisionError as error:
        wanted = type(error)
    assert outcome(steps, rows) == wanted
