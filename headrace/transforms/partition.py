"""One operator: lists of a fixed number of elements."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import apache_beam as beam
from apache_beam.coders import FastPrimitivesCoder, VarIntCoder
from apache_beam.transforms import userstate

from headrace.plan.traits import traits
from headrace.transforms.arguments import function, whole
from headrace.transforms.facts import Facts
from headrace.transforms.keys import forever, keyed


class Partition(beam.PTransform):  # type: ignore[misc]
    """Give lists of exactly `size` elements of one key, each as soon as it is full.

    Elements that do not fill a list are never given.

    >>> from headrace.transforms.replay import at, replay
    >>> replay(Partition(size=2, key=lambda n: n % 2), at(0, 2), at(0, 4), at(0, 5), at(0, 6))
    [[2, 4]]

    State: up to `size` - 1 elements per key, for ever; a list is freed when it is given.
    Order: by arrival; another order fills the lists with other elements.
    Late: is taken as any other element.
    Shard: by key; a key is never split.
    """

    facts: ClassVar[Facts] = Facts(
        state="up to `size` - 1 elements per key, for ever; a list is freed when it is given.",
        order="by arrival; another order fills the lists with other elements.",
        late="is taken as any other element.",
        shard="by key; a key is never split.",
    )

    def __init__(self, *, size: int, key: Callable[[Any], Any]) -> None:
        super().__init__()
        self._size = whole("size", size)
        self._key = function("key", key)

    def expand(self, elements: Any) -> Any:
        """One stateful step, in the window that never ends."""
        return (
            elements
            | "For ever" >> forever()
            | "Key" >> keyed(self._key)
            | "Fill" >> beam.ParDo(_Fill(self._size))
        )


@traits(state="keyed", selectivity="at_most_one", forwards_key=False)
class _Fill(beam.DoFn):  # type: ignore[misc]
    """Keeps the list of each key; its length stands apart, so that only a full list is read."""

    Filled = beam.DoFn.StateParam(userstate.BagStateSpec("filled", FastPrimitivesCoder()))
    Length = beam.DoFn.StateParam(userstate.ReadModifyWriteStateSpec("length", VarIntCoder()))

    def __init__(self, size: int) -> None:
        self._size = size

    def process(
        self, element: tuple[Any, Any], filled: Any = Filled, length: Any = Length
    ) -> Iterator[list[Any]]:
        count = (length.read() or 0) + 1
        if count < self._size:
            filled.add(element[1])
            length.write(count)
            return
        yield [*filled.read(), element[1]]
        filled.clear()
        length.clear()
