"""The NEXMark questions that Spark's DataFrames cannot answer, and why. Needs no Spark."""

from __future__ import annotations

from headrace.lab.workload import Refusal

#: Of q12, and of the thesis' version of it.
Q12 = Refusal(
    reason="Spark has no trigger by processing time that is a bidder's own, and no end of time: "
    "windows by the clock, as well as timers of transformWithState, close only in a later batch, "
    "so the bids of the last seconds of an input are never answered."
)
