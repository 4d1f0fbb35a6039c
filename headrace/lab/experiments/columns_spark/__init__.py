"""Workloads from Parquet files on Spark: columns, objects and Spark's own query in turns."""
