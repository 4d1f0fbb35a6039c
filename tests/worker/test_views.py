from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from apache_beam import coders, pvalue
from apache_beam.coders.coder_impl import StreamCoderImpl, create_OutputStream
from apache_beam.internal import pickler
from apache_beam.portability import common_urns
from apache_beam.portability.api import beam_fn_api_pb2
from apache_beam.runners.worker.bundle_processor import StateBackedSideInputMap
from apache_beam.transforms import sideinputs, trigger
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.window import (
    FixedWindows,
    GlobalWindow,
    GlobalWindows,
    IntervalWindow,
)
from apache_beam.utils import windowed_value
from apache_beam.utils.timestamp import MAX_TIMESTAMP, MIN_TIMESTAMP
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import HeadraceError, StateError
from headrace.state.store import MemoryStore
from headrace.worker.sideinputs import view_rows, views
from headrace.worker.sideinputs.arrivals import lookback_of
from headrace.worker.sideinputs.firings import Firing, firing_of
from headrace.worker.sideinputs.side_inputs import SideInputs
from headrace.worker.sideinputs.views import StoredSide

BEGINNING, END = MIN_TIMESTAMP.micros, MAX_TIMESTAMP.micros
SECOND = 1_000_000
INTERVALS = coders.coders.IntervalWindowCoder()
NUMBERS = coders.WindowedValueCoder(coders.VarIntCoder(), INTERVALS)
PAIRS = coders.WindowedValueCoder(
    coders.TupleCoder((coders.StrUtf8Coder(), coders.VarIntCoder())), INTERVALS
)
DISCARDING = trigger.AccumulationMode.DISCARDING
ACCUMULATING = trigger.AccumulationMode.ACCUMULATING


def fires(triggerfn: Any, mode: Any = DISCARDING, lateness: int = 0) -> Windowing:
    return Windowing(
        FixedWindows(10), triggerfn=triggerfn, accumulation_mode=mode, allowed_lateness=lateness
    )


ONCE = Windowing(FixedWindows(10))
LATE = Windowing(FixedWindows(10), allowed_lateness=100)
OFTEN = fires(trigger.Repeatedly(trigger.AfterCount(1)))


def window(number: int) -> IntervalWindow:
    return IntervalWindow(number * 10, number * 10 + 10)


def name(number: int) -> bytes:
    return bytes(INTERVALS.encode(window(number)))


def passed(number: int) -> int:
    """Give the first watermark that has passed a window."""
    return (number * 10 + 10) * SECOND


def key(text: str) -> bytes:
    return bytes(coders.StrUtf8Coder().get_impl().encode_nested(text))


def pane(index: int) -> Any:
    early = windowed_value.PaneInfoTiming.EARLY
    return windowed_value.PaneInfo(index == 0, False, early, index, -1)


def payload(coder: Any, *rows: tuple[Any, ...]) -> bytes:
    """Encode (value, window numbers, ..., pane)."""
    out = create_OutputStream()
    for value, *where in rows:
        info = windowed_value.PANE_INFO_UNKNOWN
        if where and not isinstance(where[-1], int):
            info = where.pop()
        element = windowed_value.create(value, 0, tuple(map(window, where)), info)
        coder.get_impl().encode_to_stream(element, out, True)
    return bytes(out.get())


class Feed:
    """A channel on one store, epoch after epoch."""

    def __init__(
        self, windowing: Any, coder: Any = NUMBERS, *, multimap: bool = False,
        lookback: int | None = 0,
    ) -> None:
        self.coder = coder
        self.store = MemoryStore()
        self.make: Callable[[], StoredSide] = partial(
            StoredSide, 4, coder, windowing, multimap, lookback
        )
        self.side = self.make()
        self.mark = BEGINNING

    def begin(self, *rows: tuple[Any, ...], mark: int | None = None) -> StoredSide:
        self.side.attach(self.store, BEGINNING)
        if rows:
            self.side.add_rows(payload(self.coder, *rows))
        self.mark = self.mark if mark is None else mark
        self.side.advance(self.mark)
        return self.side

    def epoch(self, *rows: tuple[Any, ...], mark: int | None = None) -> None:
        self.begin(*rows, mark=mark).flush()


