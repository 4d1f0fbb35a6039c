"""Streaming benchmarks: epochs, throughput, restoring, pushed-back elements.

`headrace lab run streaming` measures; each case compares within one run.
"""
