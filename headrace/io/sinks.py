"""`WriteToSpark` and `to_dataframe`: collections become DataFrames.

Describes the write and says what to do with the DataFrame once there is one. The engine makes it,
and keeps its rows for as long as a `Lease` on them is held.
"""

from __future__ import annotations

import inspect
import json
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from apache_beam import pvalue
from pyspark.sql.types import StructType

from headrace.errors import (
    ColumnTypeError,
    OptionError,
    ResultError,
    UnsupportedTransformError,
)
from headrace.io.claims import Claim
from headrace.io.columns import columns_of
from headrace.io.places import EPOCH, FILE_FORMATS, EpochFolders, Mode
from headrace.io.round_trip import RoundTrip, find_again
from headrace.plan.names import WRITE_TO_SPARK_URN


class Lease:
    """Keeps the rows of a finished pipeline for the sinks that still want them."""

    def __init__(self, release: Callable[[], None]) -> None:
        self._release = release
        self._holders = 0
        self._ended = False

    def hold(self) -> None:
        """Ask for the rows to be kept."""
        self._holders += 1

    def drop(self) -> None:
        """One holder less."""
        self._holders -= 1
        self.end_if_free()

    def drop_later(self) -> None:
        """One holder less, for a garbage collector: it may interrupt a call to Spark.

        A second call from the same thread would then mix with the first, so a thread makes it.
        """
        threading.Thread(target=self.drop, name="headrace-release", daemon=True).start()

    def end_if_free(self) -> None:
        """Let the rows go unless somebody holds them."""
        if self._holders <= 0 and not self._ended:
            self._ended = True
            self._release()


def _nobody_newer() -> None:
    """There is no other driver."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """Which epoch rows belong to, and who hands them over."""

    epoch: int
    claim: Claim  # of the driver, on this sink
    fresh: bool = False  # no epoch of the run counts yet
    attempt: str = "1"  # names this try of the driver at the epoch
    fence: Callable[[], None] = _nobody_newer  # raises if the checkpoint has a newer driver
    empty: bool | None = None  # whether there are no rows; None: not known
    remove_later: bool = False  # what the sink holds of later epochs goes, instead of a refusal


class Sink(RoundTrip):
    """What all writes share: a schema, given or found, and a leaf in the pipeline."""

    def __init__(self, schema: StructType | str | None) -> None:
        super().__init__()
        self.schema = schema

    def expand(self, pcoll: Any) -> Any:
        """Make the leaf; without a schema, find it in the type of the elements."""
        if self.schema is None:
            try:
                self.schema = columns_of(pcoll.element_type)
            except ColumnTypeError as error:
                msg = f"{self.label}: {error}"
                raise ColumnTypeError(msg) from None
        return pvalue.PDone(pcoll.pipeline)

    def to_runner_api_parameter(self, unused_context: Any) -> tuple[str, bytes]:
        """Describe the write."""
        schema = self.schema
        told = json.loads(schema.json()) if isinstance(schema, StructType) else schema
        return WRITE_TO_SPARK_URN, json.dumps({"columns": told}).encode()

    def columns(self, session: Any) -> StructType:
        """Give the schema; words such as `name string, price double` need a session to be read."""
        if isinstance(self.schema, StructType):
            return self.schema
        return session.createDataFrame([], self.schema).schema

    def deliver(self, frame: Any, lease: Lease) -> None:
        """Take the DataFrame; called once, after the pipeline's own work has succeeded."""
        raise NotImplementedError

    def check_epochs(self, name: str) -> None:
        """Refuse, by the step's full name, to take rows epoch by epoch if that cannot be."""

    def prepare_epochs(self, session: Any, delivery: Delivery) -> None:
        """Make ready for the epochs of a driver that starts; `delivery` is the first one."""

    def deliver_epoch(self, frame: Any, delivery: Delivery) -> None:
        """Take the rows of one epoch of a streaming pipeline, perhaps for a second time."""
        raise NotImplementedError


Sink.register_urn(WRITE_TO_SPARK_URN, None, find_again)


