"""The reference answers that are shipped, how they are made, and what they notice."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from headrace.cli import run as run_command
from headrace.cli.main import main
from headrace.lab import reference as shipped
from headrace.lab.catalog import CATALOG
from headrace.lab.ending import Ending
from headrace.lab.experiments.reference import agree
from headrace.lab.experiments.reference.asked import Answer, Asked, answer
from headrace.lab.experiments.reference.command import HOME, modes_of, path_of
from headrace.lab.parameters import read_settings
from headrace.lab.reference import (
    SOME,
    WHOLE,
    Reference,
    digest_of,
    from_text,
    lines_of,
    reference_for,
    reference_of,
    texts_of,
    to_text,
)
from headrace.lab.run import RunReport, expected, run_workload
from headrace.lab.systems.choose import SYSTEMS, choose
from headrace.lab.systems.system import Request
from headrace.lab.workload import Mode, Row, Workload, all_rows
from tests.lab import toy

EVERY = [workload for suite in CATALOG.suites for workload in CATALOG.of_suite(suite)]
#: By hand: 0 1 2 0 1 2 ..., one a second, a hundred in ten windows; every third window has one 0,
#: one 1 or one 2 more than three.
TOYS = [
    (1_600_000_000 + 10 * window, value, 4 if window % 3 == value else 3)
    for window, value in ((window, value) for window in range(10) for value in (0, 1, 2))
]


def names(workloads: list[Workload]) -> list[str]:
    return [workload.full_name for workload in workloads]


def reference_that_is_there(workload: Workload) -> Reference:
    found = reference_of(workload)
    assert found is not None, f"headrace lab run reference {workload.suite}:{workload.name}"
    return found


# What is shipped


@pytest.mark.parametrize("workload", EVERY, ids=names(EVERY))
def test_every_workload_has_a_reference_at_its_defaults_that_two_systems_gave(
    workload: Workload,
) -> None:
    found = reference_that_is_there(workload)
    defaults = workload.settings()
    assert found.workload == workload.full_name
    assert found.settings == texts_of(defaults), "a default has changed: make the reference anew"
    assert read_settings(workload.settings, found.settings) == defaults
    assert found.events == workload.generator(defaults).events
    systems = {run.system for run in found.agreed}
    assert len(systems) >= 2
    assert systems | {run.system for run in found.left_out} <= set(SYSTEMS)
    assert all(run.engine for run in found.agreed) and all(run.reason for run in found.left_out)


def test_no_reference_is_left_of_a_workload_that_is_gone() -> None:
    files = {path.relative_to(HOME) for path in HOME.rglob("*.json")}
    assert files == {path_of(workload).relative_to(HOME) for workload in EVERY}


def test_only_the_join_by_arrival_has_a_reference_without_rows() -> None:
    """What meets there depends on the clock: a right answer has nothing to be compared."""
    empty = [w.full_name for w in EVERY if not reference_that_is_there(w).rows]
    assert empty == ["windowed join-by-arrival"]


#: Small answers of quick oracles; each takes some tenths of a second.
QUICK = [workload for workload in EVERY if (found := reference_of(workload)) and found.rows < 2000]


@pytest.mark.parametrize("workload", QUICK, ids=names(QUICK))
def test_the_oracle_still_gives_the_reference(workload: Workload, tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    found = reference_that_is_there(workload)
    request = Request(
        workload=workload, settings=workload.settings(), mode=Mode.BATCH, folder=tmp_path
    )
    rows = expected(request)
    assert lines_of(rows, workload.rule)[: len(found.shown)] == list(found.shown)
    compared = found.compare(rows, workload.rule)
    assert compared.same and compared.rows == found.rows


def test_at_least_ten_answers_are_computed_again() -> None:
    assert len(QUICK) >= 10


# Digests


def test_the_digest_is_that_of_sorted_lines_of_json() -> None:
    rows: list[Row] = [(2, "é"), (10, "a"), (2, "é")]
    text = '[10,"a"]\n[2,"é"]\n[2,"é"]\n'
    assert lines_of(rows, all_rows) == text.splitlines()
    assert digest_of(rows, all_rows) == hashlib.sha256(text.encode()).hexdigest()


def test_equal_numbers_have_equal_digests_and_others_have_not() -> None:
    assert digest_of([(6.0, 1)], all_rows) == digest_of([(6, 1.0)], all_rows)
    assert digest_of([(6.5,)], all_rows) != digest_of([(6,)], all_rows)
    assert digest_of([(6,)], all_rows) != digest_of([("6",)], all_rows)


def test_the_rule_decides_what_is_digested() -> None:
    def first(rows: Any) -> Any:
        return all_rows((row[0],) for row in rows)

    assert digest_of([(1, "now"), (2, "now")], first) == digest_of([(2,), (1,)], all_rows)


# Files


def toy_reference(rows: list[Row] = TOYS, **changes: Any) -> Reference:
    lines = lines_of(rows, all_rows)
    said = [right(name, digest_of(rows, all_rows)) for name in ("headrace", "direct")]
    made = agree.reference(toy.WORKLOADS[0], rows, said)
    assert made.shown == tuple(lines if len(lines) <= WHOLE else lines[:SOME])
    return replace(made, **changes)


def right(system: str, digest: str) -> Answer:
    return Answer(
        system=system, mode=Mode.BATCH, ending=Ending.RIGHT, engine=f"{system} 1", digest=digest
    )


@pytest.mark.parametrize("many", [0, 1, WHOLE, WHOLE + 1])
def test_a_reference_is_read_as_it_was_written(many: int) -> None:
    found = toy_reference([(number, f"{number}é", number / 7) for number in range(many)])
    text = to_text(found)
    assert from_text(text, "toy counts") == found
    told = json.loads(text)
    assert list(told) == [field.name for field in fields(Reference)]
    assert (told["rows"], len(told["shown"])) == (many, many if many <= WHOLE else SOME)


@pytest.mark.parametrize(
    ("was", "becomes", "told"),
    [
        ('[1600000000,0,4]', '[1600000000,0,5]', "the rows of the reference are not those of its"),
        ('[1600000000,0,4],', '', "29 rows are shown, 30 should be"),
        ('"digest"', '"digits"', "digits"),
        ('"batch"', '"botch"', "botch"),
        ('{', '', "cannot be used"),
    ],
    ids=["row", "row lost", "field", "mode", "no JSON"],
)
def test_a_damaged_reference_is_noticed(was: str, becomes: str, told: str) -> None:
    text = to_text(toy_reference())
    assert was in text
    with pytest.raises(ValueError, match=f"reference answer of toy counts .*{told}"):
        from_text(text.replace(was, becomes, 1), "toy counts")


# Runs


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of references that holds one for the toy."""
    folder = tmp_path / "answers"
    (folder / "toy").mkdir(parents=True)
    (folder / "toy" / "counts.json").write_text(to_text(toy_reference()), encoding="utf-8")
    monkeypatch.setattr(shipped, "HOME", folder)
    return folder


