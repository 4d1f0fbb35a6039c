"""Brings the results of `[1, 2] | transform` back from other processes.

Beam keeps them in a list of the process that built the pipeline and has no way for a runner whose
functions run elsewhere. Here they travel through files. Knows nothing of runners or pytest.
"""

from __future__ import annotations

import contextlib
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from apache_beam.internal import pickler
from apache_beam.transforms import ptransform


class Carrier:
    """What stands for a result where its elements are made: each is written to a file."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        self.elements = self

    def append(self, element: Any) -> None:
        """Keep an element."""
        self._folder.mkdir(parents=True, exist_ok=True)
        (self._folder / uuid.uuid4().hex).write_bytes(pickler.dumps(element))


@contextlib.contextmanager
def carried_results() -> Iterator[None]:
    """Results of pipelines without a pipeline object come back from wherever they are made."""
    release = ptransform._release_materialized_pipeline  # noqa: SLF001 (there is no other door)
    results = ptransform._pipeline_materialization_cache  # noqa: SLF001
    with tempfile.TemporaryDirectory(prefix="headrace-eager-") as root:

        def folder(result: Any) -> Path:
            return Path(root) / f"{result._pipeline_id}-{result._result_id}"  # noqa: SLF001

        def reduced(self: Any) -> Any:
            return Carrier, (str(folder(self)),)

        def fetch(pipeline: Any) -> None:
            for (_, owner), found in results.items():
                for result in found.values() if owner == id(pipeline) else ():
                    for file in folder(result).glob("*"):
                        result.elements.append(pickler.loads(file.read_bytes()))
                        file.unlink()
            release(pipeline)

        with (
            mock.patch.object(ptransform._MaterializedResult, "__reduce__", reduced),  # noqa: SLF001
            mock.patch.object(ptransform, "_release_materialized_pipeline", fetch),
        ):
            yield
