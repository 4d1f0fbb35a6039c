"""Writes the page: verdict first, tables as HTML, samples as data for the plots.

Takes the folders of runs, gives one file that needs no other. The plots are drawn in the page, from
the samples it carries, so that moving the warm-up cut recomputes the figures there; every number
that does not depend on the cut stands in a table and needs no script.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from headrace.errors import OptionError
from headrace.lab.report.cards import cards, choices
from headrace.lab.report.faster_steps import faster_steps
from headrace.lab.report.published import PUBLISHED
from headrace.lab.report.searched import by_rate, searched
from headrace.lab.report.sweeps import sweeps
from headrace.lab.report.tables import label, table
from headrace.lab.report.verdict import verdict
from headrace.lab.results.folder import RunFolder
from headrace.lab.results.samples import TrialSamples
from headrace.lab.results.summary import Figure, Summary
from headrace.lab.statistics.samples import warm_up_seconds

#: Results of one trial that the page carries; of more, evenly chosen ones.
MOST_SAMPLES = 10_000
MOST_QUEUE = 1_000
#: Experiments whose results are plotted; of the others the queue is.
_WITH_LATENCY = ("latency", "spike", "fault")
#: Under which the queue of a ramp is kept.
RAMP = "ramp"


def write_page(folders: Sequence[RunFolder], target: Path) -> None:
    """Write the page about some runs.

    Raises:
        OptionError: there is such a file already.
    """
    text = page(folders)
    try:
        with target.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        msg = f"{target} exists already; choose another name or delete it"
        raise OptionError(msg) from None


def page(folders: Sequence[RunFolder]) -> str:
    """Give the page."""
    summaries = [folder.summary() for folder in folders]
    several = len(folders) > 1
    series = [
        trial
        for folder, summary in zip(folders, summaries, strict=True)
        for trial in _series(folder.series(), f"{summary.name}: " if several else "")
    ]
    figures = [
        {
            **_figure(figure), "label": label(summary, figure.system, several),
            "question": figure.question,
        }
        for summary in summaries
        for figure in summary.figures
    ]
    questions = list(dict.fromkeys(f.question for s in summaries for f in s.figures))
    probes = [
        {
            "label": label(summary, each.system, several), "question": each.question,
            "experiment": each.experiment, "rate": each.rate, "status": each.status,
        }
        for summary in summaries
        for each in summary.probes
    ]
    told = {"series": series, "figures": figures, "questions": questions, "probes": probes}
    data = json.dumps(told, separators=(",", ":"))
    home = files("headrace.lab.report")
    title = ", ".join(summary.name for summary in summaries)
    return Template(home.joinpath("page.html").read_text("utf-8")).substitute(
        title=escape(title), css=home.joinpath("page.css").read_text("utf-8"),
        js=home.joinpath("page.js").read_text("utf-8"),
        data=data.replace("<", "\\u003c"),
        verdict=verdict(summaries, several), body=_body(folders, summaries, several),
    )


def _figure(figure: Figure) -> dict[str, Any]:
    return {
        "experiment": figure.experiment, "name": figure.name, "value": figure.value,
        "low": figure.low, "high": figure.high, "unit": figure.unit,
    }


def _series(trials: Iterable[TrialSamples], prefix: str) -> list[dict[str, Any]]:
    found = []
    for trial in trials:
        if trial.experiment.startswith("latency at "):
            continue  # figures have what is plotted of them
        order = np.argsort(trial.due, kind="stable")
        if trial.experiment not in _WITH_LATENCY:
            order = order[:0]
        due, latency = trial.due[order], (trial.left - trial.due)[order]
        every = max(1, -(-len(due) // MOST_SAMPLES))
        looks = max(1, -(-len(trial.queue_seconds) // MOST_QUEUE))
        found.append({
            "name": f"{prefix}{trial.system}", "question": trial.question,
            "experiment": trial.experiment,
            "repeat": trial.repeat, "one_of": every,
            "cut": round(warm_up_seconds(due, latency), 3) if len(due) else 0.0,
            "due": np.round(due[::every], 4).tolist(),
            "latency": np.round(latency[::every], 6).tolist(),
            "queue": {
                "at": np.round(trial.queue_seconds[::looks], 3).tolist(),
                "length": trial.queue_lengths[::looks].tolist(),
                "rate": _rates(trial)[::looks],
            },
        })
    return found


def _rates(trial: TrialSamples) -> list[float | None]:
    """Give the rates of a ramp until it was cut off; of other loads nobody plots them."""
    if trial.experiment != RAMP or not len(trial.queue_rates):
        return []
    end = int(np.argmax(trial.queue_lengths))  # from there on it only got shorter
    return [
        round(float(rate), 1) if at <= end and not np.isnan(rate) else None
        for at, rate in enumerate(trial.queue_rates)
    ]


# --- words and tables


def _value(figure: Figure) -> str:
    if figure.value is None:
        return f'<span class="bad">void</span> {escape(figure.void)}'
    between = ""
    if figure.low is not None and figure.high is not None and figure.low < figure.high:
        between = f" [{figure.low:,.4g}, {figure.high:,.4g}]"
    return f"{figure.value:,.4g}{between} {escape(figure.unit)}"


def _body(folders: Sequence[RunFolder], summaries: Sequence[Summary], several: bool) -> str:
    figures = [
        (label(summary, figure.system, several), figure)
        for summary in summaries
        for figure in summary.figures
    ]
    parts = by_rate(summaries, several) + searched(summaries, several)
    parts += sweeps(summaries, several)
    if any(figure.experiment in ("spike", "fault") for _, figure in figures):
        parts.append(_SPIKE)
    parts += faster_steps(summaries, several)
    parts += cards(summaries, several) + choices(summaries, several)
    parts.append("<h2>All figures</h2>" + table(
        ("system", "question", "experiment", "figure", "value [95 % interval]"),
        (
            (
                escape(label), escape(figure.question), figure.experiment, escape(figure.name),
                _value(figure),
            )
            for label, figure in figures
        ), 1,
    ))
    parts.append("<h2>Who ran, and with which settings</h2>" + table(
        ("system", "kind", "engine that really ran", "settings"),
        (
            (
                escape(label(summary, system.name, several)), escape(system.kind),
                escape(system.engine or system.absent),
                escape(", ".join(f"{k} = {v}" for k, v in system.settings.items())) or "defaults",
            )
            for summary in summaries
            for system in summary.systems
        ),
    ))
    parts.append("<h2>As published</h2><p class=soft>Figures of the papers whose definitions are "
                 "used here, on their machines: beside ours, not against them.</p>" + table(
        ("what", "machines", "figure", "where it stands"),
        (tuple(map(escape, row)) for row in PUBLISHED),
    ))
    parts.append("<h2>Machine</h2>" + table(
        ("run", "what", "figure"),
        (
            (escape(summary.name), escape(what), escape(str(value)))
            for folder, summary in zip(folders, summaries, strict=True)
            for what, value in {**_flat(folder.environment()), **_flat(summary.calibration)}.items()
        ), 1,
    ))
    for folder, summary in zip(folders, summaries, strict=True):
        parts.append(f"<h2>Spec of {escape(summary.name)}, {escape(summary.started)}</h2>"
                     f"<pre>{escape(folder.spec())}</pre>")
    return "\n".join(parts)


def _flat(told: Any) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in dict(told).items():
        if isinstance(value, dict):
            found |= _flat(value)
        else:
            found[name] = f"{value:,.6g}" if isinstance(value, float) else str(value)
    return found


_SPIKE = """<h2>Spike, fault and recovery</h2>
<div class="plots">
<figure><figcaption>Queue length</figcaption><div id="spike-queue"></div></figure>
<figure><figcaption>Greatest latency over time</figcaption><div id="spike-series"></div></figure>
</div>"""
