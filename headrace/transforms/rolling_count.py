"""One operator: a running count per key."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import apache_beam as beam
from apache_beam.coders import VarIntCoder
from apache_beam.transforms import userstate

from headrace.plan.traits import traits
from headrace.transforms.arguments import function
from headrace.transforms.facts import Facts
from headrace.transforms.keys import forever, keyed


class RollingCount(beam.PTransform):  # type: ignore[misc]
    """Answer each element by `out(element, count)`, where count is how many its key has had so far.

    The count includes the element at hand, runs over the whole stream and is never reset.

    >>> from headrace.transforms.replay import at, replay
    >>> count = RollingCount(key=lambda word: word, out=lambda word, count: (word, count))
    >>> replay(count, at(1, "a"), at(2, "b"), at(3, "a"))
    [('a', 1), ('a', 2), ('b', 1)]

    State: one number per key, for ever.
    Order: by arrival; another order gives other elements the same counts.
    Late: is counted as any other element.
    Shard: by key; a key is never split.
    """

    facts: ClassVar[Facts] = Facts(
        state="one number per key, for ever.",
        order="by arrival; another order gives other elements the same counts.",
        late="is counted as any other element.",
        shard="by key; a key is never split.",
    )

    def __init__(self, *, key: Callable[[Any], Any], out: Callable[[Any, int], Any]) -> None:
        super().__init__()
        self._key = function("key", key)
        self._out = function("out", out)

    def expand(self, elements: Any) -> Any:
        """One stateful step, in the window that never ends."""
        return (
            elements
            | "For ever" >> forever()
            | "Key" >> keyed(self._key)
            | "Count" >> beam.ParDo(_Count(self._out))
        )


@traits(state="keyed", selectivity="exactly_one")
class _Count(beam.DoFn):  # type: ignore[misc]
    """Keeps the count of each key."""

    Counted = beam.DoFn.StateParam(userstate.ReadModifyWriteStateSpec("counted", VarIntCoder()))

    def __init__(self, out: Callable[[Any, int], Any]) -> None:
        self._out = out

    def process(self, element: tuple[Any, Any], counted: Any = Counted) -> Iterator[Any]:
        count = (counted.read() or 0) + 1
        counted.write(count)
        yield self._out(element[1], count)
