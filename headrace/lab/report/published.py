"""Figures that others have published, beside ours: (what, machines, figure, where it stands)."""

from __future__ import annotations

_EVALUATION = "Performance Evaluation of Stream Data Processing Systems"
_RUNNER = "Challenges and Experiences in Building an Efficient Apache Beam Runner For IBM Streams"
_SUITE = "Implementation of a Benchmark Suite for Strymon"
_PARALLEL = "Auto-Parallelizing Stateful Distributed Streaming Applications"

_AGGREGATION = "windowed aggregation, sustainable"
_AVERAGE = "windowed aggregation, average latency"
_NODES = "2 / 3 / 4 / 8 nodes of 16 cores"
_FOUR = "4 machines of 8 cores"
_LOCAL = "local Streams 4.2, Flink 1.3, Spark 1.6"
_ONE = "one machine of 32 cores"
_MICRO = "throughput of the same Beam pipeline on IBM Streams, to Flink's"

PUBLISHED: tuple[tuple[str, str, str, str], ...] = (
    (f"Spark, batches of 4 s: {_AGGREGATION}", _NODES, "240 K / 480 K / 656 K / 920 K events/s",
     f"{_EVALUATION}, table 1"),
    (f"Spark, batches of 2 s: {_AGGREGATION}", _NODES, "8 K / 15 K / 23 K / 23 K events/s",
     f"{_EVALUATION}, table 1"),
    (f"Flink: {_AGGREGATION}", _NODES, "1.07 M / 1.23 M / 1.23 M / 1.23 M events/s",
     f"{_EVALUATION}, table 1"),
    (f"Spark, batches of 4 s: {_AVERAGE}", _NODES, "6.9 / 3.6 / 4.4 / 3.9 s",
     f"{_EVALUATION}, table 3"),
    (f"Spark, batches of 2 s: {_AVERAGE}", _NODES, "1.6 / 1.7 / 1.7 / 1.6 s",
     f"{_EVALUATION}, table 3"),
    (f"Flink: {_AVERAGE}", _NODES, "0.3 / 0.4 / 0.35 / 0.28 s", f"{_EVALUATION}, table 3"),
    ("Flink: windowed join, sustainable", _NODES, "528 K / 587 K / 643 K / 806 K events/s",
     f"{_EVALUATION}, table 4"),
    ("Flink: windowed join, average latency", _NODES, "3.6 / 4.7 / 4 / 3.4 s",
     f"{_EVALUATION}, table 5"),
    (f"20 ParDos in a chain: {_MICRO}", _LOCAL, "4 times", f"{_RUNNER}, 5.3.2"),
    (f"GroupByKey in sliding windows: {_MICRO}", _LOCAL, "about 2 times",
     f"{_RUNNER}, 5.3.3"),
    ("Beam's Spark runner, streaming: NEXMark queries 3 and 7", _LOCAL,
     "cannot be executed", f"{_RUNNER}, 5.2"),
    ("Timely Dataflow, closed loop: Yahoo's streaming benchmark before it congests", _ONE,
     "beyond ten million events", f"{_SUITE}, 5.2"),
    ("Timely Dataflow, closed loop: its three benchmarks before they congest", _ONE,
     "up to tens of millions of events a second", f"{_SUITE}, 8"),
    ("speed-up of 32 channels: stateless / stateful / shuffle", _FOUR, "32 / 31.3 / 22.6 times",
     f"{_PARALLEL}, 5.1"),
    ("speed-up of 100 channels: stateful", "14 machines of 8 cores", "93 times",
     f"{_PARALLEL}, 5.1"),
    ("cost of order by sequence numbers / and pulses, to round-robin", _FOUR,
     "at most 12 % on average / at most 21 %", f"{_PARALLEL}, 5.2"),
    ("speed-up of the application kernels / of Finance among them", _FOUR,
     "11.4 to 21.1 times / 3.2 times", f"{_PARALLEL}, 5.3"),
)
