"""The page in a real browser: it loads, shows a run, and follows it by itself."""

from __future__ import annotations

import re
import shutil
import subprocess
import threading
from pathlib import Path

import apache_beam as beam
import pytest

from tests.ui.faults import Bed, grouped, rows, running, state_of

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which(
    "google-chrome"
)
needs_browser = pytest.mark.skipif(
    BROWSER is None, reason="no Chromium is installed; scripts/ensure_chromium.sh installs it"
)


def opened(url: str, tmp_path: Path, *options: str, milliseconds: int = 120_000) -> tuple[str, str]:
    """Open a page for a while; give what it has become and what the browser said."""
    command = [
        str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
        f"--virtual-time-budget={milliseconds}", f"--user-data-dir={tmp_path / 'profile'}",
        *options, "--dump-dom", url,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=250, check=True)
    return done.stdout, done.stderr


def odd(bed: Bed, p: beam.Pipeline) -> None:
    """A pipeline whose name and keys look like markup."""
    grouped(bed, p)


@needs_browser
@pytest.mark.timeout(300)
def test_the_page_shows_a_run_and_follows_it(tmp_path: Path) -> None:
    name = "--job_name=<b>shop</b>"
    with running(odd, (name, "--ui_samples")) as (bed, result):
        for batch in range(3):
            bed.stream.add(*rows(batch))
            result.settle()
        at_first = len(state_of(result.page_url)["epochs"])
        ended = threading.Event()

        def feed() -> None:
            batch = 3
            while not ended.wait(0.1):
                bed.stream.add(*rows(batch, hot=0.5))
                batch += 1

        feeder = threading.Thread(target=feed)
        feeder.start()
        try:
            dom, said = opened(result.page_url, tmp_path)
        finally:
            ended.set()
            feeder.join()
    wrong = [line for line in said.splitlines() if "CONSOLE" in line]
    assert wrong == []
    bars = re.findall(r'aria-label="epoch (\d+): ', dom)
    assert len(bars) > at_first  # it has asked again, and shows what came since
    looks = re.search(r'data-looks="(\d+)"', dom)
    assert looks is not None and int(looks[1]) >= 3
    graph = dom[dom.index('id="graph"') : dom.index("</svg>")]
    assert "superstep 1: 2 shards" in graph
    assert graph.count('class="stage') == 2
    assert "by key, grouped" in graph
    assert "key 'k17' is " in dom[dom.index('id="findings"') : dom.index('id="timeline"')]
    steps = dom[dom.index('id="steps"') : dom.index('id="shards"')]
    assert all(step in steps for step in ("Clicks", "Pair", "Join", "Out"))
    assert "partition 3" in dom[dom.index('id="sources"') :]
    assert "&lt;b&gt;shop" in dom  # a name is text, never markup
    assert "<b>shop" not in dom
    assert "<pre>" in dom[dom.index('id="samples"') :]


@needs_browser
@pytest.mark.timeout(300)
def test_a_phone_shows_it_without_scrolling_sideways(tmp_path: Path) -> None:
    with running(grouped) as (bed, result):
        bed.stream.add(*rows(0))
        result.settle()
        dom, _ = opened(result.page_url, tmp_path, "--window-size=500,900", milliseconds=3_000)
    wide = re.search(r'data-wide="(\w+)"', dom)
    assert wide is not None and wide[1] == "false"
