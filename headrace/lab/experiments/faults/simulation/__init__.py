"""Faults by the hundred thousand: drivers of one checkpoint in one process, by our schedule."""
