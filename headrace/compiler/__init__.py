"""From Beam's proto to a sealed plan; never starts Spark."""
