"""Predicts how ordered parallel regions scale: `headrace lab run regions` is the way in."""