# -- firings


AFTER = trigger.AfterWatermark
COUNT = trigger.AfterCount(1)


@pytest.mark.parametrize(
    ("windowing", "expected"),
    [
        (ONCE, Firing.ONCE),
        (LATE, Firing.LATE),
        (fires(AFTER()), Firing.ONCE),
        (fires(AFTER(), lateness=5), Firing.ONCE),
        (fires(AFTER(late=COUNT)), Firing.ONCE),
        (fires(AFTER(late=COUNT), lateness=5), Firing.LATE),
        (fires(trigger.Repeatedly(AFTER()), lateness=5), Firing.LATE),
        (fires(trigger.Repeatedly(AFTER())), Firing.ONCE),
        (fires(AFTER(early=COUNT)), Firing.OFTEN),
        (fires(trigger.AfterProcessingTime(5)), Firing.OFTEN),
        (fires(COUNT), Firing.OFTEN),
        (fires(trigger.AfterAny(AFTER(), COUNT)), Firing.OFTEN),
    ],
)
def test_trigger_and_lateness_tell_how_a_side_input_fires(
    windowing: Windowing, expected: Firing
) -> None:
    assert firing_of(windowing) is expected


@pytest.mark.parametrize(
    ("triggerfn", "waits"),
    [
        (trigger.DefaultTrigger(), False),
        (AFTER(early=COUNT, late=COUNT), False),
        (trigger.Repeatedly(AFTER()), False),
        (COUNT, True),
        (trigger.Repeatedly(trigger.AfterProcessingTime(5)), True),
        (trigger.Always(), True),
        (trigger.AfterAny(COUNT, AFTER()), False),
        (trigger.OrFinally(COUNT, AFTER()), False),
        (trigger.AfterAll(COUNT, AFTER()), True),
        (trigger.AfterEach(COUNT, AFTER()), True),
        (trigger.AfterEach(AFTER(), COUNT), False),
    ],
)
def test_who_does_not_ask_for_the_watermark_may_fire_first_as_long_as_late_data_may_come(
    triggerfn: Any, waits: bool
) -> None:
    feed = Feed(fires(triggerfn, lateness=7))
    side = feed.begin(mark=passed(1))
    assert side.ready(window(1)) is not waits
    side.advance(passed(1) + 7 * SECOND - 1)
    assert side.ready(window(1)) is not waits
    side.advance(passed(1) + 7 * SECOND)
    assert side.ready(window(1)) and side.values(name(1)) == []


def test_first_firing_after_the_end_of_a_window_is_what_its_view_shows() -> None:
    feed = Feed(fires(COUNT, lateness=7))
    feed.epoch(mark=passed(1))
    side = feed.begin((5, 1, pane(0)), mark=passed(1) + SECOND)
    assert side.ready(window(1)) and side.values(name(1)) == [5]


def test_end_of_time_passes_every_deadline() -> None:
    windowing = Windowing(
        GlobalWindows(), triggerfn=COUNT, accumulation_mode=DISCARDING, allowed_lateness=1 << 40
    )
    coder = coders.WindowedValueCoder(coders.VarIntCoder(), coders.coders.GlobalWindowCoder())
    side = Feed(windowing, coder).begin(mark=END - 1)
    assert not side.ready(GlobalWindow())
    side.advance(END)
    assert side.ready(GlobalWindow())


def test_last_pane_takes_the_place_of_what_fired_early_even_if_it_says_nothing_new() -> None:
    """The sum of an empty pane is 0; a pane that puts nothing out leaves what was there."""
    feed = Feed(fires(AFTER(early=COUNT)))
    side = feed.begin((100, 1, pane(0)))
    assert side.ready(window(1)) and side.values(name(1)) == [100]
    side.flush()
    assert feed.begin(mark=passed(1)).values(name(1)) == [100]
    feed.side.flush()
    assert feed.begin((0, 1, pane(1))).values(name(1)) == [0]


