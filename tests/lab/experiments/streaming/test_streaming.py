"""The streaming benchmarks and the soak: their formulas and verdicts, and each case once, small."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from headrace.engine.spark.launch import launch_epoch
from headrace.lab.ending import Ending, exit_status
from headrace.lab.experiments.soak.fit import slope, trend
from headrace.lab.experiments.soak.pipeline import Life, complaints
from headrace.lab.experiments.soak.plot import Chart, Curve, svg
from headrace.lab.experiments.soak.run import plan, run_phase
from headrace.lab.experiments.soak.samples import allocated
from headrace.lab.experiments.streaming import (
    epoch,
    fileepoch,
    hotcombine,
    hotkey,
    native,
    ownloop,
    pending,
    sliding,
    throughput,
    windows,
)
from headrace.lab.experiments.streaming.bed import Bed
from headrace.lab.experiments.streaming.data import Rows
from headrace.lab.experiments.streaming.figures import Bar, CaseResult, Line
from headrace.lab.experiments.streaming.report import record
from headrace.lab.meter import PROC
from headrace.lab.results.dated import save
from tests.places import SLOW
from tests.spark_session import shared_session


@pytest.fixture(name="bed")
def _bed() -> Bed:
    return Bed(spark=shared_session(), cores=2, say=lambda _: None)


def test_the_formulas_agree_with_counting_one_by_one() -> None:
    wanted = Rows(rows=3_000, keys=7, files=2)
    # Second i / 3 of a thousand, so window i // 30; the scramble is 2654435761.
    groups: Counter[tuple[int, int]] = Counter()
    mixed = 0
    for i in range(3_000):
        key, bucket = i * 2654435761 % 7, i // 30
        groups[key, bucket] += 1
        mixed += i % 97 * (key % 100 * 7 + bucket)
    assert wanted.counts() == {
        "groups": len(groups), "rows": 3_000,
        "mixed": sum(n * (key + 1) * (bucket + 1) for (key, bucket), n in groups.items()),
    }
    assert wanted.joined() == {"rows": 3_000, "mixed": mixed}


def _outcome(value: float, *wrong: str) -> CaseResult:
    bar = Bar(what="toy", value=value, limit=3.0, at_most=False)
    line = Line(name="toy", unit="s", samples=(1.0, 9.0, 2.0))
    return CaseResult(case="toy", what="nothing", lines=(line,), bars=(bar,), wrong=wrong)


def test_a_figure_on_its_bar_clears_it_and_a_wrong_answer_outweighs_all() -> None:
    on, below, wrong = _outcome(3.0), _outcome(2.9), _outcome(3.0, "lost a row")
    assert [o.verdict for o in (on, below, wrong)] == [Ending.OK, Ending.MISSED, Ending.WRONG]
    groups = ([on], [on, below], [below, wrong])
    assert [exit_status(each.verdict for each in group) for group in groups] == [0, 1, 2]
    assert on.lines[0].median == 2.0


def test_results_of_one_day_are_written_side_by_side(tmp_path: Path) -> None:
    import datetime

    content = record([_outcome(3.0)], {}, datetime.date(2026, 1, 2))
    assert content["cases"][0]["lines"][0]["median"] == 2.0
    paths = [save(content, "streaming", tmp_path), save(content, "streaming", tmp_path)]
    assert [path.name for path in paths] == [
        "2026-01-02-streaming.json", "2026-01-02-streaming-2.json"
    ]


def test_a_slope_is_not_bent_by_a_few_outliers() -> None:
    xs = list(range(20))
    ys = [2.0 * x for x in xs]
    ys[3], ys[11] = 500.0, -500.0
    assert slope(xs, ys) == pytest.approx(2.0)
    assert slope([1, 1, 1], [1, 2, 3]) == 0.0


@pytest.mark.parametrize(("per_second", "flat"), [(0.0, True), (0.5, True), (3.0, False)])
def test_growth_within_what_is_allowed_counts_as_flat(per_second: float, flat: bool) -> None:
    times = [float(t) for t in range(100)]
    # The steep first half is warm-up. After it 49 s at 0.5 are 24.5, less than 10 % of 612.
    values = [12.0 * t if t < 50 else 600.0 + per_second * (t - 50) for t in times]
    found = trend("toy", "MB", times, values, share=0.1, least=1.0)
    assert found.flat is flat
    assert found.slope == pytest.approx(per_second * 3600)


def test_a_drawing_is_well_formed_and_has_a_line_for_each_series() -> None:
    lines = [Curve(name=name, xs=[0, 1, 2], ys=[3, 4, 5]) for name in ("a", "b < c")]
    empty = Curve(name="empty", xs=[], ys=[])
    drawn = ElementTree.fromstring(
        svg([Chart(title="x", unit="MB", series=lines), Chart(title="y", unit="", series=[empty])])
    )
    assert len(drawn.findall(".//{http://www.w3.org/2000/svg}polyline")) == 3


def test_rows_that_did_not_come_back_are_complained_about() -> None:
    right = {"came_rows": 8, "sessions_rows": 8, "timers_rows": 8}
    assert complaints(right, late=0) == []
    assert complaints(right | {"timers_rows": 7}, late=0) == ["timers gave back 7 rows of 8"]
    assert complaints({}, late=2) == ["no rows came", "2 elements were dropped as late"]


def test_a_soak_gives_its_second_phase_time_to_fill() -> None:
    (first, short), (second, long) = plan(20, 2_000)
    assert (first, short.seconds, second, long.seconds) == (1_000, 10, 200, 100)


def test_sparse_files_count_with_what_they_occupy(tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(64 << 20)
    (tmp_path / "full").write_bytes(b"x" * 100_000)
    assert 100_000 <= allocated(tmp_path) < 1 << 20


def test_pushed_back_elements_all_come_back_and_are_read_once() -> None:
    *_, wrong = pending.run(3_000, pending.Counting())
    assert wrong == []
    assert pending.decoded(3_000) == 3_000


@pytest.mark.spark
@pytest.mark.parametrize("name", list(throughput.PIPELINES))
def test_a_small_stream_gives_the_answer_of_the_formula(bed: Bed, name: str) -> None:
    _, wrong = throughput.on_headrace(bed, name, throughput.rows_of(name, 4_000, 4))
    assert wrong == []


@pytest.mark.spark
@pytest.mark.parametrize("flags", [(), ("--no_slicing",)])
def test_dense_windows_come_to_what_arithmetic_says(bed: Bed, flags: tuple[str, ...]) -> None:
    _, _, wrong = sliding.run(bed, 3_000, *flags)
    assert wrong == []


@pytest.mark.spark
@pytest.mark.skipif(not SLOW, reason="a peer: tests/lab/native asks it more; set HEADRACE_SLOW=1")
def test_spark_alone_gives_the_answer_of_the_formula(bed: Bed) -> None:
    wanted = throughput.rows_of(throughput.WITHIN, 2_000, 1)
    _, wrong = throughput.on_spark(bed, native.Variant.ROW, wanted)
    assert wrong == []


@pytest.mark.spark
@pytest.mark.parametrize("kept", [True, False])
def test_plans_of_our_own_loop_are_made_for_all_epochs_or_for_each(
    bed: Bed, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned: list[Any] = []

    def counted(*args: Any) -> Any:
        planned.append(args)
        return launch_epoch(*args)

    monkeypatch.setattr("headrace.engine.spark_host.launch_epoch", counted)
    found, wrong = ownloop.own_epochs(bed, 4, kept=kept)
    assert wrong == []
    assert min(found) > 0
    # An epoch begins with superstep 0 or does not: two plans, however many epochs there are.
    assert len(planned) <= 2 if kept else len(planned) == len(found)


@pytest.mark.spark
@pytest.mark.parametrize("who", ["headrace", "spark"])
def test_epochs_of_files_are_counted_and_timed_whoever_asks(bed: Bed, who: str) -> None:
    found, wrong = fileepoch.own_epochs(bed, 4, who)
    assert wrong == []
    assert len(found) >= 4
    assert min(found) > 0


@pytest.mark.spark
def test_epochs_are_timed_by_spark_itself(bed: Bed) -> None:
    found, wrong = epoch.headrace_epochs(bed, 1, 4)
    assert wrong == []
    line = epoch.line_of("toy", found)
    assert 0 < line.details["addBatch"] <= line.median


@pytest.mark.spark
def test_more_epochs_are_timed_than_spark_remembers_by_itself(bed: Bed) -> None:
    found, wrong = epoch.native_epochs(bed, 0, 130)
    assert wrong == []
    assert [report["batchId"] for report in found[:130]] == list(range(130))


@pytest.mark.spark
def test_a_short_soak_loses_no_row(bed: Bed, tmp_path: Path) -> None:
    said: list[Any] = []
    phase = run_phase(
        bed.spark, "short", Life(rows_per_second=200, seconds=1.0), 6.0, tmp_path,
        trigger_seconds=0.5, cores=2, say=said.append,
    )
    assert phase.wrong == ()
    assert [s.epoch for s in phase.samples] == sorted({s.epoch for s in phase.samples})
    if PROC.exists():
        assert phase.samples[-1].worker_bytes > 50_000_000  # a worker with Beam in memory
    assert phase.samples[-1].checkpoint_bytes > 0


@pytest.mark.spark
def test_a_hot_key_and_many_open_windows_give_the_right_answers(bed: Bed) -> None:
    _, peak, answer = hotkey.run(bed, "GroupByKey", 2_000, file_rows=1_000)
    assert answer == hotkey.expected(2_000)
    assert answer["hot"] == sum(n % 97 for n in range(0, 2_000, 2))
    assert peak > 0 or not PROC.exists()
    _, _, answer = windows.run(bed, "a timer each, 1,000 keys", 300)
    assert answer == windows.expected(300) == {"windows": 300, "rows": 300, "mixed": 45_150}


@pytest.mark.spark
@pytest.mark.parametrize(
    "way", hotcombine.MERGED if SLOW else hotcombine.MERGED[:1], ids=lambda way: way.name
)
def test_a_combine_with_a_hot_key_gives_the_right_answer_on_even_shards(
    bed: Bed, way: hotcombine.Way
) -> None:
    merged = hotcombine.run(bed, way, 20_000)
    single = hotcombine.run(bed, way, 20_000, flags=(hotcombine.SINGLE,))
    assert merged.wrong == single.wrong == []
    assert merged.share is not None and single.share is not None
    assert merged.share < hotcombine.EVEN < hotcombine.UNEVEN < single.share
    assert [key for key, _ in merged.hot] == [str(hotcombine.HOT_KEY)]
