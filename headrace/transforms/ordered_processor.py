"""One operator: a fold over the elements of a key in the order of their numbers."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar

import apache_beam as beam
from apache_beam.coders import FastPrimitivesCoder
from apache_beam.transforms import userstate

from headrace.plan.traits import traits
from headrace.transforms.arguments import function, integer, whole
from headrace.transforms.facts import Facts
from headrace.transforms.keys import PAIRS, forever
from headrace.transforms.sequence import Arrival, Waiting

#: Makes of state and value the next state, and what is given out.
Handler = Callable[[Any, Any], tuple[Any, Iterable[Any]]]

PROCESSED = "processed"
DUPLICATES = "duplicates"
AHEAD = "ahead"
STATUS = "status"


class OrderedProcessor(beam.PTransform):  # type: ignore[misc]
    """Fold elements (key, (number, value)) of each key in the order of their numbers.

    `handler(state, value)` gives the next state and a list of outputs, which leave as
    (key, output). An element whose predecessors are missing waits for them. Gives several
    collections: `processed`; `duplicates`, elements whose number was there before; `ahead`,
    elements more than `most_ahead` numbers ahead of what is missing; `status`, if asked for,
    (key, (next number, how many wait, the greatest that waits or None)) each time that what waits
    of a key has changed.

    >>> from headrace.transforms.replay import at, replay
    >>> def add(total, amount):
    ...     return total + amount, [total + amount]
    >>> totals = OrderedProcessor(handler=add, initial=0)
    >>> script = [at(1, ("a", (0, 5))), at(2, ("a", (2, -9))), at(3, ("a", (1, 4)))]
    >>> replay(totals, *script)
    [('a', 0), ('a', 5), ('a', 9)]
    >>> replay(totals, *script, at(4, ("a", (1, 4))), output="duplicates")
    [('a', (1, 4))]

    State: the next number, the handler's state and what waits, per key, for ever; at most
        `most_ahead` elements wait.
    Order: free; any order of arrival gives a key the same outputs, in the same order.
    Late: is taken as any other element.
    Shard: by key; a key is never split.
    """

    facts: ClassVar[Facts] = Facts(
        state="the next number, the handler's state and what waits, per key, for ever; at most "
        "`most_ahead` elements wait.",
        order="free; any order of arrival gives a key the same outputs, in the same order.",
        late="is taken as any other element.",
        shard="by key; a key is never split.",
    )

    def __init__(
        self,
        *,
        handler: Handler,
        initial: Any = None,
        first: int = 0,
        most_ahead: int = 10_000,
        status: bool = False,
    ) -> None:
        """Describe the fold.

        Args:
            handler: a function of state and value.
            initial: the state before the first element; each key gets a copy.
            first: the number of a key's first element.
            most_ahead: how far a number may be ahead of the one that is missing.
            status: fill the collection `status`.
        """
        super().__init__()
        self._handler = function("handler", handler)
        self._initial = initial
        self._first = integer("first", first)
        self._most = whole("most_ahead", most_ahead)
        self._status = status

    def expand(self, elements: Any) -> Any:
        """One stateful step with several outputs, in the window that never ends."""
        fold = _Fold(self._handler, self._initial, self._first, self._most, self._status)
        return (
            elements
            | "For ever" >> forever()
            | "Fold" >> beam.ParDo(fold).with_input_types(PAIRS).with_output_types(PAIRS)
            .with_outputs(DUPLICATES, AHEAD, STATUS, main=PROCESSED)
        )


@traits(state="keyed", selectivity="many", forwards_key=True)
class _Fold(beam.DoFn):  # type: ignore[misc]
    """Keeps a key's next number, its state, and what waits; see `sequence`."""

    Books = beam.DoFn.StateParam(
        userstate.ReadModifyWriteStateSpec("books", FastPrimitivesCoder())
    )
    Far = beam.DoFn.StateParam(userstate.BagStateSpec("far", FastPrimitivesCoder()))

    def __init__(
        self, handler: Handler, initial: Any, first: int, most: int, status: bool
    ) -> None:
        self._handler = handler
        self._initial = initial
        self._first = first
        self._most = most
        self._status = status

    def process(
        self, element: tuple[Any, tuple[int, Any]], books: Any = Books, far: Any = Far
    ) -> Iterator[Any]:
        key, (number, value) = element
        found = books.read()
        if found is None:
            following, state, plain = self._first, copy.deepcopy(self._initial), None
        else:
            following, state, plain = found
        if number == following:
            state, outputs = self._handler(state, value)
            for output in outputs:
                yield key, output
            if plain is None:  # nothing waits: nothing else is looked at
                books.write((following + 1, state, None))
                return
            waiting = Waiting(*plain)
            before = len(waiting)
            following += 1
            while values := self._next(waiting, following, far):
                for other in values:
                    state, outputs = self._handler(state, other)
                    for output in outputs:
                        yield key, output
                following += len(values)
            books.write((following, state, waiting.plain() if waiting else None))
            if self._status and len(waiting) != before:
                yield _status_of(key, following, waiting)
            return
        waiting = Waiting() if plain is None else Waiting(*plain)
        arrival = waiting.arrival(number, following, self._most)
        if arrival is Arrival.WAITS:
            for other in waiting.put(number, value):
                far.add(other)
            books.write((following, state, waiting.plain()))
            if self._status:
                yield _status_of(key, following, waiting)
        else:
            tag = DUPLICATES if arrival is Arrival.DUPLICATE else AHEAD
            yield beam.pvalue.TaggedOutput(tag, element)

    @staticmethod
    def _next(waiting: Waiting, following: int, far: Any) -> list[Any]:
        """Give values that come next; reads the far heap when near has run dry."""
        if waiting.must_load(following):
            rest = waiting.load(list(far.read()))
            far.clear()
            for other in rest:
                far.add(other)
        return waiting.take(following)


def _status_of(key: Any, following: int, waiting: Waiting) -> Any:
    last = waiting.ends[-1] - 1 if waiting else None
    return beam.pvalue.TaggedOutput(STATUS, (key, (following, len(waiting), last)))
