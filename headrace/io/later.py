"""A DataFrame that is made when the session is known.

A transform that knows what to read, and from where, need not be given a session when the pipeline
is built. It holds one of these; the runner has it made in the session that it found or started.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql.types import StructType

from headrace.plan.datasets import Dataset


class LaterFrame:
    """Stands for a DataFrame as far as a read asks for it before the pipeline runs.

    Args:
        make: makes the DataFrame in a session.
        schema: of what it makes.
        streaming: whether that is a streaming DataFrame.
        needs: what a session must have for it, as `headrace doctor --fetch` calls it.
        names: of what it reads.
    """

    def __init__(
        self, make: Callable[[Any], Any], schema: StructType, *, streaming: bool, needs: str = "",
        names: tuple[Dataset, ...] = (),
    ) -> None:
        self._make = make
        self.schema = schema
        self.isStreaming = streaming
        self.needs = needs
        self.names = names

    @property
    def columns(self) -> list[str]:
        """The names of its columns."""
        return list(self.schema.names)

    def selectExpr(self, *expressions: str) -> LaterFrame:
        """Choose columns, when it is made."""
        make = self._make
        return LaterFrame(
            lambda session: make(session).selectExpr(*expressions), self.schema,
            streaming=self.isStreaming, needs=self.needs, names=self.names,
        )

    def made(self, session: Any) -> Any:
        """Make the DataFrame."""
        return self._make(session)
