"""A windowing is described so that a person can see what changed."""

from __future__ import annotations

from typing import Any

import apache_beam as beam
import pytest
from apache_beam.runners.pipeline_context import PipelineContext
from apache_beam.transforms import trigger, window

from headrace.compiler.proto.windowing_words import words_of


def words(fn: Any, **more: Any) -> dict[str, str]:
    strategy = beam.Windowing(fn, **more)
    return words_of(strategy.to_runner_api(PipelineContext()))


@pytest.mark.parametrize(("fn", "told"), [
    (window.FixedWindows(10), "fixed windows of 10 s"),
    (window.FixedWindows(60, 15), "fixed windows of 60 s from 15 s on"),
    (window.SlidingWindows(30, 0.5), "sliding windows of 30 s every 0.5 s"),
    (window.Sessions(600), "sessions with a gap of 600 s"),
    (window.GlobalWindows(), "the global window"),
], ids=lambda value: value if isinstance(value, str) else "")  # fmt: skip
def test_windows_are_told_with_their_lengths(fn: Any, told: str) -> None:
    assert words(fn)["windows"] == told


class Own(window.FixedWindows):  # type: ignore[misc]
    """A class that only this program has."""

    def to_runner_api_parameter(self, context: Any) -> Any:
        return window.WindowFn.to_runner_api_parameter(self, context)


def test_windows_of_a_function_of_ones_own_are_not_unpickled() -> None:
    assert words(Own(10))["windows"].startswith("windows of a function of your own (beam:window")


def test_trigger_panes_and_lateness_are_told() -> None:
    found = words(
        window.FixedWindows(10), triggerfn=trigger.AfterWatermark(early=trigger.AfterCount(3)),
        accumulation_mode=trigger.AccumulationMode.ACCUMULATING, allowed_lateness=30,
    )
    assert "AfterCount(3)" in found["trigger"]
    assert (found["panes"], found["allowed lateness"]) == ("accumulating", "30 s")
