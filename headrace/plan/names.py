"""Names that two rooms must spell alike: URNs of our own transforms, columns beside a row's own."""

from __future__ import annotations

#: The ends of a pipeline that are DataFrames: `io` gives its transforms these URNs, the compiler
#: knows them by these.
READ_FROM_SPARK_URN = "headrace:read_from_spark:v1"
WRITE_TO_SPARK_URN = "headrace:write_to_spark:v1"

#: What the compiler puts at the two ends of a stage, and the worker builds operations for.
STAGE_READ_URN = "headrace:stage_read:v1"
SHARD_WRITE_URN = "headrace:shard_write:v1"

#: How the columns beside a row's own begin; the name of the user's column follows. `io` asks Spark
#: for them, the worker reads them. No column of a row begins with an underscore.
TIME_COLUMN = "__headrace_time:"
TIME_OR_DROP_COLUMN = "__headrace_time_or_drop:"  # the same; a row without a time is left out
PARTITION_COLUMN = "__headrace_partition:"
