"""Runs chains of simple operations of a stage on whole batches.

Beam's operations hand elements on one by one, half a microsecond each. Where a ParDo is simple (see
`steps`), a batched chain calls the user's function in a loop of its own and passes whole batches
on. All of Beam's operations stay in place: they start and finish bundles, hold the metrics, and
take what batched chains do not cover, so a batched chain may end anywhere.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from apache_beam import pvalue
from apache_beam.transforms import window
from apache_beam.utils import windowed_value
from apache_beam.utils.windowed_value import PANE_INFO_UNKNOWN, WindowedValue

from headrace.worker.batched.batches import (
    BATCH_VALUES,
    Assigned,
    Columns,
    Meta,
    columns,
    elements,
    pick,
)
from headrace.worker.batched.cause import Cause
from headrace.worker.batched.gather import Gatherer, Pilot
from headrace.worker.batched.plain_values import is_frozen
from headrace.worker.batched.steps import Shape, Step
from headrace.worker.batched.weights import FIRST_ROOM, room_after
from headrace.worker.beam_types import Operation, Value

Node = Callable[[list[Value], Meta], None]

#: Results that are not the plain output value, but say where or when it belongs.
SPECIAL = (pvalue.TaggedOutput, window.TimestampedValue, WindowedValue)


class Edge:
    """Where an operation's output goes: counted once, then handed to every consumer."""

    def __init__(
        self,
        receiver: Any,
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
        counter = self._counter
        first = (
            windowed_value.create(values[0], meta.times[0], meta.windows[0], meta.panes[0])
            if type(meta) is Columns
            else meta.with_value(values[0])
        )
        counter.update_from(first)  # counts one and, now and then, samples its size
        counter.update_collect()
        if len(values) > 1:
            counter.element_counter.update(len(values) - 1)
        for child in children:
            child(values, meta)

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
        windows: list[Value] = []
        panes: list[Value] = []
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

    def _assign(self, stamped: Any) -> tuple[Any, ...]:
        """Give the windows of a value that user code gave a new time."""
        context = window.WindowFn.AssignContext(stamped.timestamp, stamped.value)
        try:
            return given(self._window_fn.assign(context))
        except Exception as error:  # noqa: BLE001 (raised again with the step's name)
            augment(error, self._step_name)


def given(windows: Any) -> tuple[Any, ...]:
    """Give the result of a window function in the form that batched chains keep it in."""
    return Assigned(windows) if isinstance(windows, list) else tuple(windows)


def _times(windows: Any, spread: int) -> Any:
    """Give the windows of a result whose element stood in several windows, as Beam does."""
    if spread == 1:
        return windows
    kind = Assigned if isinstance(windows, (Assigned, list)) else tuple
    return kind(tuple(windows) * spread)


GLOBAL = Assigned((window.GlobalWindow(),))
_STAMPED = {window.TimestampedValue}


def feed(
    process: Callable[[Any], object], values: list[Value], meta: Meta, lists: bool
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


def step_node(step: Step, op: Operation, step_name: str, edge: Edge) -> Node:
    """A ParDo whose function runs on whole batches."""
    match step.shape:
        case Shape.ONE:
            return _one(step.function, op.scoped_process_state, step_name, edge)
        case Shape.KEEP:
            return _keep(step.function, op.scoped_process_state, step_name, edge)
        case Shape.BLOCK:
            return _block(step.function, op.scoped_process_state, step_name, edge)
        case Shape.MANY | Shape.FLAT | Shape.STREAM:
            return _many(step, op.scoped_process_state, step_name, edge)


def _one(function: Any, state: Any, step_name: str, edge: Edge) -> Node:
    pilot: Pilot | None = None if edge.frozen_type else Pilot()
    room = FIRST_ROOM

    def one_by_one(values: list[Value], meta: Meta, pilot: Pilot) -> tuple[int, list[Value]]:
        """Hand results on at once until the pilot is satisfied.

        Gives how many are done, and the last result if it may wait for the others.
        """
        for i, value in enumerate(values):
            if pilot.satisfied:
                return i, []
            with state:
                try:
                    result = function(value)
                except Exception as error:  # noqa: BLE001 (raised again with the step's name)
                    augment(error, step_name)
            if is_frozen(result):
                pilot.satisfied = True
                return i, [result]
            pilot.saw(result)
            edge.single(result, pick(meta, [i]))
        return len(values), []

    def run(values: list[Value], meta: Meta) -> None:
        # Small inputs may give large results: no more of them at once than memory is meant to hold.
        start, size = 0, len(values)
        while size - start > room:
            end = start + room
            part(values[start:end], pick(meta, list(range(start, end))))
            start = end
        if start:
            values, meta = values[start:], pick(meta, list(range(start, size)))
        part(values, meta)

    def part(values: list[Value], meta: Meta) -> None:
        nonlocal pilot, room
        out: list[Value] = []
        if pilot is not None:
            done, out = one_by_one(values, meta, pilot)
            if pilot.satisfied:
                pilot = None
            if done == len(values):
                return
            if done:
                meta = pick(meta, list(range(done, len(values))))
                values = values[done:]
        with state:
            try:
                # Not list(map(...)): a StopIteration of user code would end it as if all were done.
                out += [function(value) for value in values[len(out) :]]
            except Exception as error:  # noqa: BLE001 (raised again with the step's name)
                augment(error, step_name)
        edge.results(out, meta)
        room = room_after(room, out, BATCH_VALUES)

    return run


def _keep(function: Any, state: Any, step_name: str, edge: Edge) -> Node:
    def run(values: list[Value], meta: Meta) -> None:
        with state:
            try:
                chosen = [i for i, value in enumerate(values) if function(value)]
            except Exception as error:  # noqa: BLE001 (raised again with the step's name)
                augment(error, step_name)
        if len(chosen) == len(values):
            edge.results(values, meta)
        elif chosen:
            edge.results([values[i] for i in chosen], pick(meta, chosen))

    return run


def _block(function: Any, state: Any, step_name: str, edge: Edge) -> Node:
    def run(values: list[Value], meta: Meta) -> None:
        # The times are the function's to give; the window is the global one.
        numbers = meta.numbers if type(meta) is Columns else None
        for i, value in enumerate(values):
            with state:
                try:
                    out, times = function(value)
                except Exception as error:  # noqa: BLE001 (raised again with the step's name)
                    augment(error, step_name)
            size = len(out)
            caused = None if numbers is None else [numbers[i]] * size
            edge(out, Columns(times, [GLOBAL] * size, [PANE_INFO_UNKNOWN] * size, caused))

    return run


def _many(step: Step, state: Any, step_name: str, edge: Edge) -> Node:
    gatherer = Gatherer(step, edge.frozen_type)

    def run(values: list[Value], meta: Meta) -> None:
        several = type(meta) is Columns
        run_of = gatherer.over(values, several)
        more = True
        while more:
            with state:
                try:
                    more = next(run_of)
                except Exception as error:  # noqa: BLE001 (raised again with the step's name)
                    augment(error, step_name)
            if gatherer.out:
                edge.results(gatherer.out, pick(meta, gatherer.origin) if several else meta)
            if gatherer.odd:
                ((value, i),) = gatherer.odd
                gatherer.odd = []
                edge.single(value, pick(meta, [i]) if several else meta)
        gatherer.release()

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
