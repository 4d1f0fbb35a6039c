"""What every operator says of itself: what it keeps, what order means to it, lateness, sharding.

The same four lines close the operator's docstring; a test compares them. Knows no operator.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The four facts of one operator, each a sentence."""

    state: str  # what is kept, and when it is freed
    order: str  # whether the order of arrival can change the answer
    late: str  # what becomes of an element that comes behind the watermark
    shard: str  # how the work may be spread
