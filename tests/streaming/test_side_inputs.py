"""Side inputs in streaming: who waits for which window, what a later pane changes, all views."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam import coders, pvalue
from apache_beam.testing import test_stream
from apache_beam.transforms import trigger, window
from apache_beam.transforms.window import TimestampedValue

from tests.streaming.harness import finished, jot, jotted, streaming

pytestmark = [pytest.mark.timeout(120, func_only=True)]


def script() -> Any:
    """A test stream with a main output and a side output, both at time 0."""
    return (
        test_stream.TestStream(coder=coders.FastPrimitivesCoder(), output_tags={"main", "side"})
        .advance_watermark_to(0, tag="main")
        .advance_watermark_to(0, tag="side")
    )


def windowed(pcoll: Any, name: str) -> Any:
    return pcoll | f"window {name}" >> beam.WindowInto(window.FixedWindows(10))


@pytest.mark.also_on_spark
def test_an_element_waits_until_the_window_of_its_side_input_is_there(tmp_path: Path) -> None:
    waited: list[int] = []
    out = tmp_path / "out"
    stream = (
        script()
        .add_elements([TimestampedValue("a", 1), TimestampedValue("b", 11)], tag="main")
        .add_elements([TimestampedValue(100, 2)], tag="side")
        .advance_watermark_to(10, tag="side")
        .add_elements([TimestampedValue("c", 3)], tag="main")
        .add_elements([TimestampedValue(200, 12)], tag="side")
        .advance_watermark_to_infinity(tag="main")
        .advance_watermark_to_infinity(tag="side")
    )
    p = streaming(shards=1)
    found = p | stream
    main, side = windowed(found["main"], "main"), windowed(found["side"], "side")
    main | beam.Map(lambda x, s: (x, s), pvalue.AsSingleton(side)) | jot(out)
    result = p.run()
    result._stream.on_epoch = lambda status: waited.append(status.pushed_back)
    result.wait_until_finish()
    assert sorted(jotted(out)) == [("a", 100), ("b", 200), ("c", 100)]
    assert jotted(out)[-1] == ("b", 200)
    # Both wait; the first singleton lets one go; the second the other.
    assert max(waited) == 2
    assert 1 in waited
    assert waited[-1] == 0


def test_every_kind_of_view_shows_the_window_it_belongs_to(tmp_path: Path) -> None:
    out = tmp_path / "out"
    stream = (
        script()
        .add_elements(
            [TimestampedValue(("k", 1), 1), TimestampedValue(("l", 2), 2),
             TimestampedValue(("k", 3), 11), TimestampedValue(("k", 4), 12)],
            tag="side",
        )
        .add_elements([TimestampedValue("x", 5), TimestampedValue("y", 15)], tag="main")
        .advance_watermark_to_infinity(tag="side")
        .advance_watermark_to_infinity(tag="main")
    )  # fmt: skip
    with streaming(shards=2) as p:
        found = p | stream
        main, side = windowed(found["main"], "main"), windowed(found["side"], "side")
        typed = side | beam.Map(lambda kv: kv).with_output_types(tuple[str, int])
        first = typed | beam.Filter(lambda kv: kv[1] in (1, 3))
        views: dict[str, Any] = {
            "singleton": (pvalue.AsSingleton(first), lambda view: view),
            "iterable": (pvalue.AsIter(typed), lambda view: sorted(view)),
            "list": (pvalue.AsList(typed), lambda view: sorted(view)),
            "dict": (pvalue.AsDict(first), lambda view: sorted(view.items())),
            "multimap": (pvalue.AsMultiMap(typed), lambda view: sorted(view["k"])),
        }
        for name, (view, shown) in views.items():
            (
                main
                | f"look {name}" >> beam.Map(
                    lambda x, view, name=name, shown=shown: (x, name, shown(view)), view
                )
                | f"jot {name}" >> jot(out)
            )
    x_all, y_all = [("k", 1), ("l", 2)], [("k", 3), ("k", 4)]
    assert sorted(jotted(out)) == [
        ("x", "dict", [("k", 1)]), ("x", "iterable", x_all), ("x", "list", x_all),
        ("x", "multimap", [1]), ("x", "singleton", ("k", 1)),
        ("y", "dict", [("k", 3)]), ("y", "iterable", y_all), ("y", "list", y_all),
        ("y", "multimap", [3, 4]), ("y", "singleton", ("k", 3)),
    ]


class Shift:
    """Maps a window to the one some seconds later."""

    def __init__(self, seconds: int) -> None:
        self._seconds = seconds

    def __call__(self, main: Any) -> Any:
        return window.IntervalWindow(main.start + self._seconds, main.end + self._seconds)


def shifted(pcoll: Any, seconds: int) -> Any:
    """A view of the window `seconds` away from the main one's."""
    view = pvalue.AsIter(pcoll)
    view._window_mapping_fn = Shift(seconds)
    return view


