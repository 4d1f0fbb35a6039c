"""What all sinks share: a leaf in the pipeline that is given a DataFrame, whole or by epochs.

The engine makes the DataFrame, and keeps its rows for as long as a `Lease` on them is held. What is
done with it is decided by the sinks themselves: `write`, `dataframes`, `materialise`.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from apache_beam import pvalue
from pyspark.sql.types import StructType

from headrace.errors import (
    ColumnTypeError,
)
from headrace.io.claims import Claim
from headrace.io.columns import columns_of
from headrace.io.round_trip import RoundTrip, find_again
from headrace.plan.datasets import Dataset
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


def _nowhere(step: str, epoch: int) -> None:
    """Nobody ends the process here."""
    del step, epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """Which epoch rows belong to, and who hands them over."""

    epoch: int
    claim: Claim  # of the driver, on this sink
    fresh: bool = False  # no epoch of the run counts yet
    attempt: str = "1"  # names this try of the driver at the epoch
    fence: Callable[[], None] = _nobody_newer  # raises if the checkpoint has a newer driver
    empty: bool | None = None  # whether there are no rows; None: not known
    columns: StructType | None = None  # of the sink, as they were read; None: it reads its schema
    remove_later: bool = False  # what the sink holds of later epochs goes, instead of a refusal
    outbox: str = ""  # a folder of the checkpoint for what is published later; empty: there is none
    gap: Callable[[str, int], None] = _nowhere  # told of the gaps of a publication
    pause: Callable[[float], None] = time.sleep  # waits for so many seconds, or until a stop


class Sink(RoundTrip):
    """What all writes share: a schema, given or found, and a leaf in the pipeline."""

    needs = ""  # what a session should have for it, as `headrace doctor --fetch` calls it
    has_outbox = False  # rows are set aside in the checkpoint and made known when they count

    def __init__(self, schema: StructType | str | None, *, ordered: bool = False) -> None:
        super().__init__()
        self.schema = schema
        self.ordered = ordered  # rows come as a run on one shard would give them

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
        described = json.loads(schema.json()) if isinstance(schema, StructType) else schema
        return WRITE_TO_SPARK_URN, json.dumps({"columns": described}).encode()

    def columns(self, session: Any) -> StructType:
        """Give the schema; words such as `name string, price double` need a session to be read."""
        if isinstance(self.schema, StructType):
            return self.schema
        return session.createDataFrame([], self.schema).schema

    def deliver(self, frame: Any, lease: Lease) -> None:
        """Take the DataFrame; called once, after the pipeline's own work has succeeded."""
        raise NotImplementedError

    def names(self) -> tuple[Dataset, ...]:
        """Give the names of what it writes to, as far as it knows them by itself."""
        return ()

    def check_epochs(self, name: str) -> None:
        """Refuse, by the step's full name, to take rows epoch by epoch if that cannot be."""

    def prepare_epochs(self, session: Any, delivery: Delivery) -> None:
        """Make ready for the epochs of a driver that starts; `delivery` is the first one."""

    def deliver_epoch(self, frame: Any, delivery: Delivery) -> None:
        """Take the rows of one epoch of a streaming pipeline, perhaps for a second time."""
        raise NotImplementedError

    def files_at(self, checkpoint: str) -> bool:
        """Whether workers that share this machine's disk may write the files of an epoch."""
        del checkpoint
        return False

    def staging(self, attempt: str) -> str:
        """Give the folder for the files of one attempt at an epoch; no reader looks there."""
        raise NotImplementedError

    def deliver_files(self, delivery: Delivery, names: Sequence[str]) -> None:
        """Take the rows of one epoch as files that workers wrote; once, even if called twice."""
        raise NotImplementedError

    def publish(self, delivery: Delivery, give_up: Callable[[], bool]) -> None:
        """Make known what epochs up to this one, which counts, have set aside, if anything was."""

    def close(self) -> None:
        """Let go of what is held for the epochs of a driver."""


Sink.register_urn(WRITE_TO_SPARK_URN, None, find_again)
