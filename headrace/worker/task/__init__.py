"""One task: a shard's part of a superstep, its stages, and what it tells the driver."""
