"""DataFrames in and out of a pipeline."""

from __future__ import annotations

from headrace.io.dataframes import DataFrameHandle, to_dataframe
from headrace.io.sources import ReadFromSpark
from headrace.io.watermarks import BoundedOutOfOrderness, Monotonic
from headrace.io.write import WriteToSpark

__all__ = [
    "BoundedOutOfOrderness",
    "DataFrameHandle",
    "Monotonic",
    "ReadFromSpark",
    "WriteToSpark",
    "to_dataframe",
]
