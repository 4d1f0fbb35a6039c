"""DoFns that write down the type and the value of every parameter that a runner hands them.

Each part of the pipeline is a function from pairs to lines of text, so that the same parts
run on any runner, in batch and in streaming.
"""

# ruff: noqa: B008 (Beam is told of parameters by calls in default arguments)
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import apache_beam as beam
from apache_beam import coders
from apache_beam.transforms import userstate
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.window import (
    FixedWindows,
    GlobalWindow,
    SlidingWindows,
    TimestampedValue,
)
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue


def described(thing: Any) -> str:
    """Give type and value as text; the parts of containers and windowed values too."""
    kind = type(thing).__qualname__
    if isinstance(thing, WindowedValue):
        parts = (thing.value, thing.timestamp, thing.windows, thing.pane_info)
        return f"{kind}({', '.join(map(described, parts))})"
    if isinstance(thing, Timestamp):
        return f"{kind}({thing.micros // 1_000} ms)"  # what Beam sends over a wire is cut to this
    if isinstance(thing, (list, tuple, set)):
        return f"{kind}({', '.join(map(described, thing))})"
    return f"{kind}({thing!r})"


def line(label: str, **found: Any) -> tuple[str, ...]:
    """Give what a DoFn saw under a label."""
    return label, *(f"{name}={described(thing)}" for name, thing in found.items())


@contextmanager
def opened() -> Iterator[str]:
    """A context as user code gives it to Beam."""
    yield "open"


class Elements(beam.DoFn):  # type: ignore[misc]
    """Asks for everything that an element without state can be asked for."""

    def __init__(self, label: str) -> None:
        self._label = label

    def process(
        self,
        element: Any,
        key: Any = beam.DoFn.KeyParam,
        timestamp: Any = beam.DoFn.TimestampParam,
        window: Any = beam.DoFn.WindowParam,
        pane: Any = beam.DoFn.PaneInfoParam,
        whole: Any = beam.DoFn.WindowedValueParam,
        bundle: Any = beam.DoFn.BundleContextParam(opened),
        setup: Any = beam.DoFn.SetupContextParam(opened),
    ) -> Iterable[Any]:
        yield line(
            self._label, element=element, key=key, timestamp=timestamp, window=window, pane=pane,
            whole=whole, bundle=bundle, setup=setup,
        )


class Whole(beam.DoFn):  # type: ignore[misc]
    """Asks for the windowed value alone: an element of two windows comes once."""

    def __init__(self, label: str) -> None:
        self._label = label

    def process(
        self, element: Any, whole: Any = beam.DoFn.WindowedValueParam
    ) -> Iterable[Any]:
        del element
        yield line(self._label, whole=whole)


class Ends(beam.DoFn):  # type: ignore[misc]
    """Puts out at the end of its bundle; what comes after it is looked at by another DoFn."""

    def process(self, element: Any) -> None:
        self._last = element

    def finish_bundle(self) -> Iterable[Any]:
        yield WindowedValue(("end", 0), Timestamp(7), [GlobalWindow()])


class Stateful(beam.DoFn):  # type: ignore[misc]
    """Reads every kind of state, empty and filled, and is called by both kinds of timer."""

    VALUE = userstate.ReadModifyWriteStateSpec("value", coders.VarIntCoder())
    BAG = userstate.BagStateSpec("bag", coders.VarIntCoder())
    SET = userstate.SetStateSpec("set", coders.VarIntCoder())
    SUM = userstate.CombiningValueStateSpec("sum", sum)
    ORDERED = userstate.OrderedListStateSpec("ordered", coders.VarIntCoder())
    TIMER = userstate.TimerSpec("timer", TimeDomain.WATERMARK)
    CLOCK = userstate.TimerSpec("clock", TimeDomain.REAL_TIME)

    def __init__(self, label: str) -> None:
        self._label = label

    def process(
        self,
        element: Any,
        key: Any = beam.DoFn.KeyParam,
        timestamp: Any = beam.DoFn.TimestampParam,
        window: Any = beam.DoFn.WindowParam,
        pane: Any = beam.DoFn.PaneInfoParam,
        value: Any = beam.DoFn.StateParam(VALUE),
        bag: Any = beam.DoFn.StateParam(BAG),
        group: Any = beam.DoFn.StateParam(SET),
        total: Any = beam.DoFn.StateParam(SUM),
        ordered: Any = beam.DoFn.StateParam(ORDERED),
        timer: Any = beam.DoFn.TimerParam(TIMER),
        clock: Any = beam.DoFn.TimerParam(CLOCK),
    ) -> Iterable[Any]:
        cells = (value, bag, group, total, ordered)
        yield line(
            self._label, element=element, key=key, timestamp=timestamp, window=window, pane=pane,
            cells=[type(cell).__name__ for cell in (*cells, timer, clock)],
        )
        yield line(self._label + " empty", **_read(cells))
        value.write(1)
        for n in (3, 2, 2):
            bag.add(n)
            group.add(n)
            total.add(n)
            ordered.add((Timestamp(n), n))
        yield line(self._label + " filled", **_read(cells))
        timer.set(timestamp + 1)
        timer.set(timestamp + 2, dynamic_timer_tag="tagged")
        clock.set(Timestamp(3))

    @userstate.on_timer(TIMER)  # type: ignore[untyped-decorator]
    def at_time(
        self,
        key: Any = beam.DoFn.KeyParam,
        timestamp: Any = beam.DoFn.TimestampParam,
        window: Any = beam.DoFn.WindowParam,
        tag: Any = beam.DoFn.DynamicTimerTagParam,
        value: Any = beam.DoFn.StateParam(VALUE),
        bag: Any = beam.DoFn.StateParam(BAG),
        group: Any = beam.DoFn.StateParam(SET),
        total: Any = beam.DoFn.StateParam(SUM),
        ordered: Any = beam.DoFn.StateParam(ORDERED),
    ) -> Iterable[Any]:
        yield line(self._label + " timer", key=key, timestamp=timestamp, window=window, tag=tag)
        yield line(self._label + " kept", **_read((value, bag, group, total, ordered)))

    @userstate.on_timer(CLOCK)  # type: ignore[untyped-decorator]
    def at_clock(
        self,
        key: Any = beam.DoFn.KeyParam,
        timestamp: Any = beam.DoFn.TimestampParam,
        window: Any = beam.DoFn.WindowParam,
        tag: Any = beam.DoFn.DynamicTimerTagParam,
    ) -> Iterable[Any]:
        del timestamp  # that of the clock: no two runs have the same
        yield line(self._label + " clock", key=key, window=window, tag=tag)