def direct(folder: Path, workload: Workload = toy.WORKLOADS[0], **settings: Any) -> RunReport:
    request = Request(
        workload=workload, settings=toy.ToySettings(**settings), mode=Mode.BATCH, folder=folder
    )
    return run_workload(request, choose("direct"))


def test_a_run_at_the_defaults_is_held_against_the_reference(home: Path, tmp_path: Path) -> None:
    report = direct(tmp_path / "run")
    assert report.right
    assert report.lines() == [
        "right: 30 rows, as the oracle has them",
        "the shipped reference agrees: 30 rows with the same digest",
    ]


def test_a_run_that_the_reference_contradicts_is_wrong(home: Path, tmp_path: Path) -> None:
    """Even if the oracle agrees: then the events or the oracle are no longer what they were."""
    changed = [*TOYS[:-1], (TOYS[-1][0], 2, 17)]
    (home / "toy" / "counts.json").write_text(to_text(toy_reference(changed)), encoding="utf-8")
    report = direct(tmp_path / "run")
    assert report.verdict is not None and report.verdict.right and not report.right
    assert report.lines()[-1] == (
        "WRONG: 30 rows, the shipped reference has 30 and another digest"
    )


def test_another_setting_has_no_reference(home: Path, tmp_path: Path) -> None:
    assert reference_for(toy.WORKLOADS[0], toy.ToySettings()) is not None
    assert reference_for(toy.WORKLOADS[0], toy.ToySettings(loud=True)) is None
    report = direct(tmp_path / "run", events=25)
    assert report.comparison is None
    assert report.lines() == ["right: 9 rows, as the oracle has them"]


def test_a_workload_without_a_file_has_no_reference(home: Path) -> None:
    assert reference_of(toy.WORKLOADS[0]) is not None
    (home / "toy" / "counts.json").unlink()
    assert reference_of(toy.WORKLOADS[0]) is None


@pytest.fixture
def without_duckdb(monkeypatch: pytest.MonkeyPatch) -> str:
    """An oracle whose package is not installed."""
    monkeypatch.setitem(sys.modules, "duckdb", None)
    for module in ("micro", "duck"):  # loaded anew, they find no DuckDB
        monkeypatch.delitem(sys.modules, f"headrace.lab.oracle.{module}", raising=False)
    return "headrace.lab.oracle.micro:pardo_chain"


