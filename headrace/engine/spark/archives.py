"""Puts Python packages into zips that executors can import, and hands them to Spark.

Takes wheels or headrace's own folder, gives files whose names come from their content: the same
code has the same name, so nothing is sent twice and nothing is mistaken for something else.
"""

from __future__ import annotations

import functools
import hashlib
import io
import threading
import zipfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from headrace.engine.leftovers import own_folder
from headrace.errors import PackagingError

#: The earliest time a zip can hold; a real one would make equal code look different.
ZIP_TIME = (1980, 1, 1, 0, 0, 0)
#: What an interpreter cannot import out of a zip.
COMPILED = (".so", ".pyd", ".dylib", ".dll")

_lock = threading.Lock()
#: (application, top-level module) -> name of the archive that brought it.
_shipped: dict[tuple[str, str], str] = {}


@functools.cache
def workshop() -> Path:
    """Give this process's folder for archives; Spark serves them from it until the process ends."""
    return own_folder("code")


def write_zip(prefix: str, files: Mapping[str, bytes], folder: Path) -> Path:
    """Write a zip that depends on nothing but its content; give its path."""
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        # Python finds a namespace package in a zip only if its folder has an entry of its own.
        parents = {str(up) + "/" for name in files for up in Path(name).parents if up.name}
        for name in sorted(parents):
            archive.writestr(zipfile.ZipInfo(name, ZIP_TIME), b"")
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, ZIP_TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, files[name])
    digest = hashlib.sha256(held.getvalue()).hexdigest()[:16]
    path = folder / f"{prefix}-{digest}.zip"
    path.write_bytes(held.getvalue())
    return path


def wheel_files(wheel: Path) -> dict[str, bytes]:
    """Give what a wheel would install beside other modules; refuse compiled code."""
    files: dict[str, bytes] = {}
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.endswith("/"):
                continue
            if name.endswith(COMPILED) or ".so." in name:
                msg = (
                    f"the package {wheel.name.split('-')[0]} has compiled code ({name}), which "
                    "cannot be sent to the executors as a file. Install it in the executors' "
                    "Python (see PYSPARK_PYTHON and spark.archives in docs/guide/cluster.md) and "
                    "it is left out of what is sent."
                )
                raise PackagingError(msg)
            target = name
            top, _, rest = name.partition("/")
            if top.endswith(".data"):
                kind, _, target = rest.partition("/")
                if kind not in ("purelib", "platlib"):
                    continue  # scripts and headers: nothing a task could import
            files[target] = archive.read(name)
    return files


def top_modules(names: Iterable[str]) -> frozenset[str]:
    """Give the modules that a zip with these files adds at the top level."""
    tops = set()
    for name in names:
        top, slash, _ = name.partition("/")
        if slash and not top.endswith((".dist-info", ".egg-info")):
            tops.add(top)
        elif not slash and top.endswith(".py"):
            tops.add(top.removesuffix(".py"))
    return frozenset(tops)


@functools.cache
def own_package() -> Path:
    """Give headrace itself as a zip."""
    root = Path(__file__).parents[2]
    files = {
        f"{root.name}/{path.relative_to(root).as_posix()}": path.read_bytes()
        for path in root.rglob("*")
        if path.suffix in (".py", ".typed")
    }
    return write_zip(root.name, files, workshop())


def ship(application: str, add: Callable[[str], object], archive: Path) -> None:
    """Make Spark bring a zip to every worker and put it on their Pythons' path, once.

    Args:
        application: names who keeps what was sent: an application, or a session of Connect.
        add: hands a path to Spark.
        archive: the zip.
    """
    with zipfile.ZipFile(archive) as opened:
        tops = top_modules(name for name in opened.namelist() if not name.endswith("/"))
    with _lock:
        held = {top: _shipped.get((application, top)) for top in sorted(tops)}
        if all(name == archive.name for name in held.values()):
            return
        changed = [top for top, name in held.items() if name not in (None, archive.name)]
        if changed:
            msg = (
                f"this Spark session has already been sent another version of {changed[0]}, and "
                "Python workers that live on keep it in memory. Stop the session and run again."
            )
            raise PackagingError(msg)
        add(str(archive))
        _shipped.update({(application, top): archive.name for top in tops})
