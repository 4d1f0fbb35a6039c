"""Every exception a user of headrace can meet.

Each says which step it concerns, what went wrong and what to do about it. Imports nothing of ours.
"""

from __future__ import annotations

import errno


class HeadraceError(Exception):
    """The root of all errors raised by headrace itself."""


class PlanError(HeadraceError):
    """A plan breaks one of its own invariants: a defect of the compiler, not of the pipeline."""


class UnsupportedTransformError(HeadraceError, NotImplementedError):
    """The pipeline holds something that headrace cannot run; raised before Spark starts."""


class FalseTraitError(HeadraceError):
    """What was declared of a step, or read from its code, is not what it does."""


class ColumnsDifferError(HeadraceError):
    """A step computed on columns gave something else than the user's function; names both."""


class SessionError(HeadraceError):
    """The Spark session or its executors do not fit the pipeline."""


class OptionError(HeadraceError, ValueError):
    """A pipeline option has a value outside its domain."""


class ColumnTypeError(HeadraceError, TypeError):
    """A column of a DataFrame and the elements of a pipeline do not fit; names the column."""


class ResultError(HeadraceError, RuntimeError):
    """A result is asked for that is not there yet, or no longer."""


class PackagingError(HeadraceError):
    """User code, or a file it needs, cannot be brought to the executors."""


class TransportError(HeadraceError):
    """A row that travelled between two supersteps cannot be read."""


class WorkerLostError(HeadraceError):
    """A Python worker or an executor died and Spark gave the task up."""


class DiskFullError(HeadraceError, OSError):
    """There is no room for what must be written; names the folder and how much is free there."""

    def __init__(self, *args: object) -> None:
        super().__init__(*args)
        self.errno = errno.ENOSPC


class StateError(HeadraceError):
    """A shard's state cannot be read or written; names the file or folder."""


class CheckpointError(HeadraceError):
    """A checkpoint cannot be used: damaged, of another pipeline, or taken by another driver."""


class MarkerLostError(CheckpointError):
    """Nobody knows any more which of the messages that wait for Kafka were published."""


class PublishError(HeadraceError):
    """Kafka refuses what is to be published, and would again."""


class RegistryError(HeadraceError, ValueError):
    """A schema registry cannot be reached, or does not know a schema."""
