"""Two operators: one value per key and window, with any output or as a plain pair."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import apache_beam as beam

from headrace.transforms.arguments import function, function_or_none
from headrace.transforms.facts import Facts
from headrace.transforms.folds import Fold
from headrace.transforms.keys import PAIRS, check_window, into_windows, keyed

_FACTS = Facts(
    state="one value per key and window with `merge`, else its elements; freed with the window.",
    order="free if `reducer` does not mind the order of its elements.",
    late="is dropped by the runner; one that keeps it gives it apart, as one more result.",
    shard="by key; with `merge` a key's elements are reduced where they are, then its values.",
)


class Reduce(beam.PTransform):  # type: ignore[misc]
    """Fold the elements of a key and window into one value, and make a result of it.

    `reducer(element, value)` gives the next value, beginning with `initial`, which must not be
    changed in place; `completer(key, value, count)` gives the result. `merge(value, value)` makes
    one value of two, where that is possible: far less is sent then. `window` is in seconds; without
    it those that the input has already are taken.

    >>> from headrace.transforms.replay import at, replay
    >>> spent = Reduce(
    ...     key=lambda bill: bill[0],
    ...     initial=0,
    ...     reducer=lambda bill, total: total + bill[1],
    ...     completer=lambda name, total, count: f"{name}: {total} in {count}",
    ...     merge=lambda one, other: one + other,
    ...     window=60,
    ... )
    >>> replay(spent, at(1, ("Ann", 3)), at(59, ("Ann", 4)), at(60, ("Ann", 5)))
    ['Ann: 5 in 1', 'Ann: 7 in 2']

    State: one value per key and window with `merge`, else its elements; freed with the window.
    Order: free if `reducer` does not mind the order of its elements.
    Late: is dropped by the runner; one that keeps it gives it apart, as one more result.
    Shard: by key; with `merge` a key's elements are reduced where they are, then its values.
    """

    facts: ClassVar[Facts] = _FACTS

    def __init__(
        self,
        *,
        key: Callable[[Any], Any],
        initial: Any,
        reducer: Callable[[Any, Any], Any],
        completer: Callable[[Any, Any, int], Any],
        merge: Callable[[Any, Any], Any] | None = None,
        window: float | None = None,
    ) -> None:
        super().__init__()
        self._key = function("key", key)
        self._initial = initial
        self._reducer = function("reducer", reducer)
        self._completer = function("completer", completer)
        self._merge = function_or_none("merge", merge)
        self._window = check_window(window)

    def expand(self, elements: Any) -> Any:
        """A combine where values can be merged, else a grouping and a fold."""
        complete = self._completer

        def finish(folded: tuple[Any, tuple[Any, int]]) -> Any:
            key, (value, count) = folded
            return complete(key, value, count)

        pairs = into_windows(elements | "Key" >> keyed(self._key), self._window)
        folded = pairs | "Fold" >> folding(self._initial, self._reducer, self._merge)
        return folded | "Complete" >> beam.Map(finish)


class ReduceBy(beam.PTransform):  # type: ignore[misc]
    """Fold the elements of a key and window into one value, and give the pair (key, value).

    The arguments are those of `Reduce`.

    >>> from headrace.transforms.replay import at, replay
    >>> counts = ReduceBy(key=lambda word: word, initial=0, reducer=lambda _, n: n + 1, window=60)
    >>> replay(counts, at(1, "a"), at(2, "b"), at(3, "a"), at(60, "a"))
    [('a', 1), ('a', 2), ('b', 1)]

    State: one value per key and window with `merge`, else its elements; freed with the window.
    Order: free if `reducer` does not mind the order of its elements.
    Late: is dropped by the runner; one that keeps it gives it apart, as one more result.
    Shard: by key; with `merge` a key's elements are reduced where they are, then its values.
    """

    facts: ClassVar[Facts] = _FACTS

    def __init__(
        self,
        *,
        key: Callable[[Any], Any],
        initial: Any,
        reducer: Callable[[Any, Any], Any],
        merge: Callable[[Any, Any], Any] | None = None,
        window: float | None = None,
    ) -> None:
        super().__init__()
        self._reduce = Reduce(
            key=key,
            initial=initial,
            reducer=reducer,
            completer=_pair,
            merge=merge,
            window=window,
        )

    def expand(self, elements: Any) -> Any:
        """The general form, completed to a pair."""
        return elements | "Reduce" >> self._reduce


def folding(
    initial: Any,
    reducer: Callable[[Any, Any], Any],
    merge: Callable[[Any, Any], Any] | None,
) -> Any:
    """Make (key, (value, count)) of pairs, window by window."""
    if merge is not None:
        return beam.CombinePerKey(Fold(initial, reducer, merge))

    def fold(group: tuple[Any, Iterable[Any]]) -> tuple[Any, tuple[Any, int]]:
        value, count = initial, 0
        for element in group[1]:
            value = reducer(element, value)
            count += 1
        return group[0], (value, count)

    return beam.GroupByKey() | beam.Map(fold).with_output_types(PAIRS)


def _pair(key: Any, value: Any, count: int) -> tuple[Any, Any]:  # noqa: ARG001
    return key, value