@pytest.mark.parametrize(("seconds", "seen"), [(-10, {"b": [1], "c": [2]}), (10, {"a": [2]})])
def test_a_mapping_may_ask_for_the_window_before_or_after(
    tmp_path: Path, seconds: int, seen: dict[str, list[int]]
) -> None:
    out = tmp_path / "out"
    stream = (
        script()
        .add_elements([TimestampedValue(1, 1)], tag="side")
        .add_elements([TimestampedValue("a", 1), TimestampedValue("b", 11)], tag="main")
        .advance_watermark_to(10, tag="side")
        .add_elements([TimestampedValue(2, 12)], tag="side")
        .add_elements([TimestampedValue("c", 21)], tag="main")
        .advance_watermark_to_infinity(tag="side")
        .advance_watermark_to_infinity(tag="main")
    )
    with streaming(shards=1) as p:
        found = p | stream
        main, side = windowed(found["main"], "main"), windowed(found["side"], "side")
        (
            main
            | beam.Map(lambda x, view: (x, sorted(view)), shifted(side, seconds))
            | beam.Filter(lambda pair: pair[1])
            | jot(out)
        )
    assert dict(jotted(out)) == seen


def test_a_later_pane_of_a_side_input_is_seen_by_elements_that_come_after_it(
    tmp_path: Path,
) -> None:
    out = tmp_path / "out"
    stream = (
        script()
        .add_elements([TimestampedValue(("s", 1), 1)], tag="side")
        .add_elements([TimestampedValue("a", 1)], tag="main")
        .add_elements([TimestampedValue(("s", 2), 2)], tag="side")
        .add_elements([TimestampedValue("b", 2)], tag="main")
        .advance_watermark_to_infinity(tag="side")
        .advance_watermark_to_infinity(tag="main")
    )
    with streaming(shards=1) as p:
        found = p | stream
        totals = (
            found["side"]
            | beam.WindowInto(
                window.FixedWindows(10),
                trigger=trigger.Repeatedly(trigger.AfterCount(1)),
                accumulation_mode=trigger.AccumulationMode.ACCUMULATING,
            )
            | beam.CombinePerKey(sum)
            | beam.Values()
        )
        main = windowed(found["main"], "main")
        main | beam.Map(lambda x, s: (x, max(s)), pvalue.AsList(totals)) | jot(out)
    assert sorted(jotted(out)) == [("a", 1), ("b", 3)]


def summed(side: Any, fires: Any, *, lateness: int = 0, size: int = 5) -> Any:
    """Sums of (key, number) that fire as they are told to, each pane on its own."""
    return (
        side
        | "side windows" >> beam.WindowInto(
            window.FixedWindows(size),
            trigger=fires,
            accumulation_mode=trigger.AccumulationMode.DISCARDING,
            allowed_lateness=lateness,
        )
        | beam.CombinePerKey(sum)
        | beam.Values()
    )


