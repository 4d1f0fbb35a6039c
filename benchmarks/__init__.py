"""Measures headrace beside Beam's in-process runner; `python -m benchmarks` is the way in."""
