"""One operator: a function that maps an element or drops it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import apache_beam as beam

from headrace.transforms.arguments import function
from headrace.transforms.facts import Facts


class FilterMap(beam.PTransform):  # type: ignore[misc]
    """Map every element by `f`, and drop it where `f` gives None.

    >>> from headrace.transforms.replay import at, replay
    >>> replay(FilterMap({"a": 1, "b": 2}.get), at(0, "b"), at(0, "x"), at(0, "a"))
    [1, 2]

    State: none.
    Order: free; elements are looked at one by one.
    Late: is treated as any other element.
    Shard: anywhere.
    """

    facts: ClassVar[Facts] = Facts(
        state="none.",
        order="free; elements are looked at one by one.",
        late="is treated as any other element.",
        shard="anywhere.",
    )

    def __init__(self, f: Callable[[Any], Any]) -> None:
        super().__init__()
        self._f = function("f", f)

    def expand(self, elements: Any) -> Any:
        """Two plain steps that fuse: analysis can then look into `f` itself."""
        return elements | "Map" >> beam.Map(self._f) | "Keep" >> beam.Filter(_is_there)


def _is_there(value: Any) -> bool:
    return value is not None
