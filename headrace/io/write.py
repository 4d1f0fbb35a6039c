"""`WriteToSpark`: a collection is written by way of Spark, as files, to a table, or by a function.

Decides how a DataFrame is written, whole or epoch by epoch. `places` knows what becomes of files.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql.types import StructType

from headrace.errors import OptionError
from headrace.io.claims import Claim
from headrace.io.places import EPOCH, FILE_FORMATS, EpochFolders, Mode
from headrace.io.sinks import Delivery, Lease, Sink


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
        ordered: the rows come in the order of a run on one shard; see `--ordered`, which asks the
            same for all sinks.
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
        ordered: bool = False,
    ) -> None:
        super().__init__(schema, ordered=ordered)
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
            # Words are read by a plan of Spark's: once is enough.
            _check_free(self.label, delivery.columns or self.columns(session))
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
            self.prepare_epochs(frame.sparkSession, replace(delivery, columns=frame.schema))
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

    def files_at(self, checkpoint: str) -> bool:
        """Whether workers may write them; where the checkpoint is does not matter here."""
        del checkpoint
        return self.takes_files

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
