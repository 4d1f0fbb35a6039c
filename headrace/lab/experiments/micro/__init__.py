"""Measures headrace beside Beam's in-process runner; `headrace lab run micro` is the way in."""
