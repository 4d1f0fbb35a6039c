"""Runs chains of simple operations of a stage on whole batches: what hands them on.

Beam's operations hand elements on one by one, half a microsecond each. Where a ParDo is simple (see
`steps`), a batched chain calls the user's function in a loop of its own and passes whole batches
on. All of Beam's operations stay in place: they start and finish bundles, hold the metrics, and
take what batched chains do not cover, so a batched chain may end anywhere.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn

from apache_beam import pvalue
from apache_beam.transforms import window
from apache_beam.utils import windowed_value
from apache_beam.utils.windowed_value import PANE_INFO_UNKNOWN, WindowedValue

from headrace.worker.batched.batches import (
    GLOBAL,
    Assigned,
    Columns,
    Meta,
    columns,
    elements,
    pick,
)
from headrace.worker.batched.cause import Cause
from headrace.worker.batched.column_batches import (
    ColumnNode,
    Node,
    as_rows,
    first_element,
    keeps_columns,
)
from headrace.worker.batched.keyed_rows import KeyedRows
from headrace.worker.beam_operations import Receiver
from headrace.worker.beam_types import Element, Operation, Pane, Value, Window, Windows
from headrace.worker.columns.values import ColumnValues

#: Results that are not the plain output value, but say where or when it belongs.
SPECIAL = (pvalue.TaggedOutput, window.TimestampedValue, WindowedValue)


class Edge:
    """Where an operation's output goes: counted once, then handed to every consumer."""

    def __init__(
        self,
        receiver: Receiver,
        children: list[Node] | None,
        *,
        window_fn: Any = None,
        tag: str = "None",
        frozen_type: bool = False,
        lists: bool = False,
        step_name: str = "",
        others: Mapping[str, Edge] | None = None,
    ) -> None:
        #: The same operation's other outputs, by tag.
        self._others: Mapping[str, Edge] = {} if others is None else others
        self.frozen_type = frozen_type
        self._lists = lists
        self._receive = receiver.receive
        self._counter = receiver.opcounter
        self._children = children  # None: the receiver itself must see each element
        self._takers: list[ColumnNode] = []  # those of them that keep columns
        self._rest: list[Node] = []
        for child in children or ():
            if keeps_columns(child):
                self._takers.append(child)
            else:
                self._rest.append(child)
        self._window_fn = window_fn
        self._tag = tag
        self._step_name = step_name

    def __call__(self, values: list[Value], meta: Meta) -> None:
        """Hand plain values on."""
        if not values:
            return
        children = self._children
        if children is None:
            feed(self._receive, values, meta, self._lists)
            return
        first = (
            windowed_value.create(values[0], meta.times[0], meta.windows[0], meta.panes[0])
            if type(meta) is Columns
            else meta.with_value(values[0])
        )
        self._count(first, len(values))
        for child in children:
            child(values, meta)

    def _count(self, first: Element, size: int) -> None:
        counter = self._counter
        counter.update_from(first)  # counts one and, now and then, samples its size
        counter.update_collect()
        if size > 1:
            counter.element_counter.update(size - 1)

    @property
    def takes_columns(self) -> bool:
        """Whether somebody keeps the columns of a batch."""
        return bool(self._takers)

    def columns(self, values: ColumnValues, meta: Meta) -> None:
        """Hand a batch of columns on; who takes objects gets them, made once."""
        if not len(values):
            return
        if self._children is None:
            for part, its in as_rows(values, meta):
                feed(self._receive, part, its, self._lists)
            return
        if values.is_whole:
            self._count(first_element(values, meta), len(values))
        else:  # a sample of their size is not worth reading columns for that nobody wants
            self._counter.element_counter.update(len(values))
        for taker in self._takers:
            taker.columns(values, meta)
        if self._rest:
            for part, its in as_rows(values, meta):
                for child in self._rest:
                    child(part, its)

    def takes_groups(self, parts: Sequence[ColumnValues]) -> bool:
        """Whether groups are of use as pairs of columns, of which these are some of each shape."""
        children = self._children or ()
        takes = [getattr(child, "takes_groups", None) for child in children]
        return bool(takes) and all(take is not None and take(parts) for take in takes)

    def groups(self, groups: KeyedRows, meta: Meta) -> None:
        """Hand on the groups of a window, where `takes_groups` says so."""
        self._counter.element_counter.update(len(groups))
        for child in self._children or ():
            child.groups(groups, meta)  # type: ignore[attr-defined]  # it has said that it takes them

    def single(self, value: Value, meta: Meta) -> None:
        """Hand one result of user code on at once, through Beam's own operations."""
        if isinstance(value, pvalue.TaggedOutput) and value.tag in self._others:
            self._others[value.tag].single(value.value, meta)
            return
        if isinstance(value, SPECIAL):
            values, meta = self._unwrap([value], meta)
        else:
            values = [value]
        feed(self._receive, values, meta, self._lists)

    def results(self, values: list[Value], meta: Meta) -> None:
        """Hand on what user code gave: values, or values with a time, windows or a tag."""
        kinds = set(map(type, values))
        if kinds == _STAMPED and type(self._window_fn) is window.GlobalWindows:
            if type(meta) is not Columns and len(meta.windows) == 1:  # the common case, in bulk
                meta = Columns(
                    [v.timestamp.micros for v in values],
                    [GLOBAL] * len(values),
                    [PANE_INFO_UNKNOWN] * len(values),
                )
                self([v.value for v in values], meta)
                return
        if self._others and pvalue.TaggedOutput in kinds:
            values, meta = self._hand_over(values, meta)
            kinds = set(map(type, values))
        for kind in kinds:
            if issubclass(kind, SPECIAL):
                values, meta = self._unwrap(values, meta)
                break
        self(values, meta)

    def _hand_over(self, values: list[Value], meta: Meta) -> tuple[list[Value], Meta]:
        """Give to the other outputs what is theirs; returns the rest."""
        places: dict[str, list[int]] = {}
        rest: list[int] = []
        for i, value in enumerate(values):
            tagged = isinstance(value, pvalue.TaggedOutput) and value.tag in self._others
            (places.setdefault(value.tag, []) if tagged else rest).append(i)
        for tag, chosen in places.items():
            self._others[tag].results([values[i].value for i in chosen], pick(meta, chosen))
        return [values[i] for i in rest], pick(meta, rest)

    def _unwrap(self, values: list[Value], meta: Meta) -> tuple[list[Value], Meta]:
        out: list[Value] = []
        times: list[int] = []
        windows: list[Windows] = []
        panes: list[Pane] = []
        kept: list[int] = []  # which of the values go on here
        old = columns(values, meta)
        plain_global = type(self._window_fn) is window.GlobalWindows
        for i, result in enumerate(values):
            value = result
            if isinstance(value, pvalue.TaggedOutput):
                if value.tag != self._tag:
                    continue  # nobody reads this output
                value = value.value
            kept.append(i)
            if isinstance(value, WindowedValue):
                spread = len(old.windows[i])
                out.append(value.value)
                times.append(value.timestamp_micros)
                windows.append(_times(value.windows, spread))
                panes.append(value.pane_info)
            elif isinstance(value, window.TimestampedValue):
                out.append(value.value)
                times.append(value.timestamp.micros)
                assigned = GLOBAL if plain_global else self._assign(value)
                windows.append(_times(assigned, len(old.windows[i])))
                panes.append(PANE_INFO_UNKNOWN)
            else:
                out.append(value)
                times.append(old.times[i])
                windows.append(old.windows[i])
                panes.append(old.panes[i])
        if old.numbers is None:
            return out, Columns(times, windows, panes)
        return out, Columns(times, windows, panes, [old.numbers[i] for i in kept])

    def _assign(self, stamped: window.TimestampedValue) -> Windows:
        """Give the windows of a value that user code gave a new time."""
        context = window.WindowFn.AssignContext(stamped.timestamp, stamped.value)
        try:
            return given(self._window_fn.assign(context))
        except Exception as error:  # noqa: BLE001 (raised again with the step's name)
            augment(error, self._step_name)