def test_window_that_fires_at_its_end_is_ready_when_the_watermark_passed_it_data_or_not() -> None:
    feed = Feed(ONCE)
    side = feed.begin((7, 1), mark=passed(1) - 1)
    assert not side.ready(window(1))
    side.flush()
    side = feed.begin(mark=passed(1))
    assert side.ready(window(1)) and side.ready(window(0)) and not side.ready(window(2))
    assert side.values(name(1)) == [7]
    assert side.values(name(0)) == []


def test_elements_of_a_window_that_fires_once_add_up_over_epochs() -> None:
    feed = Feed(ONCE)
    feed.epoch((1, 1), (2, 1, 2))
    feed.epoch((3, 1))
    side = feed.begin((4, 1), (5, 2))
    assert side.values(name(1)) == [1, 2, 3, 4]
    assert side.values(name(2)) == [2, 5]


def test_advance_names_the_windows_that_got_elements_in_this_epoch() -> None:
    feed = Feed(OFTEN)
    feed.epoch((1, 1))
    feed.side.attach(feed.store, BEGINNING)
    feed.side.add_rows(payload(NUMBERS, (1, 2, 3)))
    assert feed.side.advance(BEGINNING) == {name(2), name(3)}


@pytest.mark.parametrize("mode", [DISCARDING, ACCUMULATING])
def test_window_that_fires_early_is_ready_with_its_first_data_and_a_later_firing_replaces(
    mode: Any,
) -> None:
    feed = Feed(fires(trigger.Repeatedly(trigger.AfterProcessingTime(1)), mode))
    side = feed.begin((1, 1), (2, 1))
    assert side.ready(window(1)) and not side.ready(window(2))
    assert side.values(name(1)) == [1, 2]
    side.flush()
    side = feed.begin((9, 2))
    assert side.ready(window(1)) and side.values(name(1)) == [1, 2]
    side.flush()
    side = feed.begin((3, 1))
    assert side.values(name(1)) == [3]
    side.flush()
    assert feed.begin().values(name(1)) == [3]
    assert feed.side.ready(window(8)) is False
    feed.side.advance(passed(8))
    assert feed.side.ready(window(8)) is True


def test_of_two_firings_in_one_epoch_the_later_one_counts_whichever_comes_first() -> None:
    feed = Feed(OFTEN)
    assert feed.begin((1, 1, pane(0)), (2, 1, pane(1)), (3, 2, pane(0))).values(name(1)) == [2]
    assert feed.side.values(name(2)) == [3]
    feed.side.flush()
    assert feed.begin((4, 1, pane(3)), (5, 1, pane(2))).values(name(1)) == [4]
    feed.side.flush()
    assert feed.begin().values(name(1)) == [4]


def test_pairs_count_firings_key_by_key_within_one_epoch() -> None:
    feed = Feed(OFTEN, PAIRS)
    side = feed.begin((("a", 1), 1, pane(4)), (("a", 2), 1, pane(5)), (("b", 3), 1, pane(0)))
    assert sorted(side.values(name(1))) == [("a", 2), ("b", 3)]


def test_window_with_late_panes_gathers_before_its_end_and_is_replaced_after_it() -> None:
    feed = Feed(LATE)
    feed.epoch((1, 1))
    side = feed.begin((2, 1), mark=passed(1))  # the watermark passes after the elements
    assert side.values(name(1)) == [1, 2]
    side.flush()
    feed.side = feed.make()
    assert feed.begin((3, 1)).values(name(1)) == [3]
    feed.side.flush()
    assert feed.begin((4, 2)).values(name(1)) == [3]


def test_elements_of_the_epoch_in_which_the_watermark_passes_are_no_late_firing() -> None:
    feed = Feed(LATE)
    feed.epoch((1, 1))
    side = feed.begin(mark=passed(1))
    side.add_rows(payload(NUMBERS, (2, 1)))
    assert side.values(name(1)) == [1, 2]


# -- multimaps


