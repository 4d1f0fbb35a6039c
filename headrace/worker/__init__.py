"""What runs inside a Spark Python task: stages, state, grouping. Never imports pyspark."""
