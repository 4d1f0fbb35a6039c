"""The report: its words, and in a real browser its plots."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import escape
from pathlib import Path

import pytest

from headrace.errors import OptionError
from headrace.lab.laboratory import run_spec
from headrace.lab.report.page import page, write_page
from headrace.lab.report.published import PUBLISHED
from headrace.lab.results.folder import RunFolder
from headrace.lab.results.summary import Shown
from headrace.lab.spec import read_spec

SPEC = """
name = "shown"
questions = ["count", "state"]
[systems.fake]
capacity = 2000
epoch_seconds = 0.3
[systems."<b>bad</b>"]
kind = "fake"
drop_every = 1000
[systems.pyflink]
[sustainable]
ramp = true
probe_seconds = 12
confirm_seconds = 12
[latency]
seconds = 10
repeats = 2
shares = [0.25, 0.5, 0.9]
[spike]
calm_seconds = 10
[sweep]
rate = 500
seconds = 10
trigger_ms = [0, 400]
"""
EXAMPLE = Path(__file__).parents[3] / "results" / "lab-example"
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which(
    "google-chrome"
)
needs_browser = pytest.mark.skipif(
    BROWSER is None, reason="no Chromium is installed; scripts/ensure_chromium.sh installs it"
)
PLOTS = (
    "rates", "queues", "cdf", "histogram", "series", "waterfall", "spike-queue", "spike-series",
    "probes", "ramp-queue", "by-rate", "sweep",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADRACE_LAB_PYFLINK_PYTHON", "/no/such/python")
        return run_spec(read_spec(SPEC), tmp_path_factory.mktemp("runs"))


def test_the_verdict_comes_first_and_names_what_is_void_and_absent(folder: RunFolder) -> None:
    text = page([folder])
    verdict = text[text.index('class="verdict"') : text.index('id="legend"')]
    for question in ("count", "state"):
        said = rf"<em>{question}</em>: <strong>fake</strong> sustains the highest rate, [\d.]+ K"
        assert re.search(said, verdict)
        # Beside the figure: its latency, its cost, and what was shown of guarantees.
        cell = rf"<td><em>{question}</em></td><td><strong>[\d.]+ K/s.*?p99.*?once"
        assert re.search(cell, verdict)
    assert "fake: spike: came back; <span" in verdict
    assert "every answer was right" in verdict
    assert re.search(r"\d+ figures are void</span>: [\w, /]+: wrong answer", verdict)
    assert "pyflink: absent." in verdict


def test_the_page_needs_nothing_else_and_names_are_no_markup(folder: RunFolder) -> None:
    text = page([folder])
    assert not re.search(r"""(src|href)=|@import|url\(|https?://(?!www\.w3\.org/2000/svg)""", text)
    assert "<b>bad" not in text
    assert "&lt;b&gt;bad" in text
    assert 'name="viewport"' in text


def test_the_page_carries_the_samples_of_every_repeat(folder: RunFolder) -> None:
    text = page([folder])
    (data,) = re.findall(r'id="data">(.*?)</script>', text, flags=re.S)
    series = json.loads(data)["series"]
    latency = [s for s in series if s["experiment"] == "latency"]
    assert [(s["question"], s["repeat"]) for s in latency] == [
        ("count", 0), ("state", 0), ("count", 1), ("state", 1),
    ]
    kept = [s for s in folder.series() if s.experiment == "latency"]
    for told, raw in zip(latency, kept, strict=True):
        assert len(told["due"]) == -(-len(raw.due) // told["one_of"])
        assert len(told["due"]) == len(told["latency"]) <= 10_000


def test_the_page_has_what_was_shown_of_guarantees_and_which_settings_were_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_LAB_PYFLINK_PYTHON", "/no/such/python")
    text = SPEC.replace("capacity = 2000", "capacity = 2000\ncandidates = [{}, {capacity = 3000}]")
    text = text.replace("[spike]\ncalm_seconds = 10", "[tuning]\nacceptable_seconds = 0.5\n[fault]")
    folder = run_spec(read_spec(text), tmp_path)
    (tuned, _) = folder.summary().systems[0].tuned
    assert (tuned.question, tuned.chosen) == ("count", {"capacity": 3000})
    shown = {(each.system, each.name[:5]): each.shown for each in folder.summary().guarantees}
    assert shown["fake", "exact"] is Shown.YES
    assert shown["fake", "order"] is Shown.YES
    assert shown["<b>bad</b>", "order"] is Shown.NO
    # Without a rate there is no load to kill a worker under.
    assert shown["<b>bad</b>", "exact"] is Shown.OPEN
    html = page([folder])
    assert "Guarantees, as this run has shown them" in html
    assert "every row came once: count " in html
    assert "<strong>capacity = 3000, chosen</strong>" in html
    assert "no higher" in html


def test_every_rate_that_was_tried_stands_in_the_page_with_what_came_of_it(
    folder: RunFolder,
) -> None:
    text = page([folder])
    probes = folder.summary().probes
    assert f"All {len(probes)} rates that were tried" in text
    for each in probes:
        assert f'">{each.status}</span></td>' in text
        assert f"<td class=n>{each.rate:,.0f}</td>" in text
    (told,) = re.findall(r'id="data">(.*?)</script>', text, flags=re.S)
    assert len(json.loads(told)["probes"]) == len(probes) > 4


def test_latency_against_rate_stands_in_the_page_as_a_table(folder: RunFolder) -> None:
    text = page([folder])
    figures = {f.key: f.value for f in folder.summary().figures}
    for share in ("25%", "50%", "90%"):
        rate, p99 = (
            figures["fake", "count", "latency by rate", f"{what} at {share}"]
            for what in ("rate", "p99")
        )
        assert rate and p99
        assert f"<td>{share}</td><td class=n>{rate:,.0f}</td>" in text
        assert f"<td class=n>{p99:,.3g} s</td></tr>" in text


def test_published_figures_say_of_whom_they_are_and_where_they_stand(folder: RunFolder) -> None:
    text = page([folder])
    papers = {where.rpartition(", ")[0] for *_, where in PUBLISHED}
    assert len(papers) == 4
    for what, machines, value, where in PUBLISHED:
        cells = "".join(f"<td>{escape(each)}</td>" for each in (what, machines, value, where))
        assert cells in text
        assert re.search(r", (table \d|\d(\.\d)*)$", where)


def test_a_page_that_is_there_is_not_overwritten(folder: RunFolder, tmp_path: Path) -> None:
    write_page([folder], tmp_path / "page.html")
    with pytest.raises(OptionError, match="exists already"):
        write_page([folder], tmp_path / "page.html")


def opened(text: str, tmp_path: Path, *options: str) -> str:
    """Open a page in the browser; give what it has become."""
    path = tmp_path / "page.html"
    path.write_text(text, encoding="utf-8")
    command = [
        str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000",
        f"--user-data-dir={tmp_path / 'profile'}", *options, "--dump-dom", path.as_uri(),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=250, check=True)
    return done.stdout


#: Writes errors into the page, moves the cut, changes the theme.
WATCH = """<script>
window.addEventListener("error", (e) => { document.documentElement.dataset.error = e.message; });
</script>"""
MOVE = """<script>
const first = document.getElementById("latency-rows").textContent;
document.documentElement.dataset.first = first;
const cut = document.getElementById("cut");
cut.value = cut.max; cut.dispatchEvent(new Event("input"));
document.documentElement.dataset.moved = document.getElementById("latency-rows").textContent;
document.documentElement.dataset.told = document.getElementById("cut-told").textContent;
document.getElementById("by-rule").click();
document.documentElement.dataset.back = document.getElementById("latency-rows").textContent;
const colour = () => getComputedStyle(document.body).backgroundColor;
const before = colour();
document.getElementById("theme").click();
document.documentElement.dataset.theming = String(before !== colour());
const chosen = document.getElementById("question");
document.documentElement.dataset.asking = String(!document.getElementById("asking").hidden);
chosen.value = "state"; chosen.dispatchEvent(new Event("change"));
document.documentElement.dataset.other = document.getElementById("latency-rows").textContent;
document.documentElement.dataset.wide = String(document.documentElement.scrollWidth > innerWidth);
</script>"""


def attribute(dom: str, name: str) -> str:
    found = re.search(rf'<html[^>]* data-{name}="([^"]*)"', dom)
    assert found, f"data-{name} is not set"
    return found[1]


@needs_browser
@pytest.mark.parametrize("size", ["1200,2000", "500,900"])
def test_in_a_browser_every_plot_has_data_and_the_controls_work(
    folder: RunFolder, tmp_path: Path, size: str
) -> None:
    text = page([folder]).replace("<head>", f"<head>{WATCH}").replace("</body>", f"{MOVE}</body>")
    dom = opened(text, tmp_path, f"--window-size={size}")
    assert attribute(dom, "drawn") == "yes"
    assert "data-error=" not in dom.partition(">")[2].partition("<head>")[0]
    for plot in PLOTS:
        found = re.search(rf'id="{plot}">(<svg.*?</svg>)', dom, flags=re.S)
        assert found, plot
        points = re.search(r'data-points="(\d+)"', found[1])
        assert points and int(points[1]) > 0, plot
    assert attribute(dom, "first") == attribute(dom, "back") != attribute(dom, "moved")
    assert attribute(dom, "told") == "9.0 s"
    assert attribute(dom, "theming") == "true"
    assert attribute(dom, "asking") == "true"
    assert attribute(dom, "other").startswith("fake")
    assert attribute(dom, "wide") == "false"


@needs_browser
def test_the_report_that_is_kept_as_an_example_opens_with_all_its_plots(tmp_path: Path) -> None:
    text = (EXAMPLE / "report.html").read_text(encoding="utf-8")
    dom = opened(text.replace("<head>", f"<head>{WATCH}"), tmp_path)
    assert attribute(dom, "drawn") == "yes"
    assert "data-error=" not in dom.partition(">")[2].partition("<head>")[0]
    drawn = dict(re.findall(r'<div id="([\w-]+)"><svg[^>]* data-points="(\d+)"', dom))
    assert {"rates", "queues", "cdf", "histogram", "series", "waterfall"} <= drawn.keys()
    # The first question was asked for no fault, no ramp and one load: its plots say that there are
    # no samples of these. Others were.
    empty = {name for name, points in drawn.items() if points == "0"}
    assert empty <= {"spike-queue", "spike-series", "by-rate", "ramp-queue"}
    assert len(json.loads(re.findall(r'id="data">(.*?)</script>', text, flags=re.S)[0])["series"])


@needs_browser
def test_the_figures_in_the_page_are_those_of_the_summary(
    folder: RunFolder, tmp_path: Path
) -> None:
    dom = opened(page([folder]), tmp_path)
    (row,) = re.findall(r'<tbody id="latency-rows">.*?<tr>(.*?)</tr>', dom, flags=re.S)
    told = re.findall(r'<td class="n">([\d.]+) (ms|s)</td>', row)
    figures = {f.key: f.value for f in folder.summary().figures}
    for (value, unit), share in zip(told, ("p50", "p90", "p99"), strict=False):
        seconds = float(value) / (1_000 if unit == "ms" else 1)
        assert seconds == pytest.approx(figures["fake", "count", "latency", share], rel=0.02)
