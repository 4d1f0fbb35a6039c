"""`ReadFromSpark`: a DataFrame as the start of a pipeline.

Describes the read; the DataFrame itself stays on the driver, where the engine asks for it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from apache_beam import pvalue
from apache_beam.transforms import core, ptransform, window

from headrace.errors import ColumnTypeError
from headrace.io.rows import row_class

READ_URN = "headrace:read_from_spark:v1"


class ReadFromSpark(ptransform.PTransform):  # type: ignore[misc]
    """Read the rows of a DataFrame.

    Elements are named tuples: `row.price` is the column `price`. They carry a Beam schema, so
    `beam.GroupBy("city")` and `beam.Select("price")` work, and are in the global window with
    Beam's least timestamp.

    Args:
        frame: a Spark DataFrame that is not streaming. It is not run before the pipeline is.
        columns: the columns to read, in this order; all if not given. Spark reads no others.
    """

    def __init__(self, frame: Any, columns: Sequence[str] | None = None) -> None:
        super().__init__()
        if frame.isStreaming:
            msg = "ReadFromSpark: a streaming DataFrame cannot be read yet, only a bounded one"
            raise ColumnTypeError(msg)
        if columns is not None:
            missing = [name for name in columns if name not in frame.columns]
            if missing:
                there = ", ".join(frame.columns)
                msg = f"ReadFromSpark: no column {missing[0]!r}; there are {there}"
                raise ColumnTypeError(msg)
            # Back quotes: a dot in a column's name must not be read as a path.
            frame = frame.select(*(f"`{name}`" for name in columns))
        self.frame = frame
        self.row_class = row_class(frame.schema)

    def expand(self, pbegin: Any) -> Any:
        """Make the collection of rows."""
        if not isinstance(pbegin, pvalue.PBegin):
            msg = "ReadFromSpark starts a pipeline: apply it to the pipeline itself"
            raise TypeError(msg)
        rows = pvalue.PCollection(pbegin.pipeline, is_bounded=True)
        rows.element_type = self.row_class
        return rows

    def get_windowing(self, unused_inputs: Any) -> Any:
        """Rows begin in the global window."""
        return core.Windowing(window.GlobalWindows())

    def infer_output_type(self, unused_input_type: Any) -> Any:
        """Elements are of the class that was made from the columns."""
        return self.row_class

    def to_runner_api_parameter(self, unused_context: Any) -> tuple[str, bytes]:
        """Describe the read; which DataFrame it is, the transform's full name says."""
        return READ_URN, json.dumps({"columns": json.loads(self.frame.schema.json())}).encode()
