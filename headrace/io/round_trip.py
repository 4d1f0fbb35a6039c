"""Lets reads and writes of DataFrames survive a pipeline's way through its proto and back.

Tools that rewrite pipelines, Beam's `InteractiveRunner` among them, turn a pipeline into its proto
and build another one from that. A DataFrame cannot travel so; it stays here, in the process, and
the proto carries a number by which the transform is found again.
"""

from __future__ import annotations

import itertools
import weakref
from typing import Any

from apache_beam.transforms import ptransform

from headrace.errors import PlanError

#: The annotation that carries the number; annotations decide nothing in a plan.
_HANDLE = "headrace:transform"

_numbers = itertools.count(1)
_alive: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()


class RoundTrip(ptransform.PTransform):  # type: ignore[misc]
    """A transform that is itself again after it has been a proto."""

    def __init__(self) -> None:
        super().__init__()
        self._number = next(_numbers)
        _alive[self._number] = self

    def annotations(self) -> dict[str, Any]:
        """Add the number under which the transform is kept."""
        return {**super().annotations(), _HANDLE: str(self._number)}


def find_again(proto: Any, unused_payload: Any, unused_context: Any) -> Any:
    """Give the transform that a proto was made from, in this process."""
    kept = _alive.get(int(proto.annotations.get(_HANDLE, b"0")))
    if kept is None:
        msg = (
            f"{proto.unique_name}: its DataFrame is not at hand, since the pipeline's proto was "
            "made in another process or the pipeline is gone; build the pipeline here"
        )
        raise PlanError(msg)
    return kept
