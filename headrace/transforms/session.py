"""One operator: the bursts of activity of a key."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import apache_beam as beam
from apache_beam.transforms.window import Sessions

from headrace.transforms.arguments import function, function_or_none, seconds
from headrace.transforms.facts import Facts
from headrace.transforms.keys import PAIRS, in_order, stamped


class Session(beam.PTransform):  # type: ignore[misc]
    """Give (key, elements) for each run of a key's elements that `timeout` seconds of silence end.

    Elements stand in the order of their event times; those of one time in the order of
    `tie(element)`, or of the elements themselves. `time(element)` gives an element's event time in
    seconds if its timestamp does not.

    >>> from headrace.transforms.replay import at, replay
    >>> visits = Session(timeout=10, key=lambda click: click[0])
    >>> replay(visits, at(1, ("Ann", "a")), at(20, ("Ann", "c")), at(9, ("Ann", "b")))
    [('Ann', [('Ann', 'a'), ('Ann', 'b')]), ('Ann', [('Ann', 'c')])]

    State: the elements of open sessions, freed when the session is over.
    Order: free; any order of arrival gives the same sessions.
    Late: joins its session until `timeout` after its own time; then as the runner has it.
    Shard: by key; a key is never split.
    """

    facts: ClassVar[Facts] = Facts(
        state="the elements of open sessions, freed when the session is over.",
        order="free; any order of arrival gives the same sessions.",
        late="joins its session until `timeout` after its own time; then as the runner has it.",
        shard="by key; a key is never split.",
    )

    def __init__(
        self,
        *,
        timeout: float,
        key: Callable[[Any], Any],
        time: Callable[[Any], float] | None = None,
        tie: Callable[[Any], Any] | None = None,
    ) -> None:
        super().__init__()
        self._timeout = seconds("timeout", timeout)
        self._key = function("key", key)
        self._time = function_or_none("time", time)
        self._tie = function_or_none("tie", tie)

    def expand(self, elements: Any) -> Any:
        """Beam's session windows; the times travel along so that the elements can be ordered."""
        key, tie = self._key, self._tie

        def entry(element: Any, time: Any = beam.DoFn.TimestampParam) -> tuple[Any, Any]:
            if tie is None:
                return key(element), (time.micros, element)
            return key(element), (time.micros, tie(element), element)

        def burst(group: tuple[Any, Iterable[tuple[Any, ...]]]) -> tuple[Any, list[Any]]:
            return group[0], [entry[-1] for entry in in_order(group[1], group[0])]

        return (
            stamped(elements, self._time)
            | "Key" >> beam.Map(entry).with_output_types(PAIRS)
            | "Sessions" >> beam.WindowInto(Sessions(self._timeout))
            | "Gather" >> beam.GroupByKey()
            | "Order" >> beam.Map(burst).with_output_types(PAIRS)
        )