def test_an_element_sees_what_its_side_window_has_fired_last_and_waits_for_no_more(
    tmp_path: Path,
) -> None:
    """The script of Beam's `test_multi_triggered_gbk_side_input`, and an element after the end.

    The early pane lets a1 and a2 go. The last pane of a window has no new data: its sum is 0, and
    that is what a3 sees.
    """
    out = tmp_path / "out"
    stream = (
        script()
        .advance_watermark_to(3, tag="main")
        .add_elements([TimestampedValue("a1", 3)], tag="main")
        .advance_watermark_to(8, tag="main")
        .add_elements([TimestampedValue("a2", 8)], tag="main")
        .add_elements([TimestampedValue(("k", 100), 2)], tag="side")
        .add_elements([TimestampedValue(("k", 400), 7)], tag="side")
        .advance_watermark_to_infinity(tag="side")
        .add_elements([TimestampedValue("a3", 9)], tag="main")
        .advance_watermark_to_infinity(tag="main")
    )
    with streaming(shards=2) as p:
        found = p | stream
        side = summed(found["side"], trigger.AfterWatermark(early=trigger.AfterCount(1)))
        main = found["main"] | "main windows" >> beam.WindowInto(window.FixedWindows(5))
        main | beam.Map(lambda x, s: (x, s), pvalue.AsList(side)) | jot(out)
    assert jotted(out) == [("a1", [100]), ("a2", [400]), ("a3", [0])]


def test_sliding_elements_go_when_a_clock_fires_one_side_window_and_the_other_runs_out(
    tmp_path: Path,
) -> None:
    """Of x in [-5, 5) and [0, 10), one part asks for the side window [0, 5), one for [5, 10).

    The first gets data and fires by the clock. The second stays empty; its trigger might fire
    until late data may not come any more, at 10 + 20.
    """
    out = tmp_path / "out"
    waited: list[int] = []
    stream = (
        script()
        .add_elements([TimestampedValue("x", 3)], tag="main")
        .add_elements([TimestampedValue(("k", 100), 2)], tag="side")
        .advance_processing_time(10)
        .advance_watermark_to(29, tag="side")
        .add_elements([TimestampedValue("y", 4)], tag="main")
        .advance_watermark_to(31, tag="side")
        .advance_watermark_to_infinity(tag="main")
        .advance_watermark_to_infinity(tag="side")
    )
    p = streaming(shards=1)
    found = p | stream
    clock = trigger.Repeatedly(trigger.AfterProcessingTime(5))
    side = summed(found["side"], clock, lateness=20)
    main = found["main"] | "slide" >> beam.WindowInto(window.SlidingWindows(10, 5))
    (
        main
        | beam.Map(lambda x, s, w=beam.DoFn.WindowParam: (x, int(w.end), s), pvalue.AsList(side))
        | jot(out)
    )
    result = p.run()
    result._stream.on_epoch = lambda status: waited.append(status.pushed_back)
    result.wait_until_finish()
    assert jotted(out)[:2] == [("x", 5, [100]), ("y", 5, [100])]
    assert sorted(jotted(out)[2:]) == [("x", 10, []), ("y", 10, [])]
    # x in both windows; one goes; y in the second joins it; all are gone.
    assert [count for i, count in enumerate(waited) if waited[i - 1 : i] != [count]] == [
        0, 2, 1, 2, 0,
    ]


def test_an_empty_side_input_of_a_closed_window_is_there_and_empty(tmp_path: Path) -> None:
    out = tmp_path / "out"
    stream = (
        script()
        .add_elements([TimestampedValue("a", 1)], tag="main")
        .advance_watermark_to(10, tag="side")
        .advance_watermark_to_infinity(tag="main")
        .advance_watermark_to_infinity(tag="side")
    )
    p = streaming(shards=1)
    found = p | stream
    main, side = windowed(found["main"], "main"), windowed(found["side"], "side")
    main | beam.Map(lambda x, s: (x, list(s)), pvalue.AsIter(side)) | jot(out)
    finished(p)
    assert jotted(out) == [("a", [])]
