"""One operator: elements are dealt out evenly, and nothing else happens."""

from __future__ import annotations

from typing import Any, ClassVar

import apache_beam as beam

from headrace.transforms.facts import Facts


class RoundRobin(beam.PTransform):  # type: ignore[misc]
    """Deal the elements out to all shards in turn and give them as they came.

    Times and windows stay as they are. A runner other than headrace may deal by chance.

    >>> from headrace.transforms.replay import at, replay
    >>> replay(RoundRobin(), at(1, 3), at(2, 4), at(3, 3))
    [3, 3, 4]

    State: none.
    Order: free; elements may overtake each other.
    Late: is passed on as any other element.
    Shard: anywhere; that is its purpose.
    """

    facts: ClassVar[Facts] = Facts(
        state="none.",
        order="free; elements may overtake each other.",
        late="is passed on as any other element.",
        shard="anywhere; that is its purpose.",
    )

    def expand(self, elements: Any) -> Any:
        """Beam's redistribution."""
        return elements | "Send" >> beam.Reshuffle()
