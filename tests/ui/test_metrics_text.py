"""The text for Prometheus, read back by a strict reader of its format."""

from __future__ import annotations

import re

from headrace.plan.epoch_records import RetryRecord
from headrace.ui.graph import Graph, StageNode
from headrace.ui.history import History
from headrace.ui.metrics_text import family_text, metrics_text
from tests.ui.test_findings import GRAPH, epoch

NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
LINE = re.compile(r'([a-zA-Z_:][a-zA-Z0-9_:]*)\{(.*)\} (-?(?:\d+\.?\d*(?:e[+-]?\d+)?|Inf)|NaN)')
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\\\|\\"|\\n)*)"(,|$)')

Samples = dict[tuple[tuple[str, str], ...], float]


def read(text: str) -> dict[str, tuple[str, Samples]]:
    """Read the text format; what it does not allow fails."""
    assert text.endswith("\n")
    found: dict[str, tuple[str, Samples]] = {}
    helped = name = ""
    for line in text.splitlines():
        if line.startswith("# HELP "):
            helped = line.split(" ")[2]
            assert NAME.fullmatch(helped)
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name == helped and name not in found  # help, type, samples; each name once
            assert kind in ("counter", "gauge")
            assert name.endswith("_total") == (kind == "counter")
            found[name] = (kind, {})
        else:
            matched = LINE.fullmatch(line)
            assert matched is not None, line
            assert matched[1] == name, line
            labels, rest = [], matched[2]
            while rest:
                one = LABEL.match(rest)
                assert one is not None, rest
                value = re.sub(r"\\(.)", lambda m: "\n" if m[1] == "n" else m[1], one[2])
                labels.append((one[1], value))
                rest = rest[one.end() :]
            assert tuple(labels) not in found[name][1], line  # no sample twice
            found[name][1][tuple(labels)] = float(matched[3])
    return found


def test_what_was_counted_can_be_read_back() -> None:
    history = History(GRAPH)
    history.retry(RetryRecord(epoch=1, error="E", step=""))
    for number in (1, 2):
        told = {"waited": 0.25, "published": {"Out/Publish": 0.75}}
        history.epoch(epoch(number, late={1: 3}, waiting={2: 4}, **told))
    found = read(metrics_text(history.seen()))
    run = ("pipeline", "shop")
    assert found["headrace_epochs_total"] == ("counter", {(run,): 2.0})
    assert found["headrace_retries_total"][1] == {(run,): 1.0}
    assert found["headrace_elements_in_total"][1] == {(run, ("step", "Join")): 2_000.0}
    assert found["headrace_late_elements_total"][1] == {(run, ("step", "Join")): 6.0}
    assert found["headrace_waiting_elements"] == ("gauge", {(run, ("step", "Dedup")): 4.0})
    assert found["headrace_watermark_seconds"][1][run, ("step", "Join"), ("side", "in")] == 20.0
    assert found["headrace_state_rows"][1][run, ("superstep", "1")] == 2_000.0
    parts = {labels[1][1]: s for labels, s in found["headrace_epoch_part_seconds_total"][1].items()}
    assert parts.keys() == {"tasks", "sinks", "commit", "publishing"}
    assert parts["publishing"] == 0.5
    published = found["headrace_publishing_seconds_total"]
    assert published == ("counter", {(run, ("sink", "Out/Publish")): 1.5})


def test_a_run_before_its_first_epoch_has_metrics_too() -> None:
    assert read(metrics_text(History(GRAPH).seen()))["headrace_up"][1] == {
        (("pipeline", "shop"),): 1.0
    }


def test_names_of_steps_are_escaped_and_not_doubled() -> None:
    odd = 'a "b" \\ c\nd {e="f"}, # HELP x'
    stages = {n: StageNode(number=n, superstep=1, name=odd, steps=(odd,)) for n in (1, 2)}
    history = History(Graph(name=odd, shards=1, stages=stages))
    history.epoch(epoch(1, late={1: 1, 2: 1}, sinks={odd: 1.0}, waiting={1: 1, 2: 1}))
    found = read(metrics_text(history.seen()))
    labels = (("pipeline", odd), ("step", odd))
    assert found["headrace_late_elements_total"][1] == {labels: 2.0}
    assert (("pipeline", odd), ("sink", odd)) in found["headrace_sink_seconds_total"][1]


def test_keys_and_what_exceptions_said_are_in_no_metric() -> None:
    history = History(GRAPH, samples=True)
    history.retry(RetryRecord(epoch=1, error="E", step="", text="secret"))
    history.epoch(epoch(1, samples={1: ("secret",)}))
    text = metrics_text(history.seen())
    assert "secret" not in text
    assert "k1" not in text


def test_a_metric_without_samples_is_left_out() -> None:
    assert family_text("a", "gauge", "b", []) == ""
