"""Figures that others have published, for the column beside ours: (what, where, figure)."""

from __future__ import annotations

_AGGREGATION = "windowed aggregation, sustainable"
_AVERAGE = "windowed aggregation, average latency"
_NODES = "2 / 3 / 4 / 8 nodes of 16 cores"

PUBLISHED: tuple[tuple[str, str, str], ...] = (
    (f"Spark, batches of 4 s: {_AGGREGATION}", _NODES, "240 K / 480 K / 656 K / 920 K events/s"),
    (f"Spark, batches of 2 s: {_AGGREGATION}", _NODES, "8 K / 15 K / 23 K / 23 K events/s"),
    (f"Flink: {_AGGREGATION}", _NODES, "1.07 M / 1.23 M / 1.23 M / 1.23 M events/s"),
    (f"Spark, batches of 4 s: {_AVERAGE}", _NODES, "6.9 / 3.6 / 4.4 / 3.9 s"),
    (f"Spark, batches of 2 s: {_AVERAGE}", _NODES, "1.6 / 1.7 / 1.7 / 1.6 s"),
    (f"Flink: {_AVERAGE}", _NODES, "0.3 / 0.4 / 0.35 / 0.28 s"),
    ("Flink: windowed join, sustainable", _NODES, "528 K / 587 K / 643 K / 806 K events/s"),
    ("Flink: windowed join, average latency", _NODES, "3.6 / 4.7 / 4 / 3.4 s"),
)