def test_multimap_replaces_the_values_of_the_keys_that_came() -> None:
    feed = Feed(OFTEN, PAIRS, multimap=True)
    feed.epoch((("a", 1), 1), (("a", 2), 1), (("b", 3), 1))
    side = feed.begin((("a", 4), 1), (("c", 5), 1))
    expected = {key("a"): ("a", [4]), key("b"): ("b", [3]), key("c"): ("c", [5])}
    assert side.lookup(name(1), key("a")) == [4]
    assert side.lookup(name(1), key("b")) == [3]
    assert side.multimap(name(1)) == expected
    side.flush()
    assert feed.begin().multimap(name(1)) == expected
    assert feed.side.lookup(name(1), key("z")) == []
    assert feed.side.multimap(name(2)) == {}


def test_multimap_of_a_window_that_fires_once_gathers_the_values_of_each_key() -> None:
    feed = Feed(ONCE, PAIRS, multimap=True)
    for n in range(4):
        feed.epoch((("a", n), 1), (("b", 10 + n), 1, 2))
    side = feed.begin((("a", 4), 1))
    assert side.lookup(name(1), key("a")) == [0, 1, 2, 3, 4]
    assert side.lookup(name(2), key("b")) == [10, 11, 12, 13]
    assert side.multimap(name(1)) == {
        key("a"): ("a", [0, 1, 2, 3, 4]), key("b"): ("b", [10, 11, 12, 13])
    }
    assert sorted(side.values(name(2))) == [("b", 10 + n) for n in range(4)]


def test_late_firing_takes_all_rows_of_a_key_away() -> None:
    feed = Feed(LATE, PAIRS, multimap=True)
    for n in range(3):
        feed.epoch((("a", n), 1), (("b", n), 1))
    feed.epoch(mark=passed(1))
    feed.epoch((("a", 9), 1))
    assert feed.begin().multimap(name(1)) == {key("a"): ("a", [9]), key("b"): ("b", [0, 1, 2])}
    a_rows = [row for row in feed.store.rows if b"k" + bytes([2]) + key("a") in row]
    assert len(a_rows) == 1


def test_elements_without_keys_cannot_be_read_by_key() -> None:
    feed = Feed(ONCE)
    with pytest.raises(HeadraceError, match="side input 4 is read by key"):
        feed.begin((1, 1)).multimap(name(1))


def test_long_keys_are_told_apart() -> None:
    feed = Feed(ONCE, PAIRS, multimap=True)
    feed.epoch((("x" * 300 + "1", 1), 1), (("x" * 300 + "2", 2), 1))
    assert feed.begin().lookup(name(1), key("x" * 300 + "2")) == [2]


# -- cost


class CountingImpl(StreamCoderImpl):  # type: ignore[misc]
    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.decoded = 0

    def encode_to_stream(self, value: Any, out: Any, nested: bool) -> None:
        self.inner.encode_to_stream(value, out, nested)

    def decode_from_stream(self, stream: Any, nested: bool) -> Any:
        self.decoded += 1
        return self.inner.decode_from_stream(stream, nested)


class CountingCoder(coders.Coder):  # type: ignore[misc]
    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.impl = CountingImpl(inner.get_impl())

    def get_impl(self) -> Any:
        return self.impl

    def is_kv_coder(self) -> bool:
        return bool(self.inner.is_kv_coder())

    def key_coder(self) -> Any:
        return self.inner.key_coder()


def counting(windowed: Any) -> tuple[Any, CountingImpl]:
    coder = CountingCoder(windowed.wrapped_value_coder)
    return coders.WindowedValueCoder(coder, INTERVALS), coder.impl


def test_values_are_decoded_only_if_asked_for_and_then_once_for_all_epochs() -> None:
    coder, impl = counting(NUMBERS)
    feed = Feed(ONCE, coder)
    feed.epoch(*[(n, n % 2) for n in range(100)])
    feed.side = feed.make()  # another process: knows nothing of what was decoded on arrival
    impl.decoded = 0
    feed.epoch()
    assert impl.decoded == 0
    for _ in range(3):
        side = feed.begin()
        assert side.values(name(1)) is side.values(name(1))
        side.flush()
    assert impl.decoded == 50
    side = feed.begin((100, 1))
    assert side.values(name(1)) == [*range(1, 100, 2), 100]
    side.flush()
    assert feed.begin().values(name(1)) == [*range(1, 100, 2), 100]
    assert impl.decoded == 51


