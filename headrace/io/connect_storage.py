"""Folders and small files where a server of Spark Connect writes, seen from this process.

There is no JVM here to ask. If the server's workers run on this machine and in the same view of its
disks, a path is a path. Else only what has a scheme (object stores, HDFS) is the same place for
both, and pyarrow's file systems reach it.
"""

from __future__ import annotations

import os
import tempfile
import threading
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from headrace.errors import OptionError

#: Spark's words for S3 are not pyarrow's.
_SCHEMES = {"s3a": "s3", "s3n": "s3"}

_lock = threading.Lock()
_shared: dict[str, bool] = {}  # by session id


def is_one_machine(session: Any) -> bool:
    """Whether the server runs its tasks in its own process: all workers are on its machine."""
    master = str(session.conf.get("spark.master", "") or "")
    return master == "local" or master.startswith("local[")


def shares_disk(session: Any) -> bool:
    """Whether a path without a scheme means the same file here, on the server and on its workers.

    Asked once for a session: a file made here must be found by Spark's reader under its bare path,
    and a worker must see the disks of this machine as this process does.
    """
    key = str(session.session_id)
    with _lock:
        if key not in _shared:
            _shared[key] = is_one_machine(session) and _same_disks(session)
        return _shared[key]


def view_of_disks() -> str:
    """Name this machine, its present start and the view of its disks; empty: not known."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as boot:
            return f"{boot.read().strip()} {os.readlink('/proc/self/ns/mnt')}"
    except OSError:
        return ""


def _same_disks(session: Any) -> bool:
    here = view_of_disks()
    if not here:
        return False

    def look(batches: Iterable[Any]) -> Iterator[Any]:
        # Named in here so that the function travels by value: workers may not have headrace.
        import os

        import pyarrow as pa

        for _ in batches:
            pass
        try:
            with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as boot:
                seen = f"{boot.read().strip()} {os.readlink('/proc/self/ns/mnt')}"
        except OSError:
            seen = ""
        yield pa.RecordBatch.from_pydict({"seen": pa.array([seen], pa.string())})

    (row,) = session.range(0, 1, 1, 1).mapInArrow(look, "seen string").collect()
    if row.seen != here:
        return False
    token = uuid.uuid4().hex
    with tempfile.TemporaryDirectory(prefix="headrace-look-") as folder:
        file = Path(folder) / "token"
        file.write_text(token, encoding="ascii")
        os.chmod(folder, 0o755)  # the server may run as another user
        try:
            return [row.value for row in session.read.text(str(file)).collect()] == [token]
        except Exception:  # noqa: BLE001 (any error of Spark's: it does not find the file)
            return False


class ArrowStorage:
    """What pyarrow's file systems reach by a URI.

    Args:
        path: a URI on the file system that is meant.
    """

    atomic_moves = False  # object stores copy, and nobody says which others do not

    def __init__(self, path: str) -> None:
        from pyarrow import fs

        self._fs = fs
        self._head, _ = _split(path)
        scheme = self._head.partition("://")[0]
        known = f"{_SCHEMES.get(scheme, scheme)}://{self._head.partition('://')[2]}"
        try:
            self._system, self._root = fs.FileSystem.from_uri(known)
        except Exception as error:
            msg = (
                f"{path}: this process has no way to a file system of {scheme}:// ({error}), and "
                "a session of Spark Connect lends it none. Write with "
                "WriteToSpark(function=...) or to a table, or use a scheme that pyarrow knows "
                "(s3, gs, abfs, hdfs)"
            )
            raise OptionError(msg) from error

    def exists(self, path: str) -> bool:
        """Whether there is such a file or folder."""
        return self._kind(path) is not self._fs.FileType.NotFound

    def is_folder(self, path: str) -> bool:
        """Whether there is such a folder."""
        return self._kind(path) is self._fs.FileType.Directory

    def names(self, path: str) -> list[str]:
        """Give the names in a folder, sorted; none if there is no such folder."""
        chosen = self._fs.FileSelector(self._path(path), allow_not_found=True)
        return sorted(found.base_name for found in self._system.get_file_info(chosen))

    def make_folder(self, path: str) -> None:
        """Make a folder, and those above it, unless it is there."""
        self._system.create_dir(self._path(path), recursive=True)

    def move(self, source: str, target: str) -> None:
        """Give a file or folder another name, not at once."""
        if not self.exists(source):
            raise FileNotFoundError(source)
        self._system.move(self._path(source), self._path(target))

    def remove(self, path: str) -> None:
        """Remove a file, or a folder with all that is below it; nothing there is no mistake."""
        kind = self._kind(path)
        if kind is self._fs.FileType.Directory:
            self._system.delete_dir(self._path(path))
        elif kind is not self._fs.FileType.NotFound:
            self._system.delete_file(self._path(path))

    def read(self, path: str) -> bytes:
        """Read a small file; FileNotFoundError if there is none."""
        with self._system.open_input_stream(self._path(path)) as stream:
            return bytes(stream.read())

    def write(self, path: str, data: bytes) -> None:
        """Write a small file; on an object store it appears whole."""
        with self._system.open_output_stream(self._path(path)) as stream:
            stream.write(data)

    def _kind(self, path: str) -> Any:
        return self._system.get_file_info(self._path(path)).type

    def _path(self, path: str) -> str:
        head, rest = _split(path)
        if head != self._head:
            msg = f"{path} is not on {self._head}"
            raise ValueError(msg)
        return f"{self._root.rstrip('/')}/{rest}".rstrip("/")


def _split(path: str) -> tuple[str, str]:
    """Split a URI into scheme with authority, and the path below it.

    >>> _split("s3a://bucket/a/b")
    ('s3a://bucket', 'a/b')
    """
    scheme, _, rest = path.partition("://")
    authority, _, below = rest.partition("/")
    return f"{scheme}://{authority}", below.strip("/")


def no_way_to(path: str) -> OptionError:
    """Say that a path of the server's is none of this process."""
    return OptionError(
        f"{path}: the server of this Spark Connect session has other disks than this machine, so "
        "the folders of epochs could not be put in place from here. Give a URI that both reach "
        "(s3://, gs://, abfss://, hdfs://), or use WriteToSpark(table=...) or "
        "WriteToSpark(function=...)"
    )
