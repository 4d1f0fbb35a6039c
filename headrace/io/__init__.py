"""DataFrames in and out of a pipeline."""

from __future__ import annotations

from headrace.io.sinks import DataFrameHandle, WriteToSpark, to_dataframe
from headrace.io.sources import ReadFromSpark

__all__ = ["DataFrameHandle", "ReadFromSpark", "WriteToSpark", "to_dataframe"]
