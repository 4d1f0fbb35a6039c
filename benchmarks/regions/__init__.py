"""Predicts how ordered parallel regions scale: `python -m benchmarks.regions` is the way in."""
