"""A plan that is made once and run often: fresh tasks each time, told by the job what to do."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from headrace.engine.spark.doors import Job
from headrace.engine.spark.reused_plan import FEW_ROWS, PLANNING, reused_plan
from headrace.engine.spark.session import SparkTarget, find_target

pytestmark = pytest.mark.spark

#: The property that the tasks here look at.
WORD = "headrace.test.word"


@pytest.fixture
def target(spark: Any) -> SparkTarget:
    return find_target(spark)


def two_stages(session: Any) -> Any:
    """Both shards send both shards the word of their job; who gets it adds the word of its own."""

    def send(batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow as pa
        from pyspark import TaskContext

        for _ in batches:
            pass
        context = TaskContext.get()
        word = str(context.getLocalProperty(WORD))
        if word == "fail":
            raise ValueError(word)
        shards = pa.array([0, 1], pa.int32())
        yield pa.RecordBatch.from_pydict({"shard": shards, "word": pa.array([word, word])})

    def take(batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow as pa
        from pyspark import TaskContext

        context = TaskContext.get()
        own = str(context.getLocalProperty(WORD))
        for batch in batches:
            words = [f"{word}, {own}" for word in batch.column("word").to_pylist()]
            yield pa.RecordBatch.from_pydict({
                "shard": batch.column("shard"), "word": pa.array(words, pa.string())
            })

    rows = session.range(0, 2, 1, 2).mapInArrow(send, "shard int, word string")
    return rows.repartitionById(2, "shard").mapInArrow(take, "shard int, word string")


def planned(target: SparkTarget) -> Job:
    job = reused_plan(target.session, lambda: two_stages(target.session))
    assert job is not None
    return job


def said(word: str) -> list[tuple[int, str]]:
    return [(shard, f"{word}, {word}") for shard in (0, 0, 1, 1)]


def test_each_run_has_tasks_of_its_own_on_both_sides_of_an_exchange(target: SparkTarget) -> None:
    """A plan that found the shuffle files of its first run would hand out the first word again."""
    job = planned(target)
    for word in ("one", "two", "three"):
        assert sorted(map(tuple, job({WORD: word}))) == said(word)


def test_jobs_that_follow_do_not_see_the_properties_of_a_run(target: SparkTarget) -> None:
    planned(target)({WORD: "one"})
    found = two_stages(target.session).collect()
    assert sorted(map(tuple, found)) == said("None")


def test_a_plan_runs_again_after_its_tasks_have_failed(target: SparkTarget) -> None:
    job = planned(target)
    with pytest.raises(Exception, match="ValueError: fail"):
        job({WORD: "fail"})
    assert sorted(map(tuple, job({WORD: "two"}))) == said("two")
    found = two_stages(target.session).collect()
    assert sorted(map(tuple, found)) == said("None")


def test_a_plan_is_made_and_run_in_a_thread_that_has_no_session(target: SparkTarget) -> None:
    """The loop of a stream has a thread of its own; nothing is active there, before and after."""
    from pyspark import InheritableThread

    found: list[Any] = []

    def work() -> None:
        jvm = target.session._jvm
        jvm.org.apache.spark.sql.classic.SparkSession.clearActiveSession()
        found.extend(sorted(map(tuple, planned(target)({WORD: "one"}))))
        active = jvm.org.apache.spark.sql.classic.SparkSession.getActiveSession()
        found.append(active.isDefined())

    thread: threading.Thread = InheritableThread(target=work)
    thread.start()
    thread.join()
    assert found == [*said("one"), False]


def test_settings_for_planning_do_not_stay(target: SparkTarget) -> None:
    before = {name: target.session.conf.get(name) for name in PLANNING}
    planned(target)
    assert {name: target.session.conf.get(name) for name in PLANNING} == before


def test_what_cannot_be_planned_is_not_prepared(target: SparkTarget) -> None:
    def build() -> Any:
        return object()  # no DataFrame of the classic kind: it has no plan in the JVM

    assert reused_plan(target.session, build) is None


@pytest.mark.parametrize("count", [0, 1, FEW_ROWS, FEW_ROWS + 1])
def test_rows_come_whole_however_many_there_are(target: SparkTarget, count: int) -> None:
    def build() -> Any:
        return target.session.range(0, count, 1, 2).selectExpr(
            "id", "CAST(repeat(CAST(id AS STRING), 5000) AS BINARY) AS text"
        )

    job = reused_plan(target.session, build)
    assert job is not None
    found = sorted((number, bytes(text)) for number, text in job({}))
    assert found == [(number, str(number).encode() * 5000) for number in range(count)]