class WriteToSpark(Sink):
    """Write a collection by way of Spark: as files, to a table, or with a function.

    Exactly one of `path`, `table` and `function` is given. Elements are rows (named tuples, Beam
    rows, dataclasses), dicts or tuples with a schema, or plain values, which go to a column
    `value`. Nothing is written unless the whole pipeline succeeds; a streaming pipeline writes
    after each epoch that does.

    Args:
        path: where `format` writes to; in a streaming pipeline, each epoch to a folder of its own.
        table: the name of a table, as `saveAsTable` takes it.
        function: called on the driver, once or once per epoch, with the DataFrame; if it has a
            second parameter without default, or one called `epoch`, with the epoch's number too,
            and with more if it has parameters called `incarnation` (which start of the driver
            calls) and `writer` (a name for this sink of this run). An epoch may come twice, and in
            storage without locks from a driver that was thought dead: docs/guide/streaming-io.md
            says what the function must do then.
        format: a format that Spark knows; parquet if not given.
        mode: error, overwrite or append; in a streaming pipeline, what its first start does.
        schema: `name string, price double`, or a StructType; found in the elements' type if not
            given.
        partition_by: columns that become folders.
        options: options of the format.
    """

    def __init__(
        self,
        path: str | None = None,
        *,
        table: str | None = None,
        function: Callable[..., None] | None = None,
        format: str | None = None,
        mode: str = "error",
        schema: StructType | str | None = None,
        partition_by: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(schema)
        if sum(place is not None for place in (path, table, function)) != 1:
            msg = "WriteToSpark: give exactly one of path, table and function"
            raise OptionError(msg)
        try:
            self.mode = Mode(mode)
        except ValueError:
            allowed = ", ".join(m.value for m in Mode)
            msg = f"WriteToSpark: mode {mode!r} is none of {allowed}"
            raise OptionError(msg) from None
        if function is not None and (format or partition_by or options or mode != "error"):
            msg = "WriteToSpark: with function, it is the function that decides how to write"
            raise OptionError(msg)
        self.path, self.table, self._function = path, table, function
        self._format = format
        self._partition_by = tuple(partition_by)
        self._options = dict(options or {})
        self._folders: EpochFolders | None = None
        kind = format or "parquet"
        if path is not None and kind.lower() in FILE_FORMATS:
            self._folders = EpochFolders(path, kind, self._options, self._partition_by)
        self._made_by: str | None = None  # the writer that made the table

    @property
    def epochs_at(self) -> str | None:
        """The path of the folders of a streaming pipeline's epochs; None if there are none."""
        return None if self._folders is None else self._folders.path

    def deliver(self, frame: Any, lease: Lease) -> None:  # noqa: ARG002 (every sink is given it)
        """Write the DataFrame."""
        if self._function is not None:
            _call(self._function, frame, ONCE)
        else:
            self._save(frame, self.mode, {})

    def check_epochs(self, name: str) -> None:
        """Refuse a column that the epoch's folder would hide from readers."""
        if self._folders is not None and isinstance(self.schema, StructType):
            _check_free(name, self.schema)

    def prepare_epochs(self, session: Any, delivery: Delivery) -> None:
        """Claim the path for a driver: see what is there, and keep older drivers out."""
        if self._folders is None:
            return
        if self.schema is not None:
            _check_free(self.label, self.columns(session))
        self._folders.claim(
            session, delivery.claim, self.mode, fresh=delivery.fresh,
            next_epoch=delivery.epoch, remove_later=delivery.remove_later,
        )

    def deliver_epoch(self, frame: Any, delivery: Delivery) -> None:
        """Write the rows of one epoch; to files, once even when it is done twice."""
        if self._function is not None:
            delivery.fence()
            _call(self._function, frame, delivery)
            return
        empty = frame.isEmpty() if delivery.empty is None else delivery.empty
        if self._folders is not None:
            _check_free(self.label, frame.schema)
            self.prepare_epochs(frame.sparkSession, delivery)
            self._folders.write(frame, delivery.epoch, delivery.attempt, empty, delivery.fence)
        elif delivery.fresh or not empty:
            delivery.fence()
            writer = delivery.claim.writer
            # Only a new run asks what is there: later on, what is there is our own.
            mode = self.mode if delivery.fresh else Mode.APPEND
            if mode is Mode.ERROR and self._made_by == writer:
                mode = Mode.OVERWRITE  # what is there is an earlier attempt of this epoch
            self._save(frame, mode, self._transaction(writer, delivery.epoch))
            self._made_by = writer

    @property
    def takes_files(self) -> bool:
        """Whether workers that share this machine's disk may write the files of an epoch."""
        plain = (self._format or "parquet").lower() == "parquet"
        return (
            plain and self._folders is not None and not self._options and not self._partition_by
            and self._folders.is_local
        )

    def staging(self, attempt: str) -> str:
        """Give the folder for the files of one attempt at an epoch; no reader looks there."""
        assert self._folders is not None
        return self._folders.staging(attempt)

    def deliver_files(self, delivery: Delivery, names: Sequence[str]) -> None:
        """Take the rows of one epoch as files that workers wrote; once, even if called twice."""
        assert self._folders is not None
        self._folders.take(delivery.epoch, delivery.attempt, names, delivery.fence)

    def _transaction(self, writer: str, epoch: int) -> dict[str, str]:
        """Delta tables pass over a write whose numbers they have seen; Spark's own formats ask
        nobody, and a database's driver might stumble over words it does not know.
        """
        if self._format is not None and self._format.lower() in FILE_FORMATS | {"jdbc"}:
            return {}
        return {"txnAppId": writer, "txnVersion": str(epoch)}

    def _save(self, frame: Any, mode: Mode, options: Mapping[str, str]) -> None:
        writer = frame.write.mode(mode.value).options(**{**options, **self._options})
        if self._partition_by:
            writer = writer.partitionBy(*self._partition_by)
        if self.table is not None:
            (writer.format(self._format) if self._format else writer).saveAsTable(self.table)
        else:
            writer.format(self._format or "parquet").save(self.path)


def _check_free(name: str, columns: StructType) -> None:
    if EPOCH in columns.names:
        msg = (
            f"{name}: readers find the epoch's number in a column {EPOCH!r}, made from the name of "
            "its folder, so the rows may not have one; rename it"
        )
        raise OptionError(msg)


#: The one delivery of a batch pipeline.
ONCE = Delivery(epoch=0, claim=Claim(writer="", incarnation=0, token=""), fresh=True)


def _call(function: Callable[..., None], frame: Any, delivery: Delivery) -> None:
    """Call a user's function with what it asks for beside the rows.

    A second parameter with a default does not ask for the epoch's number: it is how a lambda keeps
    a value.
    """
    try:
        parameters = dict(inspect.signature(function).parameters)
    except ValueError:  # some functions written in C
        parameters = {}
    by_place = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    known: dict[str, Any] = {
        EPOCH: delivery.epoch,
        "incarnation": delivery.claim.incarnation,
        "writer": delivery.claim.writer,
    }
    asked = {
        name: value
        for name, value in known.items()
        if name in parameters and parameters[name].kind is not inspect.Parameter.POSITIONAL_ONLY
    }
    needed = [
        p for p in parameters.values()
        if p.kind in by_place and p.default is p.empty and p.name not in asked
    ]
    if EPOCH not in asked and len(needed) == 2:
        function(frame, delivery.epoch, **asked)
    else:
        function(frame, **asked)


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
