"""A stage on whole batches: which chains of steps may, and how they do it."""
