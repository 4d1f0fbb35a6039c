"""One operator: the inner join of two collections, window by window."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar

import apache_beam as beam

from headrace.transforms.arguments import function
from headrace.transforms.facts import Facts
from headrace.transforms.keys import check_window, into_windows, sided


class WindowJoin(beam.PTransform):  # type: ignore[misc]
    """Join every left with every right of the same key and window; what finds no match is dropped.

    Takes the pair (left, right). `window` is a length of event time in seconds; without it
    those that both inputs have already are taken.

    >>> from headrace.transforms.replay import left, replay, right
    >>> pay = WindowJoin(
    ...     key_left=lambda customer: customer[0],
    ...     key_right=lambda coffee: coffee[0],
    ...     join=lambda customer, coffee: (customer[1], coffee[1]),
    ...     window=60,
    ... )
    >>> replay(pay, left(1, (7, "Ann")), right(50, (7, 3)), right(61, (7, 4)))
    [('Ann', 3)]

    State: all elements of a window by key, freed when the window is over.
    Order: free; the pairs of a window are a set.
    Late: is dropped by the runner; one that keeps it gives it apart, as one more result.
    Shard: by key; a key is never split.
    """

    facts: ClassVar[Facts] = Facts(
        state="all elements of a window by key, freed when the window is over.",
        order="free; the pairs of a window are a set.",
        late="is dropped by the runner; one that keeps it gives it apart, as one more result.",
        shard="by key; a key is never split.",
    )

    def __init__(
        self,
        *,
        key_left: Callable[[Any], Any],
        key_right: Callable[[Any], Any],
        join: Callable[[Any, Any], Any],
        window: float | None = None,
    ) -> None:
        super().__init__()
        self._keys = function("key_left", key_left), function("key_right", key_right)
        self._join = function("join", join)
        self._window = check_window(window)

    def expand(self, both: tuple[Any, Any]) -> Any:
        """One grouping for both sides, so that each element is sent once."""
        join = self._join

        def pairs(group: tuple[Any, Iterable[tuple[int, Any]]]) -> Iterator[Any]:
            lefts, rights = split(group[1])
            for a in lefts:
                for b in rights:
                    yield join(a, b)

        sides = tuple(
            elements | f"Key{side}" >> sided(key, side)
            for side, (elements, key) in enumerate(zip(both, self._keys, strict=True))
        )
        flat = sides | "Both" >> beam.Flatten()
        return (
            into_windows(flat, self._window)
            | "Meet" >> beam.GroupByKey()
            | "Pairs" >> beam.FlatMap(pairs)
        )


def split(elements: Iterable[tuple[int, Any]]) -> tuple[list[Any], list[Any]]:
    """Part the elements of a key by their side: 0 is left, 1 is right.

    >>> split([(1, "r"), (0, "l"), (1, "s")])
    (['l'], ['r', 's'])
    """
    lefts: list[Any] = []
    rights: list[Any] = []
    for side, element in elements:
        (rights if side else lefts).append(element)
    return lefts, rights