def test_without_the_oracles_packages_the_reference_judges_alone(
    home: Path, tmp_path: Path, without_duckdb: str
) -> None:
    counts, forgetful, _ = toy.WORKLOADS
    report = direct(tmp_path / "run", replace(counts, oracle=without_duckdb))
    assert report.right and report.verdict is None
    assert report.lines() == [
        "checked by the reference alone: the oracle needs duckdb, which comes with headrace[lab]",
        "the shipped reference agrees: 30 rows with the same digest",
    ]
    wrong = replace(forgetful, name="counts", oracle=without_duckdb)
    assert not direct(tmp_path / "wrong", wrong).right


def test_without_oracle_and_reference_a_run_is_not_checked(
    home: Path, tmp_path: Path, without_duckdb: str
) -> None:
    report = direct(tmp_path, replace(toy.WORKLOADS[0], oracle=without_duckdb), events=25)
    assert report.lines() == [
        "not checked: the oracle needs duckdb, which comes with headrace[lab]"
    ]


def test_the_command_line_says_that_the_reference_agrees(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(run_command, "CATALOG", toy.CATALOG)
    assert main(["run", "toy", "counts", "--system", "direct", "--progress", "off"]) == 0
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "right: 30 rows, as the oracle has them",
        "the shipped reference agrees: 30 rows with the same digest",
    ]


# Making them


def test_a_system_that_is_asked_gives_digest_and_engine() -> None:
    said = answer(toy.WORKLOADS[0], choose("direct"), Mode.BATCH, 2)
    assert (said.ending, said.digest) == (Ending.RIGHT, digest_of(TOYS, all_rows))
    assert said.engine.startswith("Beam 2.77")


def test_a_system_that_is_wrong_or_cannot_says_so() -> None:
    wrong = answer(toy.WORKLOADS[1], choose("direct"), Mode.BATCH, 2)
    assert wrong.ending is Ending.WRONG and wrong.told.startswith("WRONG: 30 rows")
    refused = answer(toy.WORKLOADS[2], choose("spark"), Mode.BATCH, 2)
    assert refused.ending is Ending.REFUSED and "Spark has no toys" in refused.told


def test_a_system_that_takes_too_long_is_given_up_and_its_process_ended() -> None:
    before = set(multiprocessing.active_children())
    asked = Asked("direct", cores=1, limit_seconds=0.05)
    said = asked.ask("nexmark", "q2", Mode.BATCH)
    assert (said.ending, said.told) == (Ending.LATE, "took more than 0.05 s")
    assert set(multiprocessing.active_children()) <= before  # those of other tests may end
    asked.close()


def test_a_system_whose_process_dies_has_failed() -> None:
    asked = Asked("no such system", cores=1, limit_seconds=60)
    said = asked.ask("nexmark", "q2", Mode.BATCH)
    assert (said.ending, said.told) == (Ending.FAILED, "its process died")


def test_two_systems_make_a_reference_and_one_does_not() -> None:
    digest = digest_of(TOYS, all_rows)
    late = Answer(system="spark", mode=Mode.BATCH, ending=Ending.LATE, told="took more than 1 s")
    twice = [right("headrace", digest), replace(right("headrace", digest), mode=Mode.STREAMING)]
    with pytest.raises(ValueError, match=r"1 of the systems agreed, 2 must: \['headrace'\]"):
        agree.reference(toy.WORKLOADS[0], TOYS, [*twice, late])
    made = agree.reference(toy.WORKLOADS[0], TOYS, [*twice, late, right("direct", digest)])
    assert [run.system for run in made.agreed] == ["headrace", "headrace", "direct"]
    assert [(run.system, run.reason) for run in made.left_out] == [("spark", "took more than 1 s")]


@pytest.mark.parametrize(
    ("other", "told"),
    [
        (Answer(system="spark", mode=Mode.BATCH, ending=Ending.WRONG, told="1 missing"),
         "spark in batch: 1 missing"),
        (right("spark", "0" * 64), "spark in batch: its rows are right, but they have another"),
    ],
    ids=["wrong", "digest"],
)
def test_one_that_disagrees_prevents_a_reference(other: Answer, told: str) -> None:
    digest = digest_of(TOYS, all_rows)
    said = [right("headrace", digest), right("direct", digest), other]
    with pytest.raises(ValueError, match=told):
        agree.reference(toy.WORKLOADS[0], TOYS, said)


def test_systems_are_asked_in_batch_and_headrace_in_streaming_too() -> None:
    counts, _, batch_only = toy.WORKLOADS
    assert modes_of(counts, "direct") == modes_of(counts, "spark") == [Mode.BATCH]
    assert modes_of(counts, "headrace") == [Mode.BATCH, Mode.STREAMING]
    assert modes_of(batch_only, "headrace") == [Mode.BATCH]
    streams = replace(counts, modes=(Mode.STREAMING,))
    assert modes_of(streams, "direct") == [Mode.STREAMING]
