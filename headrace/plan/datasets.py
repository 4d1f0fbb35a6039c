"""How data is named outside: by OpenLineage's rules for namespaces and names.

Takes addresses, gives frozen names. Two pipelines that touch the same data name it alike, and that
is all that a name is for; what has no name in these rules has none here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from posixpath import dirname

#: What makes a path a pattern: Beam's and Spark's wildcards, and the shards of Beam's writes.
_WILD = re.compile(r"[*?\[{]|%\(")
#: Schemes of the same store, by the one that the rules have.
_SAME = {"s3a": "s3", "s3n": "s3", "abfs": "abfss", "wasb": "wasbs"}


@dataclass(frozen=True, slots=True, order=True)
class Dataset:
    """Data by its name."""

    namespace: str
    name: str
    table: str = ""  # what a catalog calls it; empty: it is in none


@dataclass(frozen=True, slots=True, kw_only=True)
class Touched:
    """What a pipeline reads and writes, as far as it is known by name."""

    inputs: tuple[Dataset, ...] = ()
    outputs: tuple[Dataset, ...] = ()

    def __add__(self, other: Touched) -> Touched:
        return Touched(
            inputs=tuple(dict.fromkeys((*self.inputs, *other.inputs))),
            outputs=tuple(dict.fromkeys((*self.outputs, *other.outputs))),
        )


def files_at(address: str, table: str = "") -> Dataset | None:
    """Name files by their absolute path or URI; a pattern stands for the folder it looks into.

    >>> files_at("s3a://lake/clicks/part-*.parquet")
    Dataset(namespace='s3://lake', name='clicks', table='')
    >>> files_at("/data/clicks.csv")
    Dataset(namespace='file', name='/data/clicks.csv', table='')
    """
    scheme, rest = _scheme_of(address)
    if wild := _WILD.search(rest):
        rest = dirname(rest[: wild.start()])
    if scheme in ("", "file"):
        path = "/" + rest.lstrip("/")
        return Dataset("file", path.rstrip("/") or "/", table)
    if scheme == "dbfs":  # its namespace is the workspace, which a path does not tell
        return None
    authority, _, path = rest.lstrip("/").partition("/")
    user, at, host = authority.rpartition("@")
    # Who is let in is no part of a name, and may be a secret; of Azure's stores it is a container.
    authority = f"{user.partition(':')[0]}{at}{host}" if scheme in ("abfss", "wasbs") else host
    if not authority:
        return None
    path = path.rstrip("/")
    if scheme in ("hdfs", "abfss", "wasbs"):
        return Dataset(f"{scheme}://{authority}", f"/{path}", table)
    return Dataset(f"{scheme}://{authority}", path or "/", table)


def _scheme_of(address: str) -> tuple[str, str]:
    found = re.match(r"([a-zA-Z][a-zA-Z0-9+.-]*):(?=/)", address)
    if found is None:
        return "", address
    scheme = found[1].lower()
    return _SAME.get(scheme, scheme), address[found.end() :]


def kafka_topics(servers: str, topics: Iterable[str]) -> tuple[Dataset, ...]:
    """Name topics; of several servers of a cluster, the first stands for all.

    >>> kafka_topics("broker1:9092,broker2:9092", ["clicks"])
    (Dataset(namespace='kafka://broker1:9092', name='clicks', table=''),)
    """
    first = servers.partition(",")[0].strip()
    first = first if ":" in first else f"{first}:9092"
    return tuple(Dataset(f"kafka://{first}", topic) for topic in topics)


def kafka_of(servers: str, asked: Mapping[str, str]) -> tuple[Dataset, ...]:
    """Name the topics that options of Spark's connector ask for; those of a pattern have no name.

    >>> kafka_of("b:1", {"subscribe": "a, b"}) == kafka_of("b:1", {"assign": '{"a":[0],"b":[1]}'})
    True
    """
    topics: list[str] = []
    if listed := asked.get("subscribe"):
        topics = [topic.strip() for topic in listed.split(",")]
    elif assigned := asked.get("assign"):
        topics = list(json.loads(assigned))
    return kafka_topics(servers, topics) if servers else ()