def test_lookup_decodes_the_values_of_its_key_alone() -> None:
    coder, impl = counting(PAIRS)
    feed = Feed(ONCE, coder, multimap=True)
    feed.epoch(*[((str(n), n), 1) for n in range(100)])
    impl.decoded = 0
    assert feed.begin().lookup(name(1), key("42")) == [42]
    assert feed.side.lookup(name(1), key("42")) == [42]
    assert impl.decoded == 1


def test_decoded_view_is_never_used_for_other_content() -> None:
    """An epoch fails, and its second run gets other elements."""
    feed = Feed(OFTEN)
    feed.epoch((1, 1))
    rows = dict(feed.store.rows)
    side = feed.begin((2, 1))
    assert side.values(name(1)) == [2]
    side.flush()
    feed.store.rows = rows
    assert feed.begin().values(name(1)) == [1]
    feed.side.flush()
    side = feed.begin((3, 1))
    assert side.values(name(1)) == [3]
    side.flush()
    assert feed.begin().values(name(1)) == [3]


def test_views_that_end_with_equal_elements_are_told_apart() -> None:
    feed = Feed(ONCE)
    for first in (1, 9):
        feed.store.rows = {}
        feed.epoch((first, 1))
        feed.epoch((2, 1))
        assert feed.begin().values(name(1)) == [first, 2]


def test_view_of_an_epoch_that_failed_does_not_change_the_view_it_began_with() -> None:
    feed = Feed(ONCE, PAIRS, multimap=True)
    feed.epoch((("a", 1), 1))
    for _ in range(3):
        assert feed.begin((("a", 2), 1)).multimap(name(1)) == {key("a"): ("a", [1, 2])}
    listed = Feed(ONCE)
    listed.epoch((1, 1))
    for _ in range(3):
        assert listed.begin((2, 1)).values(name(1)) == [1, 2]


def test_appending_writes_what_came_and_not_what_was_there() -> None:
    feed = Feed(ONCE)
    feed.epoch(*[(n, 1) for n in range(1000)])
    before = dict(feed.store.rows)
    feed.epoch((1, 1))
    changed = {row: v for row, v in feed.store.rows.items() if before.get(row) != v}
    assert before.keys() <= feed.store.rows.keys()
    assert len(changed) == 2 and sum(map(len, changed.values())) < 100


def test_large_epoch_is_cut_into_rows_and_read_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view_rows, "MAX_CHUNK_BYTES", 100)
    feed = Feed(OFTEN)
    feed.side.attach(feed.store, BEGINNING)
    for start in range(0, 100, 5):
        feed.side.add_rows(payload(NUMBERS, *[(n, 1) for n in range(start, start + 5)]))
    feed.side.flush()
    assert len(feed.store.rows) > 5
    feed.side = feed.make()
    assert feed.begin().values(name(1)) == list(range(100))
    feed.side.flush()
    feed.epoch((7, 1))
    assert len(feed.store.rows) == 2  # replaced: the other rows are gone


def test_views_between_epochs_are_bounded_but_the_latest_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(views, "MAX_CACHED_BYTES", 50)
    coder, impl = counting(NUMBERS)
    feed = Feed(ONCE, coder)
    feed.epoch(*[(n, n % 2) for n in range(100)])
    impl.decoded = 0
    for number, decoded in [(0, 50), (0, 50), (1, 100), (1, 100), (0, 150)]:
        feed.begin().values(name(number))
        feed.side.flush()
        assert impl.decoded == decoded


# -- life


@pytest.mark.parametrize("multimap", [False, True])
def test_windows_before_the_watermark_are_forgotten(multimap: bool) -> None:
    feed = Feed(ONCE, PAIRS, multimap=multimap)
    feed.epoch(*[(("a", n), n) for n in range(5)])
    feed.begin((("a", 9), 1), (("a", 9), 4))
    feed.side.expire(passed(2))  # window 2 ends with its last moment before this watermark
    feed.side.flush()
    left = [feed.begin().values(name(n)) for n in range(5)]
    assert left == [[], [], [], [("a", 3)], [("a", 4), ("a", 9)]]


