"""Jars that are fetched once: pinned, checked, and given to sessions that need them."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from headrace.cli.main import main
from headrace.engine.spark import jars
from headrace.engine.spark.jars import Jar, fetch, fetched, with_fetched
from headrace.engine.spark.settings import Wish
from headrace.errors import OptionError, SessionError


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A Maven repository of two small files, and a cache of this test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    made = []
    for artifact in ("spark-sql-kafka", "clients"):
        data = artifact.encode()
        jar = Jar("org.example", artifact, "1.0", hashlib.sha256(data).hexdigest())
        path = tmp_path / "repository" / "org" / "example" / artifact / "1.0" / jar.name
        path.parent.mkdir(parents=True)
        path.write_bytes(data)
        made.append(jar)
    monkeypatch.setattr(jars, "BUNDLES", {"kafka": tuple(made)})
    return (tmp_path / "repository").as_uri()


def test_jars_are_fetched_once_and_checked_each_time(
    repository: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fetched("kafka") == ()
    found = fetch("kafka", repository)
    assert [path.read_bytes() for path in found] == [b"spark-sql-kafka", b"clients"]
    assert fetched("kafka") == found
    assert capsys.readouterr().out.count("fetched") == 2
    fetch("kafka", "file:///nowhere")  # nothing is missing
    found[1].write_bytes(b"changed")
    assert fetched("kafka") == ()
    assert fetch("kafka", repository) == found


def test_another_file_of_the_same_name_is_refused_and_not_kept(
    repository: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (first, second) = jars.BUNDLES["kafka"]
    wrong = Jar(second.group, second.artifact, second.version, "0" * 64)
    monkeypatch.setattr(jars, "BUNDLES", {"kafka": (first, wrong)})
    with pytest.raises(SessionError, match="the one that is pinned. It is not used"):
        fetch("kafka", repository)
    assert not (jars.folder_of("kafka") / second.name).exists()
    assert fetched("kafka") == ()


def test_a_repository_without_the_jar_is_named(repository: str) -> None:
    with pytest.raises(SessionError, match="org.example:spark-sql-kafka:1.0 could not be fetched"):
        fetch("kafka", "file:///nowhere")
    with pytest.raises(OptionError, match="begins with https://"):
        fetch("kafka", "ftp://host")
    with pytest.raises(OptionError, match="there are kafka"):
        fetch("coffee", repository)


def test_without_maven_and_repository_the_remedy_is_named(
    repository: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(SessionError, match="--repository URL, or HEADRACE_MAVEN_REPOSITORY"):
        fetch("kafka")
    monkeypatch.setenv("HEADRACE_MAVEN_REPOSITORY", repository)
    assert len(fetch("kafka")) == 2


def test_a_session_gets_them_beside_its_own_and_not_where_it_brings_the_connector(
    repository: str,
) -> None:
    wish = Wish(jars=("own.jar",))
    assert with_fetched(wish, ["kafka"], {}) == wish  # not fetched yet
    files = tuple(map(str, fetch("kafka", repository)))
    assert with_fetched(wish, ["kafka"], {}).jars == ("own.jar", *files)
    assert with_fetched(wish, [], {}) == wish
    submitted = {"spark.jars": "theirs.jar"}
    assert with_fetched(Wish(), ["kafka"], submitted).settings()["spark.jars"] == ",".join(
        ["theirs.jar", *files]
    )
    by_conf = Wish(conf={"spark.jars": "c.jar"})
    assert with_fetched(by_conf, ["kafka"], {}).settings()["spark.jars"] == ",".join(
        ["c.jar", *files]
    )
    for mine in (
        Wish(jars=("spark-sql-kafka-0-10_2.13-4.2.0.jar",)),
        Wish(packages=("org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",)),
    ):
        assert with_fetched(mine, ["kafka"], {}) == mine


def test_the_doctor_says_what_is_there_and_fetches(
    repository: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor"]) == 0
    said = capsys.readouterr().out
    assert "headrace doctor --fetch kafka brings them" in said
    assert "Java" in said and "pyspark" in said
    assert main(["doctor", "--fetch", "kafka", "--repository", repository]) == 0
    said = capsys.readouterr().out
    assert "clients-1.0.jar" in said
    assert main(["doctor", "--fetch", "coffee"]) == 1
