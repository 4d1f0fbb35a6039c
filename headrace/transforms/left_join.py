"""One operator: a join whose left side is remembered for ever."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import apache_beam as beam
from apache_beam.coders import FastPrimitivesCoder
from apache_beam.transforms import userstate
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Timestamp

from headrace.plan.traits import traits
from headrace.transforms.arguments import function
from headrace.transforms.facts import Facts
from headrace.transforms.keys import forever, sided


class LeftJoin(beam.PTransform):  # type: ignore[misc]
    """Join every right with the left of its key as soon as both are there.

    Takes the pair (left, right). A result has the later of the two event times. A key is expected
    to have one left; a second one takes the place of the first for the rights that arrive later.

    >>> from headrace.transforms.replay import left, replay, right, until
    >>> fine = LeftJoin(
    ...     key_left=lambda driver: driver[0],
    ...     key_right=lambda car: car[0],
    ...     join=lambda driver, car: (driver[1], car[1]),
    ... )
    >>> replay(fine, right(1, (7, 90)), left(2, (7, "Ann")), until(9_000), right(9_001, (7, 80)))
    [('Ann', 80), ('Ann', 90)]

    State: one left per key, for ever; rights that wait, freed when their left arrives.
    Order: free while a key has one left; the set of pairs and their times stay the same.
    Late: is joined as any other element.
    Shard: by key; a key is never split.
    """

    facts: ClassVar[Facts] = Facts(
        state="one left per key, for ever; rights that wait, freed when their left arrives.",
        order="free while a key has one left; the set of pairs and their times stay the same.",
        late="is joined as any other element.",
        shard="by key; a key is never split.",
    )

    def __init__(
        self,
        *,
        key_left: Callable[[Any], Any],
        key_right: Callable[[Any], Any],
        join: Callable[[Any, Any], Any],
    ) -> None:
        super().__init__()
        self._keys = function("key_left", key_left), function("key_right", key_right)
        self._join = function("join", join)

    def expand(self, both: tuple[Any, Any]) -> Any:
        """Both sides meet in one stateful step, in the order they arrive."""
        sides = tuple(
            elements | f"For{side}" >> forever() | f"Key{side}" >> sided(key, side)
            for side, (elements, key) in enumerate(zip(both, self._keys, strict=True))
        )
        flat = sides | "Both" >> beam.Flatten()
        return flat | "Join" >> beam.ParDo(_Join(self._join))


@traits(state="keyed", selectivity="many")
class _Join(beam.DoFn):  # type: ignore[misc]
    """Keeps (time, left) and, as long as there is none, the rights as (time, right)."""

    Left = beam.DoFn.StateParam(
        userstate.ReadModifyWriteStateSpec("left", FastPrimitivesCoder())
    )
    Early = beam.DoFn.StateParam(userstate.BagStateSpec("early", FastPrimitivesCoder()))

    def __init__(self, join: Callable[[Any, Any], Any]) -> None:
        self._join = join

    def process(
        self,
        element: tuple[Any, tuple[int, Any]],
        time: Any = beam.DoFn.TimestampParam,
        left: Any = Left,
        early: Any = Early,
    ) -> Iterator[Any]:
        side, value = element[1]
        known = left.read()
        now = time.micros
        if side:
            if known is None:
                early.add((now, value))
            else:
                yield self._pair(known, (now, value), now)
            return
        if known is None:
            for waiting in early.read():
                yield self._pair((now, value), waiting, now)
            early.clear()
        left.write((now, value))

    def _pair(self, known: tuple[int, Any], right: tuple[int, Any], now: int) -> Any:
        made = self._join(known[1], right[1])
        later = max(known[0], right[0])
        # Never earlier than the element at hand, so a result is late only if its cause was.
        return made if later == now else TimestampedValue(made, Timestamp(micros=later))