def test_window_is_kept_until_its_last_moment_is_before_the_watermark() -> None:
    feed = Feed(ONCE)
    feed.epoch((1, 1))
    assert feed.begin().expire(passed(1) - 1) == 0
    assert feed.side.expire(passed(1)) == 2  # the head and a chunk
    feed.side.flush()
    assert feed.store.rows == {}


def test_lookback_keeps_windows_longer_and_none_keeps_them_for_ever() -> None:
    back = Feed(ONCE, lookback=20 * SECOND)
    back.epoch((1, 1))
    assert back.begin().expire(passed(1) + 20 * SECOND - 1) == 0
    assert back.side.expire(passed(1) + 20 * SECOND) == 2
    ever = Feed(ONCE, lookback=None)
    ever.epoch((1, 1))
    assert ever.begin().expire(END) == 0


def test_watermark_of_late_firings_is_not_forgotten_with_old_windows() -> None:
    feed = Feed(LATE)
    feed.epoch((1, 8), mark=passed(8))
    feed.begin().expire(passed(5))
    feed.side.flush()
    assert feed.begin((2, 8), mark=BEGINNING).values(name(8)) == [2]


def test_list_and_multimap_of_one_channel_can_share_a_store() -> None:
    store = MemoryStore()
    sides = [StoredSide(4, PAIRS, ONCE, multimap) for multimap in (False, True)]
    for side in sides:
        side.attach(store, BEGINNING)
        side.add_rows(payload(PAIRS, (("a", 1), 1)))
        side.flush()
        side.attach(store, BEGINNING)
    assert [side.values(name(1)) for side in sides] == [[("a", 1)], [("a", 1)]]
    assert [side.multimap(name(1)) for side in sides] == [{key("a"): ("a", [1])}] * 2
    sides[0].expire(END)
    sides[1].flush()
    sides[1].attach(store, BEGINNING)
    assert sides[1].lookup(name(1), key("a")) == [1]


def test_epoch_that_failed_leaves_nothing_behind() -> None:
    feed = Feed(OFTEN)
    feed.begin((1, 1), mark=passed(3))
    side = feed.side
    side.attach(feed.store, BEGINNING)
    assert not side.ready(window(1)) and side.values(name(1)) == []
    assert side.advance(BEGINNING) == set()


def test_channel_is_not_to_be_used_between_epochs() -> None:
    feed = Feed(OFTEN)
    feed.epoch((1, 1))
    with pytest.raises(StateError, match="side input 4 is used outside of an epoch"):
        feed.side.ready(window(1))


def test_missing_row_is_an_error_and_not_an_empty_view() -> None:
    feed = Feed(ONCE)
    feed.epoch((1, 1))
    feed.side = feed.make()
    (chunk,) = [row for row in feed.store.rows if b"c\x00\x00\x00\x00" in row]
    feed.store.delete(chunk)
    with pytest.raises(StateError, match="side input 4 is missing"):
        feed.begin().values(name(1))


# -- mappings


