"""The id types of a plan.

An id comes from the pipeline, never from a counter that runs across pipelines: the same pipeline
gives the same ids, byte for byte, in every process.
"""

from __future__ import annotations

from typing import NewType

OperatorId = NewType("OperatorId", str)
"""The full name of a transform, as Beam shows it: `Bids/Parse/Map(<lambda>)`."""

CollectionId = NewType("CollectionId", str)
"""The operator that makes a collection, with the output's tag when it is not the main one."""

StageId = NewType("StageId", str)
"""A set of fused operators, named after the first of them."""

RegionId = NewType("RegionId", str)
"""A parallel region, named after its first operator."""

ChannelId = NewType("ChannelId", str)
"""One collection on its way between stages."""
