"""Where the batches of streaming DataFrames come from: Spark's queries, or our own loop."""
