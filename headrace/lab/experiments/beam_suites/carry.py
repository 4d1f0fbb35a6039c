"""Brings back what functions leave in the memory of their own process.

Beam's tests have two habits that need one process for all. A list piped into a transform keeps its
results beside the pipeline, and some test classes have a list `all_records` for a DoFn to fill.
Here the elements travel through files; a test sees them in the list it looks at. Knows nothing of
runners or pytest.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import tempfile
import time
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from apache_beam.internal import pickler
from apache_beam.transforms import ptransform

RECORDS = "all_records"


class Carrier:
    """What stands for a list where elements are made: each is written to a file."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)

    def append(self, element: Any) -> None:
        """Keep an element; the names of files are in the order in which they came."""
        self._folder.mkdir(parents=True, exist_ok=True)
        name = f"{time.time_ns():020}-{uuid.uuid4().hex}"
        (self._folder / f"{name}.part").write_bytes(pickler.dumps(element))
        (self._folder / f"{name}.part").rename(self._folder / name)


def fetch(folder: Path) -> list[Any]:
    """Give what was kept since the last time, in order."""
    found = sorted(file for file in folder.glob("*") if file.suffix != ".part")
    elements = [pickler.loads(file.read_bytes()) for file in found]
    for file in found:
        file.unlink()
    return elements


class Result:
    """What stands for the result of a list piped into a transform, where it is made."""

    def __init__(self, folder: str) -> None:
        self.elements = Carrier(folder)


@contextlib.contextmanager
def carried_results() -> Iterator[None]:
    """Results of transforms without a pipeline object come back from wherever they are made."""
    release = ptransform._release_materialized_pipeline  # noqa: SLF001 (there is no other door)
    results = ptransform._pipeline_materialization_cache  # noqa: SLF001
    with tempfile.TemporaryDirectory(prefix="headrace-eager-") as root:

        def folder(result: Any) -> Path:
            return Path(root) / f"{result._pipeline_id}-{result._result_id}"  # noqa: SLF001

        def reduced(self: Any) -> Any:
            return Result, (str(folder(self)),)

        def fetch_all(pipeline: Any) -> None:
            for (_, owner), found in results.items():
                for result in found.values() if owner == id(pipeline) else ():
                    result.elements.extend(fetch(folder(result)))
            release(pipeline)

        with (
            mock.patch.object(ptransform._MaterializedResult, "__reduce__", reduced),  # noqa: SLF001
            mock.patch.object(ptransform, "_release_materialized_pipeline", fetch_all),
        ):
            yield


class Elsewhere:
    """What stands for a test class where its DoFns run: all but its records is the class's own."""

    def __init__(self, folder: str, module: str, name: str) -> None:
        self.__dict__.update({RECORDS: Carrier(folder), "module": module, "name": name})

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(getattr(importlib.import_module(self.module), self.name), name)


class Here:
    """What stands for a test class in its module: its records hold also those from elsewhere."""

    def __init__(self, theirs: type, folder: Path) -> None:
        self.__dict__.update(theirs=theirs, folder=folder)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.theirs, name)
        if name == RECORDS:
            found.extend(fetch(self.folder))
        return found

    def __setattr__(self, name: str, value: Any) -> None:
        if name == RECORDS:
            fetch(self.folder)  # those of the test before
        setattr(self.theirs, name, value)

    def __reduce__(self) -> Any:
        return Elsewhere, (str(self.folder), self.theirs.__module__, self.theirs.__name__)


@contextlib.contextmanager
def carried_records(module: Any, classes: Iterable[type]) -> Iterator[None]:
    """Records of these test classes of a module come back from wherever they are made."""
    with contextlib.ExitStack() as stack:
        root = stack.enter_context(tempfile.TemporaryDirectory(prefix="headrace-records-"))
        for theirs in classes:
            name = theirs.__name__
            if getattr(module, name, None) is theirs and _keeps_records(module, name):
                here = Here(theirs, Path(root) / name)
                stack.enter_context(mock.patch.object(module, name, here))
        yield


def _keeps_records(module: Any, name: str) -> bool:
    """Whether a module's text speaks of the class's records; of generated classes there is none."""
    return f"{name}.{RECORDS}" in inspect.getsource(module)
