"""`to_dataframe`: a collection becomes a DataFrame of the session that the pipeline runs on."""

from __future__ import annotations

import weakref
from typing import Any

from pyspark.sql.types import StructType

from headrace.errors import ResultError, UnsupportedTransformError
from headrace.io.sinks import Delivery, Lease, Sink


class DataFrameHandle:
    """Stands for a collection until the pipeline has run; then gives it as a DataFrame.

    The rows are kept by Spark, in memory and on local disk, until the handle is closed, or until
    it and the DataFrame it gave are garbage. A DataFrame used after that is computed anew, by
    running the pipeline again.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._frame: Any = None
        self._closed = False
        self._lease: Lease | None = None
        self._finalizer: Any = None

    def dataframe(self) -> Any:
        """Give the DataFrame.

        Raises:
            ResultError: the pipeline has not finished, or failed, or the handle is closed.
        """
        if self._closed:
            msg = f"{self._name}: the handle is closed"
            raise ResultError(msg)
        if self._frame is None:
            msg = (
                f"{self._name}: there is no DataFrame yet; leave the pipeline's `with` block or "
                "call wait_until_finish() first. If the pipeline failed there will be none."
            )
            raise ResultError(msg)
        return self._frame

    def fill(self, frame: Any, lease: Lease) -> None:
        """Take the DataFrame and keep its rows alive."""
        lease.hold()
        self._frame = frame
        # A caller may keep the DataFrame alone, so it is the frame's end that ends the lease.
        self._lease = lease
        self._finalizer = weakref.finalize(frame, lease.drop_later)
        self._finalizer.atexit = False  # Spark ends with the process and forgets by itself

    def close(self) -> None:
        """Let Spark forget the rows."""
        self._closed = True
        if self._lease is not None and self._finalizer.detach() is not None:
            self._lease.drop()
        self._frame = None

    def __enter__(self) -> DataFrameHandle:
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()


class ToDataFrame(Sink):
    """The leaf behind `to_dataframe`."""

    def __init__(self, handle: DataFrameHandle, schema: StructType | str | None) -> None:
        super().__init__(schema)
        self._handle = handle

    def deliver(self, frame: Any, lease: Lease) -> None:
        """Hand the DataFrame to whoever holds the handle."""
        self._handle.fill(frame, lease)

    def check_epochs(self, name: str) -> None:
        """Refuse: there is no DataFrame of a collection that never ends."""
        msg = (
            f"{name}: to_dataframe gives a whole collection, and that of a streaming pipeline is "
            "never whole; write it with WriteToSpark(path) and read what is there, or take each "
            "epoch's rows with WriteToSpark(function=...)"
        )
        raise UnsupportedTransformError(msg)

    def deliver_epoch(self, frame: Any, delivery: Delivery) -> None:  # noqa: ARG002 (every sink is given it)
        """Refuse, as `check_epochs` does."""
        self.check_epochs(self.label)


def to_dataframe(
    pcoll: Any, schema: StructType | str | None = None, *, label: str | None = None
) -> DataFrameHandle:
    """Ask for a collection as a DataFrame in the session that the pipeline runs on.

    Args:
        pcoll: the collection.
        schema: `name string, price double`, or a StructType; found in the elements' type if not
            given.
        label: the step's name in the pipeline; made from the collection's maker if not given.
    """
    taken = pcoll.pipeline.applied_labels
    base = label or f"to_dataframe({pcoll.producer.full_label})"
    name, again = base, 1
    while label is None and name in taken:
        again += 1
        name = f"{base} {again}"
    handle = DataFrameHandle(name)
    pcoll | name >> ToDataFrame(handle, schema)
    return handle
