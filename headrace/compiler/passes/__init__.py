"""Rewrites of the stage list, one file per pass."""
