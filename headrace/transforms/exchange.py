"""One operator: elements of one key are brought together, and nothing else happens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import apache_beam as beam
from apache_beam.transforms.util import ReshufflePerKey

from headrace.transforms.arguments import function
from headrace.transforms.facts import Facts
from headrace.transforms.keys import keyed


class Exchange(beam.PTransform):  # type: ignore[misc]
    """Bring the elements of one key to one place and give them as they came.

    Times and windows stay as they are.

    >>> from headrace.transforms.replay import at, replay
    >>> replay(Exchange(key=lambda n: n % 2), at(1, 3), at(2, 4), at(3, 3))
    [3, 3, 4]

    State: none.
    Order: free; elements may overtake each other.
    Late: is passed on as any other element.
    Shard: by key; a key is never split.
    """

    facts: ClassVar[Facts] = Facts(
        state="none.",
        order="free; elements may overtake each other.",
        late="is passed on as any other element.",
        shard="by key; a key is never split.",
    )

    def __init__(self, *, key: Callable[[Any], Any]) -> None:
        super().__init__()
        self._key = function("key", key)

    def expand(self, elements: Any) -> Any:
        """Beam's exchange by key; the key itself is dropped again."""
        return (
            elements
            | "Key" >> keyed(self._key)
            | "Send" >> ReshufflePerKey()
            | "Drop key" >> beam.Map(_element)
        )


def _element(pair: tuple[Any, Any]) -> Any:
    return pair[1]
