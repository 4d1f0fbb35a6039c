"""The page for somebody who must choose: its figures are those of a run."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

import pytest

from headrace.cli.main import main
from headrace.errors import OptionError
from headrace.lab.report.choosing import SLOTS, filled
from headrace.lab.report.compared import RATE, Relation, compared, least, relation
from headrace.lab.report.explained import REASONS, UNEXPLAINED, lost, reason
from headrace.lab.report.page import page
from headrace.lab.results.folder import ENVIRONMENT, SPEC, RunFolder
from headrace.lab.results.summary import (
    REFUSED,
    Better,
    Figure,
    Guarantee,
    Shown,
    Summary,
    SystemRecord,
)
from headrace.lab.statistics.calibration import Calibration

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "guide" / "choosing.md"
EXAMPLE = ROOT / "results" / "lab-example"


def figure(system: str, value: float | None, question: str = "count", **changes: object) -> Figure:
    known = Figure(
        system=system, question=question, experiment="sustainable", name="rate",
        unit="events/s", better=Better.HIGHER, value=value, low=value,
        high=None if value is None else value * 1.3, repeats=(),
        void="" if value is not None else "a row was lost",
    )
    return replace(known, **changes)  # type: ignore[arg-type]


def p99(system: str, value: float) -> Figure:
    return figure(
        system, value, experiment="latency", name="p99", unit="s", better=Better.LOWER,
        high=value,
    )


SUMMARY = Summary(
    name="made", started="2026-01-02T03:04:05Z", seconds=600, calibration=asdict(Calibration(
        loops_per_second=1.0, copied_bytes_per_second=1.0, sync_seconds=1.0
    )),
    systems=(
        *(
            SystemRecord(name=name, kind=name, engine=name, absent="", settings={})
            for name in ("headrace", "spark", "pyflink")
        ),
        SystemRecord(name="other", kind="other", engine="", absent="install it", settings={}),
    ),
    figures=(
        figure("headrace", 900_000), figure("spark", 1_300_000), figure("pyflink", 30_000),
        figure("headrace", 100_000, "state"), figure("spark", 110_000, "state"),
        figure("pyflink", None, "state"),
        p99("headrace", 0.5), p99("spark", 0.9), p99("pyflink", 0.2),
    ),
    guarantees=(
        Guarantee(system="headrace", name="durability of state", shown=Shown.YES, evidence="seen"),
    ),
)


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    folder = RunFolder(tmp_path)
    folder.write(SPEC, "")
    folder.write(ENVIRONMENT, '{"cores": 2, "python": "3.11", "packages": {"pyspark": "4"}}')
    folder.write_samples([])
    folder.write_summary(SUMMARY)
    return folder


def test_figures_whose_intervals_meet_decide_nothing() -> None:
    assert relation(figure("a", 100), figure("b", 129)) is Relation.LEVEL
    assert relation(figure("a", 100), figure("b", 131)) is Relation.BEHIND
    assert relation(figure("a", 131), figure("b", 100)) is Relation.AHEAD
    assert relation(p99("a", 1.0), p99("b", 2.0)) is Relation.AHEAD
    assert relation(figure("a", 100), figure("b", None)) is Relation.OPEN
    unbound = figure("b", 120, high=None)  # no more could be sent to it
    assert relation(figure("a", 100), unbound) is Relation.LEVEL
    assert relation(figure("a", 90), unbound) is Relation.BEHIND
    assert relation(figure("a", 200), unbound) is Relation.LEVEL
    assert relation(figure("a", 131), figure("b", None)) is Relation.OPEN
    assert (least(unbound), least(figure("b", 120)), least(p99("a", 1.0))) == ("at least ", "", "")


def test_a_single_measurement_decides_nothing_within_fifteen_percent() -> None:
    """Memory of 4,466.4 and 4,466.3 MiB, measured once each, was called a loss."""
    once = p99("a", 1.0)
    assert relation(once, p99("b", 1.0001)) is relation(p99("b", 1.0001), once) is Relation.NEAR
    assert relation(once, p99("b", 1.149)) is Relation.NEAR
    assert relation(once, p99("b", 1.151)) is Relation.AHEAD
    assert relation(p99("b", 1.151), once) is Relation.BEHIND
    assert relation(p99("a", 0.0), p99("b", 0.01)) is Relation.AHEAD
    # Repeats that lie together say more; one side alone does not.
    twice = (1.0, 1.0)
    often, other = replace(once, repeats=twice), replace(p99("b", 1.1), repeats=twice)
    assert relation(often, other) is Relation.AHEAD
    assert relation(often, p99("b", 1.1)) is Relation.NEAR
    told = [each for each in compared(SUMMARY) if each.undecided]
    assert {each.undecided for each in told} == {" (not told apart)"}


def test_what_is_lost_is_named_with_its_reason() -> None:
    found = lost(compared(SUMMARY))
    assert [(each.question, each.theirs.system, each.what.name) for each, _ in found] == [
        ("count", "spark", "rate"), ("count", "pyflink", "p99"),
    ]
    assert [why for _, why in found] == [
        REASONS["rate", "spark", "count"], REASONS["p99", "pyflink", ""],
    ]
    strange = replace(found[0][0], theirs=figure("strange", 2e6))
    assert reason(strange) == UNEXPLAINED


def test_every_place_is_filled_and_all_else_stays(run: RunFolder) -> None:
    text = "".join(f"before\n<!-- lab: {name} -->\nstale\n<!-- lab: end -->\n" for name in SLOTS)
    told = filled(text, run, "runs/one")
    assert "stale" not in told
    assert told.count("before\n") == len(SLOTS)
    assert "| `count` | 900 K/s | **1.3 M/s** | 30 K/s |" in told
    assert "* `count`: **spark** sustains the most, 1.3 M/s." in told
    assert "headrace is at 0.69x spark, 30x pyflink." in told
    assert "0.91x spark (not told apart)" in told
    # 100 K/s may be 130: the best is not told apart from it.
    assert "| `state` | **100 K/s** | **110 K/s** | void |" in told
    assert "* pyflink, `state` sustainable rate: a row was lost." in told
    assert "other was absent: install it." in told
    assert told.count("From `runs/one/summary.json`.") == len(SLOTS)
    assert "The run did not ask for it." in told
    assert filled(told, run, "runs/one") == told


def test_the_report_has_them_too(run: RunFolder) -> None:
    html = page([run])
    assert "<strong>spark</strong> sustains the highest rate, 1.3 M events/s" in html
    assert "headrace sustains 900 K events/s: 0.69x spark, 30x pyflink." in html
    assert "Where headrace is behind: 2 figures" in html
    assert 'title="a row was lost">void' in html
    assert "durable&nbsp;&#10003;" in html


def test_who_cannot_be_asked_is_said_to_be_so_and_not_to_have_failed(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    run.write(SPEC, "")
    run.write(ENVIRONMENT, '{"cores": 2, "python": "3.11", "packages": {}}')
    run.write_samples([])
    q12 = "nexmark:q12"
    run.write_summary(replace(SUMMARY, figures=(
        figure("headrace", 900_000, q12), figure("headrace", 500_000, "nexmark:q8"),
        figure("spark", None, q12, void=f"{REFUSED}it has no such trigger."),
        figure("spark", 900_000, "nexmark:q8"), figure("pyflink", None, q12, void=REFUSED + "no"),
    )))
    told = filled("<!-- lab: rates -->\n<!-- lab: end -->\n<!-- lab: verdict -->\n"
                  "<!-- lab: end -->\n<!-- lab: lost -->\n<!-- lab: end -->\n", run, "x")
    assert f"| `{q12}` | **900 K/s** | refused | refused |" in told
    assert "sustains the most, 900 K/s. spark and pyflink cannot be asked it." in told
    assert REASONS["rate", "spark", "nexmark:q8"] in told
    html = page([run])
    assert 'title="refused: it has no such trigger.">refused' in html
    assert (
        "every answer was right</span>; it cannot be asked nexmark:q12: it has no such trigger."
    ) in html
    assert "pyflink: cannot be asked any of this: no." in html


def test_a_page_without_a_place_or_with_a_strange_one_is_refused(run: RunFolder) -> None:
    with pytest.raises(OptionError, match="no place for figures"):
        filled("# A page\n", run, "x")
    with pytest.raises(OptionError, match="no place 'luck'; there are run, verdict"):
        filled("<!-- lab: luck -->\n<!-- lab: end -->", run, "x")


def test_the_command_fills_a_page(run: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    target = run.path / "page.md"
    target.write_text("<!-- lab: rates -->\n<!-- lab: end -->\n")
    assert main(["lab", "fill", str(run.path), str(target)]) == 0
    assert "1.3 M/s" in target.read_text()
    assert "has the figures of" in capsys.readouterr().out


@pytest.mark.skipif(not EXAMPLE.is_dir(), reason="no example run is kept")
def test_the_page_of_the_docs_has_the_figures_of_the_example() -> None:
    text = PAGE.read_text(encoding="utf-8")
    folder = RunFolder.open(EXAMPLE)
    source = EXAMPLE.relative_to(ROOT).as_posix()
    assert filled(text, folder, source) == text, "make lab-example, or headrace lab fill"
    assert not folder.summary().interrupted
    assert (EXAMPLE / "report.html").is_file()


def test_rates_come_first() -> None:
    assert compared(SUMMARY)[0].what is RATE


@pytest.mark.skipif(not EXAMPLE.is_dir(), reason="no example run is kept")
def test_the_example_was_made_of_the_spec_that_make_lab_runs() -> None:
    spec = (ROOT / "examples" / "lab.toml").read_text(encoding="utf-8")
    assert RunFolder.open(EXAMPLE).spec() == spec, "make lab, then make lab-example RUN=..."
