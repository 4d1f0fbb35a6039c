"""The phases of a combine that follow the exchange, on whole batches: merge, extract, and so on.

Takes (key, accumulators) or (key, accumulator) batches, of objects or of columns, gives (key,
accumulator) or (key, result) batches. `combining` is what comes before the exchange.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from apache_beam.transforms import combiners

from headrace.plan.combines import Combined
from headrace.plan.shapes import FixedList, Shape, TupleShape
from headrace.worker.batched.batches import Meta
from headrace.worker.batched.chains import Edge, augment
from headrace.worker.batched.column_batches import as_rows
from headrace.worker.batched.known_combines import builtin_of, known_combine
from headrace.worker.beam_types import CombineFn, OfOne, Operation, Value
from headrace.worker.checks.verified_columns import verify_accumulator
from headrace.worker.columns.values import ColumnValues


class CombineStep:
    """Merges, extracts, converts or does all of it, key by key, a batch at a time.

    What a known combine has merged as columns is one accumulator for each key: merging leaves it
    as it is, and what it comes to is computed on the columns.
    """

    def __init__(
        self,
        op: Operation,
        phase: str,
        combine_fn: CombineFn,
        step_name: str,
        edge: Edge,
        *,
        lowered: Combined | None = None,
        verified: bool = False,
    ) -> None:
        self._apply = _builtin_phase(phase, combine_fn) or (
            combiners.PhasedCombineFnExecutor(phase, combine_fn, [], {}).apply
        )
        self._state = op.scoped_process_state
        self._step_name = step_name
        self._edge = edge
        self._verified = verified
        known = known_combine(combine_fn, lowered)
        self._compute: Callable[[ColumnValues], ColumnValues | None] | None = None
        self._shape: Shape | None = None  # of what is computed
        if known is not None and phase == "merge":
            self._compute = _only_one
            self._shape = FixedList((known.accumulators.shape,))
        elif known is not None and phase == "extract":
            self._compute, self._shape = known.extract, known.accumulators.shape
        self.takes_columns = self._compute is not None

    def __call__(self, values: list[Value], meta: Meta) -> None:
        """Take a batch of objects."""
        apply = self._apply
        with self._state:
            try:
                out = [(key, apply(value)) for key, value in values]
            except Exception as error:  # noqa: BLE001 (raised again with the step's name)
                augment(error, self._step_name)
        self._edge(out, meta)

    def columns(self, values: ColumnValues, meta: Meta) -> None:
        """Take a batch of columns."""
        shape = values.shape
        pairs = isinstance(shape, TupleShape) and len(shape.items) == 2
        found = None
        with self._state:
            if self._compute is not None and pairs and values.part(1).shape == self._shape:
                found = self._compute(values.part(1))
            if self._verified and found is not None:
                for (key, value), made in zip(values.objects(), found.objects(), strict=True):
                    verify_accumulator(self._step_name, key, self._apply(value), made)
        if found is None:
            for part, its in as_rows(values, meta):
                self(part, its)
            return
        keys = values.part(0)
        pair = TupleShape((keys.shape, found.shape))
        self._edge.columns(
            ColumnValues(pair, [*keys.leaves, *found.leaves], len(values)), meta
        )


def _only_one(found: ColumnValues) -> ColumnValues:
    return found.part(0)


def _builtin_phase(phase: str, combine_fn: CombineFn) -> OfOne | None:
    function = builtin_of(combine_fn)
    if function is None:
        return None
    if phase == "merge":

        def merge(accumulators: Iterable[list[Value]]) -> list[Value]:
            return [function([value for held in accumulators for value in held])]

        return merge
    if phase == "extract":
        return function
    if phase == "convert":
        return lambda value: [value]
    return None