def test_lookback_is_nothing_for_beams_mappings_and_unknown_for_others() -> None:
    fixed = sideinputs.default_window_mapping_fn(FixedWindows(10))
    globally = sideinputs.default_window_mapping_fn(GlobalWindows())
    assert lookback_of(pickler.loads(pickler.dumps(fixed))) == 0
    assert lookback_of(pickler.loads(pickler.dumps(globally))) == 0

    def before(main: Any) -> Any:
        return window(int(main.start.seconds()) // 10 - 1)

    assert lookback_of(before) is None
    before.maximum_lookback = 10  # type: ignore[attr-defined]
    assert lookback_of(before) == 10 * SECOND


# -- as Beam asks


class Handler:
    """Beam's side of the conversation: hands state keys on."""

    def __init__(self, sides: SideInputs) -> None:
        self.sides = sides

    def blocking_get(self, state_key: Any, coder: Any) -> Any:
        del coder
        return self.sides.read(state_key)


@pytest.mark.parametrize("bulk", [False, True])
def test_beams_own_views_read_lists_and_multimaps(bulk: bool) -> None:
    feed = Feed(ONCE, PAIRS, multimap=True)
    feed.epoch((("a", 1), 1), (("b", 2), 1))
    feed.begin((("a", 3), 1))
    sides = SideInputs()
    sides.bind({("do", "map"): feed.side, ("do", "list"): feed.side})
    mapping = sideinputs.default_window_mapping_fn(FixedWindows(10))

    def view(tag: str, urn: str, make: Any) -> Any:
        data = pvalue.SideInputData(urn, mapping, make)
        return StateBackedSideInputMap(Handler(sides), "do", tag, data, PAIRS, bulk)[window(1)]

    multimap = view("map", common_urns.side_inputs.MULTIMAP.urn, lambda it: it)
    assert [sorted(multimap[k]) for k in ("a", "b", "c")] == [[1, 3], [2], []]
    listed = view("list", common_urns.side_inputs.ITERABLE.urn, sorted)
    assert listed == [("a", 1), ("a", 3), ("b", 2)]


def test_keys_can_be_asked_for_and_unknown_state_is_refused() -> None:
    feed = Feed(ONCE, PAIRS, multimap=True)
    feed.begin((("a", 1), 1), (("b", 2), 1))
    sides = SideInputs()
    sides.bind({("do", "map"): feed.side})
    asked = beam_fn_api_pb2.StateKey.MultimapKeysSideInput(
        transform_id="do", side_input_id="map", window=name(1)
    )
    state_key = beam_fn_api_pb2.StateKey(multimap_keys_side_input=asked)
    assert sorted(sides.read(state_key)) == ["a", "b"]
    bag = beam_fn_api_pb2.StateKey(bag_user_state=beam_fn_api_pb2.StateKey.BagUserState())
    with pytest.raises(HeadraceError, match="bag_user_state"):
        sides.read(bag)


# -- against dicts


elements = st.tuples(
    st.tuples(st.sampled_from("abc"), st.integers(0, 99)),
    st.lists(st.integers(0, 2), min_size=1, max_size=3, unique=True),
)
epochs = st.lists(
    st.tuples(st.lists(elements, max_size=6), st.booleans(), st.booleans(), st.integers(0, 2)),
    max_size=8,
)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from([ONCE, OFTEN]), st.booleans(), epochs)
def test_views_hold_what_a_dict_of_lists_would_hold(
    windowing: Windowing, multimap: bool, script: Any
) -> None:
    """Epochs come in several super tuples, fail and are run again, in new processes or old ones."""
    feed = Feed(windowing, PAIRS, multimap=multimap)
    model: dict[int, list[tuple[str, int]]] = {0: [], 1: [], 2: []}
    for arriving, fails, rebuilt, asked in script:
        rows = [(value, *where) for value, where in arriving]
        if fails:
            before = dict(feed.store.rows)
            feed.begin(*rows[::-1])
            feed.side.values(name(asked))
            feed.side.flush()
            feed.store.rows = before
        if rebuilt:
            feed.side = feed.make()
        for number in model:
            came = [value for value, where in arriving if number in where]
            keys = {k for k, _ in came}
            if windowing is OFTEN and came:
                kept = [pair for pair in model[number] if multimap and pair[0] not in keys]
                model[number] = kept + came
            else:
                model[number] = model[number] + came
        feed.side.attach(feed.store, BEGINNING)
        for row in rows:
            feed.side.add_rows(payload(PAIRS, row))
        for letter in "abc":  # before the whole view is asked for: key by key from the store
            expected = [v for k, v in model[asked] if k == letter]
            assert feed.side.lookup(name(asked), key(letter)) == expected
        assert Counter(feed.side.values(name(asked))) == Counter(model[asked])
        feed.side.flush()
    feed.side = feed.make()
    feed.begin()
    for number, left in model.items():
        assert Counter(feed.side.values(name(number))) == Counter(left)
        found = {k: values for k, values in feed.side.multimap(name(number)).values()}
        assert found == {k: [v for o, v in left if o == k] for k, _ in left}
