"""Streaming benchmarks: epochs, throughput, restoring, pushed-back elements.

`python -m benchmarks.streaming` measures; each case compares within one run.
"""
