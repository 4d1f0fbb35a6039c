"""Batches as columns, and functions computed on them."""