def _read(cells: tuple[Any, ...]) -> dict[str, Any]:
    value, bag, group, total, ordered = cells
    return {
        "value": value.read(), "bag": list(bag.read()), "set": sorted(group.read()),
        "sum": total.read(), "ordered": list(ordered.read()),
        "kinds": [type(cell.read()).__name__ for cell in cells],
        "range": list(ordered.read_range(Timestamp(0), Timestamp(3))),
    }


def keyed(pcoll: Any, name: str) -> Any:
    """Pairs, with a type that every runner keeps."""
    return pcoll | f"pairs {name}" >> beam.Map(lambda pair: pair).with_output_types(
        tuple[str, int]
    )


def stamped(pcoll: Any) -> Any:
    """The numbers as pairs, each at its own second."""
    return pcoll | "stamp" >> beam.Map(lambda n: TimestampedValue(("k", n), n))


def _seen(name: str, dofn: Callable[[str], beam.DoFn]) -> Any:
    return f"see {name}" >> beam.ParDo(dofn(name))


def _grouped(pcoll: Any, name: str) -> Any:
    return (
        keyed(pcoll, name)
        | f"group {name}" >> beam.GroupByKey()
        | f"sort {name}" >> beam.MapTuple(lambda key, values: (key, sorted(values)))
    )


#: Name of a part -> from pairs to lines.
PARTS: dict[str, Callable[[Any], Any]] = {
    "created": lambda pairs: pairs | _seen("created", Elements),
    "fixed": lambda pairs: (
        pairs | "fix" >> beam.WindowInto(FixedWindows(5)) | _seen("fixed", Elements)
    ),
    "fixed then mapped": lambda pairs: (
        pairs
        | "fix again" >> beam.WindowInto(FixedWindows(5))
        | "as it is" >> beam.Map(lambda pair: pair)
        | _seen("fixed then mapped", Whole)
    ),
    "fixed with a side input": lambda pairs: (
        pairs
        | "fix main" >> beam.WindowInto(FixedWindows(5))
        | "see fixed with a side input" >> beam.Map(
            lambda pair, side, window=beam.DoFn.WindowParam, pane=beam.DoFn.PaneInfoParam: line(
                "fixed with a side input", element=pair, side=side, window=window, pane=pane
            ),
            beam.pvalue.AsSingleton(pairs.pipeline | "one" >> beam.Create([1])),
        )
    ),
    "two outputs": lambda pairs: (
        pairs
        | "fix two" >> beam.WindowInto(FixedWindows(5))
        | "see two outputs" >> beam.ParDo(Whole("two outputs")).with_outputs("odd", main="main")
    ).main,
    "slid": lambda pairs: (
        pairs | "slide" >> beam.WindowInto(SlidingWindows(10, 5)) | _seen("slid", Whole)
    ),
    "slid and parted": lambda pairs: (
        pairs
        | "slide apart" >> beam.WindowInto(SlidingWindows(10, 5))
        | _seen("slid and parted", Elements)
    ),
    "grouped": lambda pairs: _grouped(pairs, "globally") | _seen("grouped", Elements),
    "grouped in windows": lambda pairs: (
        _grouped(pairs | "fix groups" >> beam.WindowInto(FixedWindows(5)), "fixed")
        | _seen("grouped in windows", Elements)
    ),
    "combined in windows": lambda pairs: (
        keyed(pairs | "slide sums" >> beam.WindowInto(SlidingWindows(10, 5)), "slid")
        | "add" >> beam.CombinePerKey(sum)
        | _seen("combined in windows", Elements)
    ),
    "stateful": lambda pairs: (
        keyed(pairs, "state")
        | "own key" >> beam.MapTuple(lambda key, n: (f"{key}{n}", n)).with_output_types(
            tuple[str, int]
        )
        | _seen("stateful", Stateful)
    ),
    "stateful in windows": lambda pairs: (
        keyed(pairs | "fix state" >> beam.WindowInto(FixedWindows(5)), "fixed state")
        | "own fixed key" >> beam.MapTuple(lambda key, n: (f"{key}{n}", n)).with_output_types(
            tuple[str, int]
        )
        | _seen("stateful in windows", Stateful)
    ),
    "after finish_bundle": lambda pairs: (
        pairs
        | "at the end" >> beam.ParDo(Ends())
        | "once" >> beam.Distinct()
        | _seen("after finish_bundle", Elements)
    ),
}
