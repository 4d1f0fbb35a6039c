"""The steps of a batched chain: the user's function in a loop over a batch of objects.

Takes a step as `steps` found it, gives a node of a batched chain. What runs on columns is in
`lowered_step`.
"""

from __future__ import annotations

from apache_beam.utils.windowed_value import PANE_INFO_UNKNOWN

from headrace.worker.batched.batches import BATCH_VALUES, GLOBAL, Columns, Meta, pick
from headrace.worker.batched.chains import Edge, augment, pick_one
from headrace.worker.batched.column_batches import Node
from headrace.worker.batched.gather import Gatherer, Pilot
from headrace.worker.batched.plain_values import is_frozen
from headrace.worker.batched.ranges import column_parts
from headrace.worker.batched.steps import Results, Step
from headrace.worker.batched.weights import FIRST_ROOM, room_after
from headrace.worker.beam_operations import ScopedState
from headrace.worker.beam_types import OfOne, Operation, Value


def step_node(
    step: Step, op: Operation, step_name: str, edge: Edge, *, ranges: bool = False
) -> Node:
    """A ParDo whose function runs on whole batches.

    Args:
        step: the function.
        op: Beam's operation.
        step_name: for exceptions.
        edge: where outputs go.
        ranges: a long `range` that the function gives goes on as columns.
    """
    match step.results:
        case Results.ONE:
            return _one(step.function, op.scoped_process_state, step_name, edge)
        case Results.KEEP:
            return _keep(step.function, op.scoped_process_state, step_name, edge)
        case Results.BLOCK:
            return _block(step.function, op.scoped_process_state, step_name, edge)
        case Results.MANY | Results.FLAT | Results.STREAM:
            return _many(step, op.scoped_process_state, step_name, edge, ranges)


def _one(function: OfOne, state: ScopedState, step_name: str, edge: Edge) -> Node:
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


def _keep(function: OfOne, state: ScopedState, step_name: str, edge: Edge) -> Node:
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


def _block(function: OfOne, state: ScopedState, step_name: str, edge: Edge) -> Node:
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


def _many(step: Step, state: ScopedState, step_name: str, edge: Edge, ranges: bool) -> Node:
    gatherer = Gatherer(step, edge.frozen_type, ranges=ranges and edge.takes_columns)

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
            if gatherer.ranged is not None:
                (numbers, i), gatherer.ranged = gatherer.ranged, None
                for values_of_range in column_parts(numbers):
                    edge.columns(values_of_range, pick_one(pick(meta, [i])) if several else meta)
            if gatherer.odd:
                ((value, i),) = gatherer.odd
                gatherer.odd = []
                edge.single(value, pick(meta, [i]) if several else meta)
        gatherer.release()

    return run
