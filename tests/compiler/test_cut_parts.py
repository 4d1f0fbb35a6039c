"""Thread-safe parts of a DoFn become operators of their own, and the answer stays."""

# ruff: noqa: B008 (Beam is told of state by calls in default arguments)

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.coders import FastPrimitivesCoder
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.pvalue import TaggedOutput
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.transforms.userstate import (
    CombiningValueStateSpec,
    ReadModifyWriteStateSpec,
    TimerSpec,
    on_timer,
)
from apache_beam.transforms.window import TimestampedValue

import headrace
from headrace.compiler.compile import compile_pipeline
from headrace.plan.parts import parts_of
from headrace.plan.supersteps import ChannelKind, Plan
from headrace.testing import Collected, LocalRunner

SEEN = ReadModifyWriteStateSpec("seen", FastPrimitivesCoder())
LINES = [f"k{i % 3}:{i}" for i in range(40)]
SCHEMA = "text string"
#: A ParDo with several outputs is a composite.
STEP = "Follow/ParDo(Follow)"


@headrace.thread_safe(before="parse", after="render")
class Follow(beam.DoFn):  # type: ignore[misc]
    """Adds up by key: parsing and rendering may be done anywhere."""

    def __init__(self, unit: str) -> None:
        self._unit = unit

    def parse(self, pair: tuple[str, str]) -> tuple[str, int]:
        return pair[0], int(pair[1])

    def process(
        self, pair: tuple[str, int], seen: Any = beam.DoFn.StateParam(SEEN)
    ) -> Iterator[Any]:
        total = (seen.read() or 0) + pair[1]
        seen.write(total)
        yield pair[0], total
        if total % 2:
            yield TimestampedValue((pair[0], -total), total)
        else:
            yield TaggedOutput("even", total)

    def render(self, pair: tuple[str, int]) -> str:
        return f"{pair[0]} {pair[1]} {self._unit}"


@headrace.thread_safe(before="parse", after="render")
class Number(beam.DoFn):  # type: ignore[misc]
    """Counts all elements: what is not proven to be safe."""

    def __init__(self) -> None:
        self._count = 0

    def parse(self, line: str) -> int:
        return int(line.partition(":")[2])

    def process(self, number: int) -> list[tuple[int, int]]:
        self._count += 1
        return [(self._count, number)]

    def render(self, pair: tuple[int, int]) -> str:
        return f"{pair[0]}: {pair[1]}"


def pair_of(line: str) -> tuple[str, str]:
    key, _, number = line.partition(":")
    return key, number


def follow(lines: Any) -> Any:
    return (
        lines
        | "Pair" >> beam.Map(pair_of).with_output_types(tuple[str, str])
        | "Follow" >> beam.ParDo(Follow("m")).with_output_types(str)
        .with_outputs("even", main="main")
    )


def planned(build: Any, *, ordered: bool = False, shards: int = 3) -> Plan:
    p = beam.Pipeline()
    found = build(p | beam.Create(LINES))
    _ = getattr(found, "main", found) | "Last" >> beam.Map(str)
    return compile_pipeline(p.to_runner_api(), shards=shards, ordered=ordered)


def stage_of(made: Plan, step: str) -> str:
    (name,) = (str(s.stage_id) for s in made.stages() if any(step == o for o in s.operators))
    return name


def test_what_comes_before_runs_where_elements_come_from() -> None:
    made = planned(follow)
    assert stage_of(made, f"{STEP}/before") == stage_of(made, "Pair")
    assert stage_of(made, f"{STEP}/before") != stage_of(made, STEP)
    assert stage_of(made, STEP) == stage_of(made, f"{STEP}/after")  # no exchange is added
    assert [c.kind for c in made.channels].count(ChannelKind.KEYED) == 1


def test_around_what_must_see_all_elements_in_order_both_run_on_all_shards() -> None:
    made = planned(lambda lines: lines | "Number" >> beam.ParDo(Number()), ordered=True)
    stages = [stage_of(made, f"Number{part}") for part in ("/before", "", "/after")]
    assert len(set(stages)) == 3
    into = {
        stage: {c.kind for c in made.channels if stage in map(str, c.target_stages)}
        for stage in stages
    }
    assert into[stages[1]] == {ChannelKind.MERGE}
    assert into[stages[2]] == {ChannelKind.SPREAD}


def run(runner: Any, build: Any, *flags: str) -> list[str]:
    seen: list[str] = []
    options = PipelineOptions(list(flags))
    into = Collected()
    with beam.Pipeline(runner=runner, options=options) as p:
        found = build(p | beam.Create(LINES) | beam.Reshuffle())
        if isinstance(runner, LocalRunner):
            main = getattr(found, "main", found)
            _ = main | "Row" >> beam.Map(lambda text: (text,)) | into.sink(SCHEMA)
        else:
            Keep.rows = seen
            _ = getattr(found, "main", found) | beam.ParDo(Keep())
    return seen or [text for rows in into.epochs.values() for (text,) in rows]


class Keep(beam.DoFn):  # type: ignore[misc]
    """Keeps what comes, in this process."""

    rows: list[str] = []

    def process(self, element: str) -> None:
        Keep.rows.append(element)


