"""Names of data, held against OpenLineage's own helpers for names."""

from __future__ import annotations

import pytest
from openlineage.client.naming import dataset as theirs

from headrace.plan.datasets import Dataset, Touched, files_at, kafka_of, kafka_topics


@pytest.mark.parametrize(
    ("address", "naming"),
    [
        ("s3://lake/a/b", theirs.S3("lake", "a/b")),
        ("s3a://lake/a/b/", theirs.S3("lake", "a/b")),
        ("gs://lake/a/b", theirs.GCS("lake", "a/b")),
        ("hdfs://node:8020/a/b", theirs.HDFS("node", "8020", "/a/b")),
        ("s3a://AKIA:secret@lake/a/b", theirs.S3("lake", "a/b")),
        ("hdfs://me:secret@node:8020/a/b", theirs.HDFS("node", "8020", "/a/b")),
        ("abfss://box@lake.dfs.core.windows.net/a", theirs.ABFSS("box", "lake", "/a")),
        ("file:/a/b", theirs.LocalFileSystem("/a/b")),
        ("file:///a/b", theirs.LocalFileSystem("/a/b")),
        ("/a/b/part-*.csv", theirs.LocalFileSystem("/a/b")),
        ("/a/b-%(shard_num)05d-of-%(num_shards)05d", theirs.LocalFileSystem("/a")),
        ("/a/b.csv", theirs.LocalFileSystem("/a/b.csv")),
    ],
)
def test_files_are_named_as_openlineage_names_them(
    address: str, naming: theirs.DatasetNaming
) -> None:
    assert files_at(address) == Dataset(naming.get_namespace(), naming.get_name())


def test_a_topic_is_named_as_openlineage_names_it() -> None:
    naming = theirs.Kafka("broker", "9092", "clicks")
    wanted = (Dataset(naming.get_namespace(), naming.get_name()),)
    assert kafka_topics("broker:9092,other:9092", ["clicks"]) == wanted
    assert kafka_of("broker", {"subscribe": "clicks"}) == wanted


def test_what_has_no_name_gets_none() -> None:
    assert files_at("dbfs:/a/b") is None
    assert kafka_of("broker:9092", {"subscribePattern": "click.*"}) == ()


def test_what_is_touched_twice_is_named_once() -> None:
    a, b = Dataset("file", "/a"), Dataset("file", "/b")
    assert Touched(inputs=(a,)) + Touched(inputs=(b, a), outputs=(b,)) == Touched(
        inputs=(a, b), outputs=(b,)
    )
