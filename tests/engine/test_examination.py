"""What `headrace doctor` says of a session, its workers, its settings, and a checkpoint."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headrace.cli.main import main
from headrace.engine.examination import Looked, Verdict, examine, of_worker
from headrace.engine.spark.packages_here import installed_here
from headrace.engine.spark.probe import Answer, advice_on_reuse, expected_here
from tests.s3 import S3, served

HERE = installed_here()
FITS = Answer(
    host="m1", folder="/work/app-1/0", python=expected_here().python, executable="/opt/python",
    distributions=HERE, beam=expected_here().beam, pyarrow=HERE["pyarrow"],
    headrace=expected_here().headrace,
)  # fmt: skip


def told(answer: Answer) -> list[tuple[Verdict, str]]:
    return [(found.verdict, found.found) for found in of_worker(answer, HERE)]


def by_name(found: list[Looked]) -> dict[str, Looked]:
    return {finding.what: finding for finding in found}


def test_a_worker_that_fits_is_told_with_its_versions() -> None:
    ((verdict, found),) = told(FITS)
    assert verdict is Verdict.FINE
    assert f"apache-beam {HERE['apache-beam']}" in found and "/opt/python" in found


def test_a_worker_without_headrace_is_fine_since_it_is_sent() -> None:
    ((verdict, found),) = told(replace(FITS, headrace=None))
    assert verdict is Verdict.FINE
    assert "no headrace, which is sent to it" in found


def test_a_worker_of_another_beam_is_wrong_and_the_remedy_stands_there() -> None:
    ((verdict, found),) = told(replace(FITS, beam="2.1.0"))
    assert verdict is Verdict.WRONG
    assert "apache-beam 2.1.0, the driver has" in found and "PYSPARK_PYTHON" in found


def test_packages_of_another_version_are_named_and_counted() -> None:
    eight = sorted(HERE)[:8]
    changed = {**HERE, **dict.fromkeys(eight, "0.0.7"), "only-there": "1.0"}
    _, (verdict, found) = told(replace(FITS, distributions=changed))
    assert verdict is Verdict.ADVICE
    assert f"{eight[0]} 0.0.7 (here {HERE[eight[0]]})" in found
    assert "and 2 more" in found and "only-there" not in found


def test_workers_that_die_with_their_task_are_advised_on() -> None:
    assert advice_on_reuse("true") == []
    (advice,) = advice_on_reuse("false")
    assert "Set it to true before the session starts" in advice


@pytest.mark.spark
def test_a_local_session_is_looked_at_and_nothing_is_left_behind(
    spark: Any, tmp_path: Path
) -> None:
    found = by_name(list(examine(spark, str(tmp_path / "checkpoint"))))
    assert {finding.verdict for finding in found.values()} <= {Verdict.FINE, Verdict.ADVICE}
    assert "master local[2], 2 tasks side by side" in found["session"].found
    assert "a path will do" in found["disk"].found
    last = found[f"checkpoint {tmp_path / 'checkpoint'}"]
    assert last.found.startswith("1 of 1 workers read what this process writes")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.spark
def test_a_checkpoint_that_workers_do_not_see_is_wrong(spark: Any) -> None:
    """Memory is each process's own."""
    found = by_name(list(examine(spark, "memory://doctors")))
    last = found["checkpoint memory://doctors"]
    assert last.verdict is Verdict.WRONG
    assert "do not see each other's files" in last.found
    assert "a folder that all machines mount" in last.found


@pytest.mark.spark
def test_a_checkpoint_that_cannot_be_written_from_here_is_wrong(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    last = list(examine(spark, str(tmp_path / "file")))[-1]
    assert last.verdict is Verdict.WRONG
    assert "cannot be written from here" in last.found


@pytest.mark.spark
def test_the_doctor_says_it_line_by_line_and_its_status_tells(
    spark: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", "--spark_master=local[2]"]) == 0
    said = capsys.readouterr().out
    assert "ok         session: Spark" in said and "ok         worker " in said
    assert main(["doctor", "--spark_master=local[2]", "--checkpoint=memory://more"]) == 1
    assert "WRONG      checkpoint memory://more" in capsys.readouterr().out
    spark.range(1).count()  # it was not the doctor's, and goes on


def test_a_checkpoint_without_a_session_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--checkpoint=/tmp/any"]) == 1
    assert "name one by --spark_master" in capsys.readouterr().err


@pytest.mark.spark
def test_a_store_is_asked_whether_it_keeps_two_drivers_apart(spark: Any, s3: S3) -> None:
    first, second = list(examine(spark, s3.place("doctor")))[-2:]
    assert (first.verdict, second.verdict) == (Verdict.FINE, Verdict.FINE)
    assert "a file is created only where there is none" in first.found
    assert s3.objects("doctor") == {}


@pytest.mark.spark
def test_a_store_that_passes_over_conditions_is_wrong(spark: Any) -> None:
    def careless(application: Any) -> Any:
        def answer(environ: dict[str, Any], start: Any) -> Any:
            environ.pop("HTTP_IF_NONE_MATCH", None)
            return application(environ, start)

        return answer

    with served(careless) as s3:
        found = list(examine(spark, s3.place("careless-doctor")))[-2]
    assert found.verdict is Verdict.WRONG
    assert "two drivers could not be kept apart there" in found.found
