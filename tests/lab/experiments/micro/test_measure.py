"""Judging without running anything: a scripted system stands in for both."""

from __future__ import annotations

import datetime
import io
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from headrace.lab.commands import number
from headrace.lab.ending import Ending, exit_status
from headrace.lab.experiments.micro.cases import Answer, Case
from headrace.lab.experiments.micro.measure import Compared, measure
from headrace.lab.experiments.micro.report import record, show
from headrace.lab.experiments.micro.runners import Run
from headrace.lab.results.dated import save

CASE = Case(
    name="toy", what="nothing at all", build=lambda p, n: None, expected=lambda n: {"count": n},
    bar=2.0, reference_share=0.5,
)


class Scripted:
    """A system whose measured runs take the given seconds; small ones before them take 100."""

    def __init__(
        self, name: str, seconds: list[float], off: int = 0, peak: int | None = None
    ) -> None:
        self.name = name
        self.sizes: list[int] = []
        self._seconds: Iterator[float] = iter(seconds)
        self._off = off
        self._peak = peak

    def run(self, case: Case, elements: int) -> Run:
        self.sizes.append(elements)
        answer: Answer = {"count": elements + self._off}
        return Run(
            seconds=next(self._seconds) if elements > 5_000 else 100.0, cpu_seconds=4.0,
            peak_worker_bytes=self._peak, answer=answer,
        )


def figure_of(ours: Scripted, reference: Scripted | None, case: Case = CASE) -> Compared:
    return measure(
        case, ours, reference, elements=100_000, repeats=3, reference_repeats=1
    )


def test_a_rate_is_the_median_of_the_measured_runs_without_the_warm_up() -> None:
    ours = Scripted("ours", [4.0, 1.0, 2.0])
    figure = figure_of(ours, Scripted("theirs", [2.0]))
    assert figure.ours is not None
    assert (figure.ours.median, figure.ours.low, figure.ours.high) == (50_000, 25_000, 100_000)
    assert figure.ours.cpu_seconds_per_million == pytest.approx(40.0)
    assert ours.sizes == [5_000, 100_000] * 3


def test_a_long_case_is_repeated_no_more_than_it_says() -> None:
    ours = Scripted("ours", [4.0])
    figure_of(ours, None, replace(CASE, most_repeats=1))
    assert ours.sizes == [5_000, 100_000]


def test_rates_are_compared_when_the_reference_gets_fewer_elements() -> None:
    theirs = Scripted("theirs", [2.0])
    figure = figure_of(Scripted("ours", [1.0, 1.0, 1.0]), theirs)
    assert theirs.sizes == [2_500, 50_000]
    assert figure.ratio == pytest.approx(100_000 / 25_000)
    assert figure.verdict is Ending.OK


def test_a_ratio_below_the_bar_is_missed() -> None:
    figure = figure_of(Scripted("ours", [2.1, 2.1, 2.1]), Scripted("theirs", [2.0]))
    assert figure.verdict is Ending.MISSED
    assert exit_status([figure.verdict]) == 1


def test_a_wrong_answer_voids_the_figure() -> None:
    figure = figure_of(Scripted("ours", [1.0, 1.0, 1.0], off=1), Scripted("theirs", [2.0]))
    assert (figure.verdict, figure.ours, figure.ratio) == (Ending.WRONG, None, None)
    assert figure.complaints()[0] == (
        "toy on ours, 100000 elements: counted {'count': 100001}, right is {'count': 100000}"
    )
    assert exit_status([figure.verdict]) == 2


def test_a_wrong_answer_of_the_reference_voids_the_ratio() -> None:
    figure = figure_of(Scripted("ours", [1.0, 1.0, 1.0]), Scripted("theirs", [2.0], off=-1))
    assert (figure.verdict, figure.reference, figure.ratio) == (Ending.WRONG, None, None)


def test_without_a_reference_there_is_no_ratio_and_no_bar() -> None:
    figure = figure_of(Scripted("ours", [1.0, 1.0, 1.0]), None)
    assert (figure.verdict, figure.ratio) == (Ending.RIGHT, None)


@pytest.mark.parametrize(
    ("peak", "verdict"), [(999, Ending.OK), (1_000, Ending.MISSED), (None, Ending.RIGHT)]
)
def test_a_worker_must_stay_under_its_limit(peak: int | None, verdict: Ending) -> None:
    case = replace(CASE, bar=None, reference_share=None, worker_limit_bytes=1_000)
    figure = figure_of(Scripted("ours", [1.0] * 3, peak=peak), Scripted("theirs", []), case)
    assert figure.verdict is verdict


def test_a_bar_with_nothing_to_compare_is_refused() -> None:
    with pytest.raises(ValueError, match="case toy has a bar but nothing to compare with"):
        replace(CASE, reference_share=None)


def shown(figure: Compared) -> str:
    out = io.StringIO()
    show([figure], Console(file=out))
    return out.getvalue()


def test_the_table_shows_rates_ratio_and_verdict() -> None:
    text = shown(figure_of(Scripted("ours", [1.0] * 3), Scripted("theirs", [2.0])))
    row = next(line for line in text.splitlines() if line.startswith("| toy"))
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[1:7] == ["100.0 K / 50.0 K", "100.0 K", "25.0 K", "4.00", ">= 2.0", "ok"]


def test_the_table_shows_no_rate_for_a_wrong_answer() -> None:
    text = shown(figure_of(Scripted("ours", [1.0] * 3, off=1), Scripted("theirs", [2.0])))
    row = next(line for line in text.splitlines() if line.startswith("| toy"))
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert (cells[2], cells[4], cells[6]) == ("-", "-", "WRONG")
    assert "WRONG: toy on ours" in text


def test_a_saved_file_keeps_every_sample_and_no_name_of_the_machine(tmp_path: Path) -> None:
    figure = figure_of(Scripted("ours", [4.0, 1.0, 2.0]), Scripted("theirs", [2.0]))
    day = datetime.date(2031, 4, 5)
    path = save(record([figure], {"elements": 100_000}, day), "bench", tmp_path / "results")
    assert path.name == "2031-04-05-bench.json"
    content: dict[str, Any] = json.loads(path.read_text())
    samples = content["cases"][0]["samples"]
    assert [(s["system"], s["seconds"]) for s in samples] == [
        ("ours", 4.0), ("theirs", 2.0), ("ours", 1.0), ("ours", 2.0)
    ]
    rates = [f["repeats"] for f in content["figures"] if f["name"] == "toy rate"]
    assert rates == [[25_000, 100_000, 50_000], [25_000]]
    assert set(content["machine"]) == {
        "system", "architecture", "cores", "processor", "memory_bytes"
    }


def test_a_second_file_of_a_day_does_not_replace_the_first(tmp_path: Path) -> None:
    paths = [save({"date": "2031-04-05", "run": run}, "bench", tmp_path) for run in (1, 2)]
    assert [path.name for path in paths] == ["2031-04-05-bench.json", "2031-04-05-bench-2.json"]
    assert json.loads(paths[0].read_text())["run"] == 1


def test_sizes_are_read_with_and_without_units() -> None:
    assert [number(text) for text in ("7", "200K", "1.5M", "10m")] == [
        7, 200_000, 1_500_000, 10_000_000
    ]


@pytest.mark.parametrize("text", ["", "K", "0", "-3", "many"])
def test_a_size_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(Exception, match="is not a number of elements"):
        number(text)
