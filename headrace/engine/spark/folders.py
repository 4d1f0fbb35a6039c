"""Where Spark keeps its own log of a streaming DataFrame, in words that Spark knows.

Spark reads and writes below the checkpoint by Hadoop's file systems, not by ours. Decides which
scheme to use there, and refuses before the first epoch what Spark could not open.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Iterator
from typing import Any

from headrace.errors import CheckpointError
from headrace.state.files import shown

#: What must be on Spark's class path for a scheme; {} stands for Hadoop's version.
_PACKAGES = {
    "s3a": "org.apache.hadoop:hadoop-aws:{}",
    "abfs": "org.apache.hadoop:hadoop-azure:{}",
    "abfss": "org.apache.hadoop:hadoop-azure:{}",
    "gs": "com.google.cloud.bigdataoss:gcs-connector:hadoop3-2.2.26",
}


def spark_folder(session: Any, folder: str) -> str:
    """Give a folder, path or URI, as Spark must be told of it.

    Hadoop's word for S3 is `s3a`; some vendors' Sparks know `s3` too, and then mean theirs by it.
    """
    scheme, mark, rest = folder.partition("://")
    if scheme.lower() != "s3" or _knows(session, scheme):
        return folder
    return f"s3a{mark}{rest}"


def see_that_spark_can_open(session: Any, location: str) -> None:
    """Refuse a checkpoint below which Spark could not keep its logs; CheckpointError says why.

    Args:
        session: the session whose settings hold for the queries.
        location: the checkpoint's path or URI.
    """
    folder = spark_folder(session, shown(location))
    scheme, mark, _ = folder.partition("://")
    if not mark:
        return
    hadoop = _hadoop(session)
    try:
        path = hadoop.fs.Path(folder)
        path.getFileSystem(_settings(session)).exists(path)
    except Exception as e:  # any error of Java's, as a Python error of py4j or of PySpark
        package = _PACKAGES.get(scheme.lower(), "").format(hadoop.util.VersionInfo.getVersion())
        raise CheckpointError(_refusal(folder, scheme, package, _said(e))) from e


def see_that_workers_see(session: Any, location: str, tasks: int) -> None:
    """Refuse a checkpoint on this machine's disk that workers do not see under the same path.

    Args:
        session: one of Spark Connect.
        location: the checkpoint's path or URI.
        tasks: how many to ask.
    """
    if "://" in location:
        return
    os.makedirs(location, exist_ok=True)
    token = os.path.join(location, f".seen-{uuid.uuid4().hex}")

    def look(batches: Iterable[Any]) -> Iterator[Any]:
        import os

        import pyarrow as pa

        for _ in batches:
            pass
        yield pa.RecordBatch.from_pydict({"seen": pa.array([os.path.exists(token)])})

    with open(token, "wb"):
        pass
    try:
        rows = session.range(0, tasks, 1, tasks).mapInArrow(look, "seen boolean").collect()
    finally:
        os.unlink(token)
    if not all(row.seen for row in rows):
        msg = (
            f"the checkpoint {location} lies on this machine, and the workers of this Spark "
            "Connect server do not see it. Give --checkpoint a folder that both have under the "
            "same path, or one in an object store (s3://, gs://, abfss://)"
        )
        raise CheckpointError(msg)


def _hadoop(session: Any) -> Any:
    return session._jvm.org.apache.hadoop  # noqa: SLF001 (PySpark has no door of its own)


def _settings(session: Any) -> Any:
    return session._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001


def _knows(session: Any, scheme: str) -> bool:
    try:
        _hadoop(session).fs.FileSystem.getFileSystemClass(scheme, _settings(session))
    except Exception:  # noqa: BLE001 (Java's, for a scheme without a file system)
        return False
    return True


def _refusal(folder: str, scheme: str, package: str, said: str) -> str:
    """Say why Spark's log cannot be there, and what to do."""
    if scheme == "az":
        remedy = "Write the checkpoint as abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/PATH"
    elif package:
        remedy = (
            f"Start Spark with `--packages {package}`, and tell it the endpoint and who you are by "
            f"its own settings (spark.hadoop.fs.*)"
        )
    else:
        remedy = f"Give Spark a Hadoop file system for {scheme}://"
    return (
        f"the pipeline reads a streaming DataFrame, whose log Spark keeps below the checkpoint, "
        f"and Spark cannot open {folder}: {said}. {remedy}; or put the checkpoint elsewhere. "
        "Pipelines whose sources are all Beam's need nothing of Spark there"
    )


def _said(error: Exception) -> str:
    """Give the first line of what Java said."""
    java = getattr(error, "java_exception", None)
    text = str(error) if java is None else str(java.toString())
    return text.partition("\n")[0]