def given(windows: Iterable[Window]) -> tuple[Window, ...]:
    """Give the result of a window function in the form that batched chains keep it in."""
    return Assigned(windows) if isinstance(windows, list) else tuple(windows)


def _times(windows: Windows, spread: int) -> Windows:
    """Give the windows of a result whose element stood in several windows, as Beam does."""
    if spread == 1:
        return windows
    kind = Assigned if isinstance(windows, (Assigned, list)) else tuple
    return kind(tuple(windows) * spread)


_STAMPED = {window.TimestampedValue}


def feed(
    process: Callable[[Element], object], values: list[Value], meta: Meta, lists: bool
) -> None:
    """Hand a batch on element by element; in order, each as the cause of what follows."""
    found = elements(values, meta, lists=lists)
    if type(meta) is not Columns or meta.numbers is None:
        for element in found:
            process(element)
        return
    before = Cause.number
    for element, number in zip(found, meta.numbers, strict=True):
        Cause.number = number
        process(element)
    Cause.number = before


def element_node(op: Operation, lists: bool = False) -> Node:
    """An operation that takes elements one by one."""
    process = op.process

    def run(values: list[Value], meta: Meta) -> None:
        feed(process, values, meta, lists)

    return run


def pick_one(meta: Meta) -> Meta:
    """Give the one entry of columns of length one as a windowed value."""
    if type(meta) is not Columns:
        return meta
    return windowed_value.create(None, meta.times[0], meta.windows[0], meta.panes[0])


def augment(error: Exception, step_name: str) -> NoReturn:
    """Raise the user's exception with the step's name in its message, as Beam does."""
    if getattr(error, "_tagged_with_step", False):
        raise error
    note = f" [while running '{step_name}']"
    augmented: Exception
    try:
        augmented = type(error)(error.args[0] + note, *error.args[1:])
        augmented._tagged_with_step = True  # type: ignore[attr-defined]  # noqa: SLF001
    except Exception:  # noqa: BLE001 (an exception class of unusual shape)
        text = traceback.format_exception_only(type(error), error)[-1].strip()
        augmented = RuntimeError(text + note)
        augmented._tagged_with_step = True  # type: ignore[attr-defined]  # noqa: SLF001
    raise augmented.with_traceback(sys.exc_info()[2])
