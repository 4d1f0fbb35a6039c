"""Keeps Spark's classes as the JVM has loaded and checked them, so that the next JVM starts sooner.

Java maps such an archive into memory instead of reading some ten thousand classes out of jars. It
belongs to one Java and one set of jars, and Java itself looks whether they are the same: an archive
that does not fit is not used. It is as good as code, so it lies in a folder of this user alone.
`archive_options` says what a JVM that is about to start is told; `make_archive` makes one, by a
small run of Spark in a process of its own.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import SparkContext
from pyspark.find_spark_home import _find_spark_home
from pyspark.sql import SparkSession

from headrace.errors import SessionError, StateError
from headrace.state.private import private_folder

#: How a JVM is told to use an archive, and to leave one when it ends.
USE, LEAVE = "-XX:SharedArchiveFile=", "-XX:ArchiveClassesAtExit="
#: An archive that does not fit is worth no word: nothing is lost but a second.
_SILENT = "-Xlog:cds=off -Xlog:cds+dynamic=off"
#: The file beside an archive that says whose jars it is of.
JARS = "jars"
#: A start of Spark, a stream of three rows and the archive: some 20 s, and more on a busy machine.
LIMIT_SECONDS = 300.0


def archive_options(java: str, asked: Mapping[str, str]) -> str:
    """Give the options that make a JVM use the archive; none if there is none that may be used.

    Args:
        java: what Java says of its version.
        asked: what a user asks of the JVM himself, by where he has said so.
    """
    if any(USE in text or LEAVE in text or "-Xshare" in text for text in asked.values()):
        return ""
    path = archive_path(java)
    if " " in str(path):  # Spark takes options apart at blanks
        return ""
    try:
        if not path.is_file():
            return ""
        private_folder(cache_folder())
    except (OSError, StateError):
        return ""
    return f"{USE}{path} {_SILENT}"


def archive_path(java: str) -> Path:
    """Give the file of the archive for a Java and the Spark of this Python."""
    jars = _jars()
    facts = [java]
    with os.scandir(jars) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            found = entry.stat()
            facts.append(f"{entry.name} {found.st_size} {found.st_mtime_ns}")
    return cache_folder() / f"spark-{_digest(str(jars))}" / f"{_digest(*facts)}.jsa"


def _jars() -> Path:
    return Path(_find_spark_home()).resolve() / "jars"


def _digest(*facts: str) -> str:
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]


def cache_folder() -> Path:
    """Give the folder for code that can be made or fetched again, of this user alone.

    It lies below the one for all that headrace keeps, which anybody's `mkdir` may have made with a
    mode that lets others look: no harm there, but not good enough for code.
    """
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "headrace" / "code"


def make_archive(java: str) -> Path:
    """Make the archive of this Java and this Spark; remove those of Sparks that are gone.

    Raises:
        SessionError: it could not be made; nothing else depends on it.
    """
    path = archive_path(java)
    try:
        private_folder(cache_folder())
        path.parent.mkdir(exist_ok=True)
        (path.parent / JARS).write_text(str(_jars()), encoding="utf-8")
        folder = Path(tempfile.mkdtemp(prefix=".making-", dir=path.parent))
    except (OSError, StateError) as error:
        msg = f"no archive of Spark's classes can be kept in {cache_folder()}: {error}"
        raise SessionError(msg) from error
    try:
        left = folder / "classes.jsa"
        done = subprocess.run(
            [sys.executable, "-m", __spec__.name, str(left)],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
            timeout=LIMIT_SECONDS, cwd=folder,
        )
        if done.returncode or not left.is_file():
            msg = f"Java left no archive of Spark's classes: {done.stderr.strip()[-2000:]}"
            raise SessionError(msg)
        os.replace(left, path)
    except subprocess.TimeoutExpired as error:
        msg = f"no archive of Spark's classes was left within {LIMIT_SECONDS:.0f} s"
        raise SessionError(msg) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    _sweep(path)
    return path


def _sweep(path: Path) -> None:
    """Remove archives of another Java or other jars, and those of folders that are gone."""
    for other in path.parent.glob("*.jsa"):
        if other != path:
            other.unlink(missing_ok=True)
    for note in cache_folder().glob(f"spark-*/{JARS}"):
        with suppress(OSError):
            if not os.path.isdir(note.read_text(encoding="utf-8")):
                shutil.rmtree(note.parent, ignore_errors=True)


def train(session: Any, folder: Path) -> None:
    """Let Spark do once what runs of ours make it do, so that it loads the classes for it."""

    def same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    def write(frame: Any, number: int) -> None:
        moved = frame.mapInArrow(same, "id long, shard int").repartitionById(2, "shard")
        moved.mapInArrow(same, "id long, shard int").write.parquet(f"{folder}/out/{number}")

    columns = "id long, shard int"
    rows = session.createDataFrame([(number, number % 2) for number in range(3)], columns)
    rows.write.parquet(f"{folder}/in")
    stream = session.readStream.schema(rows.schema).parquet(f"{folder}/in")
    query = (
        stream.writeStream.foreachBatch(write).trigger(availableNow=True)
        .option("checkpointLocation", f"{folder}/log").start()
    )
    query.awaitTermination()
    session.read.parquet(f"{folder}/out/0").groupBy("shard").count().collect()


def _main(left: str) -> None:
    folder = Path(left).parent
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master("local[2]").appName("headrace class archive")
        .config("spark.driver.extraJavaOptions", f"{LEAVE}{left} -XX:TieredStopAtLevel=1")
        .config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.local.dir", str(folder)).config("spark.log.level", "ERROR")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .getOrCreate()
    )
    train(session, folder)
    gateway = SparkContext._gateway  # noqa: SLF001 (the JVM's end is waited for: it writes then)
    session.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()


if __name__ == "__main__":
    _main(sys.argv[1])