@pytest.mark.parametrize("shards", [1, 3])
def test_the_answer_is_that_of_a_runner_that_does_not_cut(shards: int) -> None:
    ours = run(LocalRunner(), follow, f"--shards={shards}", "--verify_traits")
    totals = {key: sum(int(n) for k, n in map(pair_of, LINES) if k == key) for key in ("k0", "k1")}
    assert all(f"{key} {total} m" in ours for key, total in totals.items())
    assert len(ours) > len(LINES)
    if shards == 1:  # the order within a key is that of arrival, and so are the sums
        assert sorted(ours) == sorted(run(FnApiRunner(), follow))


def test_in_order_the_numbers_are_those_of_one_shard() -> None:
    def build(lines: Any) -> Any:
        return lines | beam.ParDo(Number()).with_output_types(str)

    alone = run(LocalRunner(), build, "--shards=1", "--ordered")
    assert alone == [f"{i + 1}: {i}" for i in range(len(LINES))]
    assert run(LocalRunner(), build, "--shards=3", "--ordered") == alone


@headrace.thread_safe(before="swap")
class Swaps(beam.DoFn):  # type: ignore[misc]
    """Changes the key before its state."""

    def swap(self, pair: tuple[str, str]) -> tuple[str, str]:
        return pair[1], pair[0]

    def process(self, pair: Any, seen: Any = beam.DoFn.StateParam(SEEN)) -> Iterator[Any]:
        del seen
        yield pair[0]


def test_a_key_that_changes_before_its_state_is_refused() -> None:
    def build(lines: Any) -> Any:
        return lines | beam.Map(pair_of).with_output_types(tuple[str, str]) | beam.ParDo(Swaps())

    with pytest.raises(Exception, match="must give a pair with the same key"):
        run(LocalRunner(), build)


class Louder(Follow):
    """A subclass with a part of its own."""

    def render(self, pair: tuple[str, int]) -> str:
        return super().render(pair).upper()


def test_a_subclass_is_not_cut_and_loses_nothing() -> None:
    def build(lines: Any) -> Any:
        pairs = lines | "Pair" >> beam.Map(pair_of).with_output_types(tuple[str, str])
        made = pairs | "Louder" >> beam.ParDo(Louder("m")).with_output_types(str)
        return made

    assert parts_of(Louder("m")) is None
    found = run(LocalRunner(), build, "--shards=1")
    assert found and all(text == text.upper() for text in found)


@headrace.time_sorted
@headrace.thread_safe(before="same")
class InTime(beam.DoFn):  # type: ignore[misc]
    """Asks for the order of event time, above the parts."""

    def same(self, pair: Any) -> Any:
        return pair

    def process(self, pair: Any, seen: Any = beam.DoFn.StateParam(SEEN)) -> Iterator[Any]:
        del seen
        yield pair


def test_a_mark_above_the_parts_is_kept() -> None:
    def build(lines: Any) -> Any:
        pairs = lines | "Pair" >> beam.Map(pair_of).with_output_types(tuple[str, str])
        stamp = beam.Map(lambda pair: TimestampedValue(pair, -int(pair[1])))
        stamped = pairs | stamp.with_output_types(tuple[str, str])
        made = stamped | "In time" >> beam.ParDo(InTime()).with_output_types(tuple[str, str])
        return made | beam.MapTuple(lambda key, number: f"{key}:{number}")

    found = run(LocalRunner(), build, "--shards=2")
    for key in ("k0", "k1", "k2"):
        numbers = [int(text.partition(":")[2]) for text in found if text.startswith(key)]
        assert numbers == sorted(numbers, reverse=True) and len(numbers) > 10


# -- the decorator


def test_a_class_keeps_its_name_and_its_signature() -> None:
    assert Follow.__name__ == Follow.__qualname__ == "Follow"
    parts = parts_of(Follow("m"))
    assert parts is not None and (parts.before, parts.after) == ("parse", "render")
    assert parts_of(parts.critical("m")) is None
    assert parts_of(beam.DoFn()) is None


class Timed(beam.DoFn):  # type: ignore[misc]
    """Puts out by a timer."""

    DUE = TimerSpec("due", beam.TimeDomain.WATERMARK)

    def process(self, pair: Any, due: Any = beam.DoFn.TimerParam(DUE)) -> None: ...

    @on_timer(DUE)  # type: ignore[untyped-decorator]
    def ring(self) -> Iterator[int]:
        yield 1

    def part(self, element: Any) -> Any:
        return element


class Ends(beam.DoFn):  # type: ignore[misc]
    """Puts out at the end of a bundle."""

    def process(self, element: Any) -> None: ...

    def finish_bundle(self) -> None: ...

    def part(self, element: Any) -> Any:
        return element


@pytest.mark.parametrize("cls", [Timed, Ends])
def test_after_is_refused_where_more_than_process_puts_out(cls: Any) -> None:
    with pytest.raises(ValueError, match="by timers or at the end of a bundle too"):
        headrace.thread_safe(after="part")(cls)
    assert parts_of(headrace.thread_safe(before="part")(cls)()) is not None


@pytest.mark.parametrize(
    ("given", "cls", "error", "said"),
    [
        ({}, Ends, ValueError, "names no part"),
        ({"before": "nothing"}, Ends, TypeError, "has no method 'nothing'"),
        ({"before": "part"}, str, TypeError, "above a DoFn class"),
        ({"before": "part"}, CombiningValueStateSpec("x", combine_fn=sum), TypeError, "DoFn class"),
    ],
)
def test_what_cannot_be_cut_is_refused(given: Any, cls: Any, error: Any, said: str) -> None:
    with pytest.raises(error, match=said):
        headrace.thread_safe(**given)(cls)
