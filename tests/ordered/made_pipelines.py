"""Random pipelines for ordered runs: chains and diamonds of steps whose answers depend on order.

A pipeline is a list of step names; `build` makes it. Elements are (key, number) pairs. Every step
that remembers or groups mixes what it saw so that another order gives another answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import apache_beam as beam
from apache_beam.coders import StrUtf8Coder, VarIntCoder
from apache_beam.transforms import trigger, window
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import (
    BagStateSpec,
    CombiningValueStateSpec,
    ReadModifyWriteStateSpec,
    TimerSpec,
    on_timer,
)
from hypothesis import strategies as st

import headrace

Pair = tuple[str, int]
PAIR = tuple[str, int]
MOST = 1_000_003


def mixed(numbers: Iterable[int]) -> int:
    """Give a number that depends on the order of others."""
    result = 7
    for number in numbers:
        result = (result * 31 + number) % MOST
    return result


def tripled(pair: Pair) -> Pair:
    return pair[0], (pair[1] * 3 + 1) % MOST


def keyed_by_number(pair: Pair) -> Pair:
    return f"k{pair[1] % 5}", pair[1]


def keyed_by_many(pair: Pair) -> Pair:
    return f"m{pair[1] % 50}", pair[1]


def is_kept(pair: Pair) -> bool:
    return pair[1] % 3 != 0


def several(pair: Pair) -> Iterator[Pair]:
    for i in range(pair[1] % 4):
        yield pair[0], (pair[1] + i) % MOST


class RunningMix(beam.DoFn):  # type: ignore[misc]
    """Mixes each number with all before it of the same key."""

    MIX = ReadModifyWriteStateSpec("mix", VarIntCoder())

    def process(
        self, pair: Pair, mix: Any = beam.DoFn.StateParam(MIX)  # noqa: B008
    ) -> Iterator[Pair]:
        found = ((mix.read() or 0) * 31 + pair[1]) % MOST
        mix.write(found)
        yield pair[0], found


@headrace.time_sorted
class SortedMix(RunningMix):
    """Does the same in the order of event time."""


class EverySecond(beam.DoFn):  # type: ignore[misc]
    """Lets every second element of a key pass, twice."""

    SEEN = CombiningValueStateSpec("seen", combine_fn=sum)

    def process(
        self, pair: Pair, seen: Any = beam.DoFn.StateParam(SEEN)  # noqa: B008
    ) -> Iterator[Pair]:
        seen.add(1)
        if seen.read() % 2 == 0:
            yield pair
            yield pair[0], (pair[1] + 1) % MOST


class AtEndOfWindow(beam.DoFn):  # type: ignore[misc]
    """Hands elements on, and at the end of the window what they were, mixed."""

    HELD = BagStateSpec("held", VarIntCoder())
    NAMES = BagStateSpec("names", StrUtf8Coder())
    END = TimerSpec("end", TimeDomain.WATERMARK)

    def process(
        self,
        pair: Pair,
        held: Any = beam.DoFn.StateParam(HELD),  # noqa: B008
        names: Any = beam.DoFn.StateParam(NAMES),  # noqa: B008
        end: Any = beam.DoFn.TimerParam(END),  # noqa: B008
        of: Any = beam.DoFn.WindowParam,
    ) -> Iterator[Pair]:
        held.add(pair[1])
        names.add(pair[0])
        end.set(of.end if isinstance(of, window.IntervalWindow) else of.max_timestamp())
        if pair[1] % 2:
            yield pair

    @on_timer(END)  # type: ignore[untyped-decorator]
    def fire(
        self,
        held: Any = beam.DoFn.StateParam(HELD),  # noqa: B008
        names: Any = beam.DoFn.StateParam(NAMES),  # noqa: B008
    ) -> Iterator[Pair]:
        name = next(iter(names.read()))
        yield name, mixed(held.read())
        yield name, len(list(held.read()))


class Numbered(beam.DoFn):  # type: ignore[misc]
    """Counts all elements, whatever their key: must see them in one place."""

    def setup(self) -> None:
        self._count = 0

    def process(self, pair: Pair) -> Iterator[Pair]:
        self._count += 1
        yield pair[0], (pair[1] * 7 + self._count) % MOST


class Parted(beam.DoFn):  # type: ignore[misc]
    """Sends odd numbers elsewhere."""

    def process(self, pair: Pair) -> Iterator[Any]:
        if pair[1] % 2:
            yield beam.pvalue.TaggedOutput("odd", pair)
        else:
            yield pair


def grouped(pair: tuple[str, Iterable[int]]) -> Pair:
    return pair[0], mixed(pair[1])


def ungrouped(pair: tuple[str, Iterable[int]]) -> Iterator[Pair]:
    for number in pair[1]:
        yield pair[0], number


def halved(pair: Pair) -> tuple[str, float]:
    return pair[0], pair[1] / 3.0 + 1e9 * (pair[1] % 2)


def as_bits(pair: tuple[str, float]) -> Pair:
    return pair[0], int(pair[1] * 1_000) % MOST


def beside(pair: Pair, others: list[Pair]) -> Pair:
    return pair[0], (pair[1] + mixed(number for _, number in others)) % MOST


def typed(step: Any) -> Any:
    return step.with_output_types(PAIR)


Step = Callable[[Any, str], Any]


def _diamond(found: Any, name: str) -> Any:
    left = found | f"{name}/left" >> typed(beam.Map(tripled))
    right = found | f"{name}/right" >> typed(beam.FlatMap(several))
    return (left, right, found) | f"{name}/meet" >> beam.Flatten()


def _keyed_diamond(found: Any, name: str) -> Any:
    left = found | f"{name}/left" >> typed(beam.ParDo(RunningMix()))
    right = found | f"{name}/right" >> typed(beam.Filter(is_kept))
    return (left, right) | f"{name}/meet" >> beam.Flatten()


def _parted(found: Any, name: str) -> Any:
    parts = found | f"{name}/part" >> beam.ParDo(Parted()).with_outputs("odd", main="even")
    odd = parts.odd | f"{name}/odd" >> typed(beam.Map(tripled))
    even = parts.even | f"{name}/even" >> typed(beam.FlatMap(several))
    return (odd, even) | f"{name}/meet" >> beam.Flatten()


def _group(found: Any, name: str) -> Any:
    groups = found | f"{name}/group" >> beam.GroupByKey()
    return groups | f"{name}/mix" >> typed(beam.Map(grouped))


def _regroup(found: Any, name: str) -> Any:
    groups = found | f"{name}/group" >> beam.GroupByKey()
    return groups | f"{name}/undo" >> typed(beam.FlatMap(ungrouped))


def _mean(found: Any, name: str) -> Any:
    floats = found | f"{name}/halve" >> beam.Map(halved).with_output_types(tuple[str, float])
    sums = floats | f"{name}/mean" >> beam.combiners.Mean.PerKey()
    return sums | f"{name}/bits" >> typed(beam.Map(as_bits))


def _side(found: Any, name: str) -> Any:
    few = found | f"{name}/few" >> beam.Filter(is_kept)
    return found | f"{name}/beside" >> typed(beam.Map(beside, beam.pvalue.AsList(few)))


def _windows(fn: window.WindowFn) -> Step:
    return lambda found, name: found | f"{name}/window" >> beam.WindowInto(fn)


def _counted_windows(found: Any, name: str) -> Any:
    return found | f"{name}/window" >> beam.WindowInto(
        window.FixedWindows(20), trigger=trigger.Repeatedly(trigger.AfterCount(3)),
        accumulation_mode=trigger.AccumulationMode.ACCUMULATING,
    )


def _one(make: Callable[[], Any]) -> Step:
    return lambda found, name: found | f"{name}/do" >> typed(make())


STEPS: dict[str, Step] = {
    "map": _one(lambda: beam.Map(tripled)),
    "rekey": _one(lambda: beam.Map(keyed_by_number)),
    "many keys": _one(lambda: beam.Map(keyed_by_many)),
    "filter": _one(lambda: beam.Filter(is_kept)),
    "flat map": _one(lambda: beam.FlatMap(several)),
    "mix": _one(lambda: beam.ParDo(RunningMix())),
    "sorted mix": _one(lambda: beam.ParDo(SortedMix())),
    "second": _one(lambda: beam.ParDo(EverySecond())),
    "at end": _one(lambda: beam.ParDo(AtEndOfWindow())),
    "numbered": _one(lambda: beam.ParDo(Numbered())),
    "reshuffle": lambda found, name: found | f"{name}/reshuffle" >> beam.Reshuffle(),
    "diamond": _diamond,
    "keyed diamond": _keyed_diamond,
    "parted": _parted,
    "group": _group,
    "regroup": _regroup,
    "mean": _mean,
    "fixed": _windows(window.FixedWindows(10)),
    "sliding": _windows(window.SlidingWindows(10, 5)),
    "sessions": _windows(window.Sessions(3)),
    "side": _side,
}
#: Windows that fire by count, for streams: in a batch, when such a window fires is Beam's secret.
STREAM_STEPS = {**STEPS, "counted": _counted_windows}
#: Steps that make an element several, or put it into several windows; a few of them are enough.
_GROWING = {"flat map", "diamond", "keyed diamond", "parted", "sliding", "second", "regroup"}


def chains(steps: dict[str, Step] = STEPS, most: int = 6) -> st.SearchStrategy[list[str]]:
    """Random lists of steps."""
    return st.lists(st.sampled_from(sorted(steps)), min_size=1, max_size=most).filter(
        lambda chain: sum(name in _GROWING for name in chain) <= 3
        and not ("sessions" in chain and {"counted", "side"} & {*chain})  # Beam refuses both
    )


def build(found: Any, chain: list[str]) -> Any:
    """Put steps one behind the other."""
    for place, name in enumerate(chain):
        found = STREAM_STEPS[name](found, f"{place} {name}")
    return found
