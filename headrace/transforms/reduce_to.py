"""One operator: one value for a whole window."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import apache_beam as beam

from headrace.transforms.arguments import function, function_or_none
from headrace.transforms.facts import Facts
from headrace.transforms.keys import check_window
from headrace.transforms.reduce import Reduce


class ReduceTo(beam.PTransform):  # type: ignore[misc]
    """Fold all elements of a window into one value.

    `reducer(element, value)` gives the next value, beginning with `initial`, which must not be
    changed in place; `merge(value, value)` makes one value of two, where that is possible. `window`
    is in seconds; without it those that the input has already are taken. A window
    without elements has no value.

    >>> from headrace.transforms.replay import at, replay
    >>> count = ReduceTo(
    ...     initial=0, reducer=lambda _, n: n + 1, merge=lambda one, other: one + other, window=10
    ... )
    >>> replay(count, at(1, "a"), at(2, "b"), at(3, "c"), at(25, "d"))
    [1, 3]

    State: one value per window with `merge`, else its elements; freed with the window.
    Order: free if `reducer` does not mind the order of its elements.
    Late: is dropped by the runner; one that keeps it gives it apart, as one more result.
    Shard: one for all; with `merge` elements are reduced where they are; only values meet.
    """

    facts: ClassVar[Facts] = Facts(
        state="one value per window with `merge`, else its elements; freed with the window.",
        order="free if `reducer` does not mind the order of its elements.",
        late="is dropped by the runner; one that keeps it gives it apart, as one more result.",
        shard="one for all; with `merge` elements are reduced where they are; only values meet.",
    )

    def __init__(
        self,
        *,
        initial: Any,
        reducer: Callable[[Any, Any], Any],
        merge: Callable[[Any, Any], Any] | None = None,
        window: float | None = None,
    ) -> None:
        super().__init__()
        self._reduce = Reduce(
            key=_no_key,
            initial=initial,
            reducer=function("reducer", reducer),
            completer=_value,
            merge=function_or_none("merge", merge),
            window=check_window(window),
        )

    def expand(self, elements: Any) -> Any:
        """The general form with one key for all."""
        return elements | "Reduce" >> self._reduce


def _no_key(element: Any) -> int:  # noqa: ARG001
    return 0


def _value(key: Any, value: Any, count: int) -> Any:  # noqa: ARG001
    return value
