from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest
from apache_beam import coders
from apache_beam.coders.coder_impl import create_OutputStream
from apache_beam.transforms import sideinputs, trigger
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.window import (
    FixedWindows,
    GlobalWindow,
    GlobalWindows,
    IntervalWindow,
    SlidingWindows,
)
from apache_beam.utils import windowed_value
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.state.layout import EVERYWHERE, KEY_GROUPS, OWN, Kind, key_group_of, kind_of
from headrace.state.store import MemoryStore
from headrace.worker.batched.batches import Columns, batch_of
from headrace.worker.exchange.keys import ShardOf
from headrace.worker.sideinputs.pending_graph import PendingGraph, Side
from headrace.worker.sideinputs.views import StoredSide
from tests.worker.pending_bench import (
    BEGINNING,
    END,
    MAIN_CODER,
    OFTEN,
    ONCE,
    SECOND,
    Bench,
    element,
    encoded,
    end_of,
    payload,
    same,
    window,
)

PANE = windowed_value.PaneInfo(False, True, windowed_value.PaneInfoTiming.LATE, 7, 3)


def test_paper_example_frees_element_1_but_not_element_2_in_its_other_window() -> None:
    """Figure 2: x waits for a, b and c; y for d too. The watermark passes b, c gets data."""
    a, b, c, d = map(window, (1, 2, 3, 9))
    x, y = window(50), window(60)
    needs = [{x: a, y: a}, {x: b, y: b}, {x: c, y: d}]
    bench = Bench([table.get for table in needs], [ONCE, ONCE, OFTEN])
    assert bench.epoch(element(1, 501 * SECOND, x), element(2, 502 * SECOND, x, y)) == []
    assert bench.epoch(marks={0: end_of(b)}) == []  # a is there
    assert bench.epoch(marks={1: end_of(b)}) == []  # b too
    assert bench.epoch(data=[(2, c)]) == [(1, x), (2, x)]
    assert bench.epoch(data=[(2, c)]) == []
    assert bench.epoch(data=[(2, d)]) == [(2, y)]
    assert not bench.kinds().keys() & {
        Kind.PENDING_SIDE, Kind.PENDING_MAIN, Kind.PENDING_ELEMENTS
    }


def test_batch_whose_windows_are_all_ready_passes_as_the_same_objects_and_writes_nothing() -> None:
    bench = Bench([same], [ONCE])
    bench.marks = [end_of(window(5))]
    bench.begin()
    bench.sides()
    values, meta = batch_of([element(n, n, window(n % 5)) for n in range(20)])
    admitted = bench.graph.admit(values, meta)
    assert admitted is not None
    assert admitted[0] is values and admitted[1] is meta
    bench.end()
    assert bench.store.rows == {}


def test_global_side_input_that_is_ready_lets_batches_pass_without_a_look_at_windows() -> None:
    windowing = Windowing(
        GlobalWindows(),
        triggerfn=trigger.Repeatedly(trigger.AfterCount(1)),
        accumulation_mode=trigger.AccumulationMode.DISCARDING,
    )
    coder = coders.WindowedValueCoder(coders.VarIntCoder(), coders.coders.GlobalWindowCoder())
    channel = StoredSide(1, coder, windowing, False)
    mapping = sideinputs.default_window_mapping_fn(GlobalWindows())
    side = Side(
        index=0, mapping=mapping, channel=channel, window_coder=coders.coders.GlobalWindowCoder()
    )
    graph = PendingGraph(3, [side], MAIN_CODER, None)
    store = MemoryStore()
    graph.attach(store)
    channel.attach(store, BEGINNING)
    unseen: Any = "not looked at"
    values, meta = [1, 2], Columns([1, 2], [unseen, unseen], [PANE, PANE])
    out = create_OutputStream()
    coder.get_impl().encode_to_stream(element(4, 0, GlobalWindow()), out, True)
    channel.add_rows(out.get())
    assert graph.admit(values, meta) == (values, meta)


def test_batch_with_one_meta_keeps_the_windows_that_are_ready_and_pushes_back_the_others() -> None:
    bench = Bench([same], [ONCE])
    bench.begin()
    bench.sides(marks={0: end_of(window(1))})
    admitted = bench.graph.admit([7, 8], element(None, 5, window(1), window(2)))
    assert admitted is not None
    values, meta = admitted
    assert values == [7, 8] and meta.windows == (window(1),) and meta.timestamp_micros == 5
    bench.end()
    assert bench.epoch(marks={0: end_of(window(2))}) == [(7, window(2)), (8, window(2))]


def test_time_to_the_microsecond_and_pane_of_an_element_outlast_the_wait() -> None:
    bench = Bench([same], [ONCE])
    bench.begin()
    times = [10_000_001, 10_000_002, -3]
    panes = [PANE, PANE, windowed_value.PANE_INFO_UNKNOWN]
    bench.graph.admit([1, 2, 3], Columns(times, [(window(1),)] * 3, panes))
    bench.end()
    bench.build()
    bench.begin()
    bench.marks = [end_of(window(1))]
    bench.channels[0].advance(bench.marks[0])
    ((values, meta),) = bench.graph.release([], bench.marks)
    assert (values, meta.times, meta.panes) == ([1, 2, 3], times, panes)
    assert meta.windows == [(window(1),)] * 3


def test_data_in_a_window_that_fires_at_its_end_only_frees_nobody_before_the_watermark() -> None:
    bench = Bench([same], [ONCE])
    assert bench.epoch(element(1, 1, window(1))) == []
    assert bench.epoch(data=[(0, window(1))]) == []
    assert bench.epoch(marks={0: end_of(window(1)) - 1}) == []  # its last moment: not yet passed
    assert bench.epoch(marks={0: end_of(window(1))}) == [(1, window(1))]


#: Fires at the second element, or never: its windows may get it until 20 seconds after their end.
COUNTED = Windowing(
    FixedWindows(10),
    triggerfn=trigger.AfterCount(2),
    accumulation_mode=trigger.AccumulationMode.DISCARDING,
    allowed_lateness=20,
)


@pytest.mark.parametrize("rebuilt", [False, True])
def test_window_without_a_firing_is_waited_for_until_late_data_may_not_come_any_more(
    rebuilt: bool,
) -> None:
    bench = Bench([same], [COUNTED])
    end = end_of(window(1))
    assert bench.epoch(element(1, 11 * SECOND, window(1))) == []
    assert bench.epoch(marks={0: end + 20 * SECOND - 1}) == []
    if rebuilt:
        bench.build()  # another process goes on
    assert bench.epoch(marks={0: end + 20 * SECOND}) == [(1, window(1))]
    assert bench.graph.count() == 0


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("rebuilt", [False, True])
def test_first_firing_frees_before_the_window_ends_and_after_it(late: bool, rebuilt: bool) -> None:
    bench = Bench([same], [COUNTED])
    end = end_of(window(1))
    assert bench.epoch(element(1, 11 * SECOND, window(1)), element(2, 21 * SECOND, window(2))) == []
    if late:
        assert bench.epoch(marks={0: end + SECOND}) == []
    if rebuilt:
        bench.build()
    assert bench.epoch(data=[(0, window(1))]) == [(1, window(1))]
    assert bench.epoch(data=[(0, window(1))]) == []  # a second firing frees nobody


def test_sliding_element_is_freed_window_by_window_as_fixed_side_windows_fire() -> None:
    """Each main window asks for the side window of its own end, and gets it in its own time."""
    mapping = sideinputs.default_window_mapping_fn(FixedWindows(10))
    first, second = IntervalWindow(0, 20), IntervalWindow(10, 30)
    bench = Bench([mapping], [OFTEN])
    assert bench.epoch(element(1, 15 * SECOND, first, second)) == []
    assert bench.epoch(data=[(0, window(0))]) == []  # nobody asks for [0, 10)
    assert bench.epoch(data=[(0, window(2))]) == [(1, second)]
    assert bench.epoch(data=[(0, window(1))]) == [(1, first)]


def test_element_waits_for_the_last_of_an_early_a_late_and_a_counted_side_input() -> None:
    bench = Bench([same] * 3, [OFTEN, ONCE, COUNTED])
    end = end_of(window(1))
    assert bench.epoch(element(1, 11 * SECOND, window(1))) == []
    assert bench.epoch(data=[(0, window(1))]) == []
    assert bench.epoch(marks={1: end, 2: end}) == []
    assert bench.epoch(data=[(2, window(1))]) == [(1, window(1))]


def test_hold_is_the_earliest_time_that_waits_and_count_counts_windows() -> None:
    bench = Bench([same], [OFTEN])
    bench.begin()
    assert (bench.graph.hold(), bench.graph.count()) == (END, 0)
    bench.admit(element(1, 30, window(1)), element(2, 10, window(2), window(3)))
    assert (bench.graph.hold(), bench.graph.count()) == (10, 3)
    bench.end()
    bench.begin()
    bench.admit(element(3, 4, window(3)))
    assert (bench.graph.hold(), bench.graph.count()) == (4, 4)
    assert bench.graph.waits(encoded(window(2))) and not bench.graph.waits(encoded(window(4)))
    bench.sides([(0, window(3))])
    assert (bench.graph.hold(), bench.graph.count()) == (10, 2)
    assert not bench.graph.waits(encoded(window(3)))
    bench.sides([(0, window(2))])
    assert (bench.graph.hold(), bench.graph.count()) == (30, 1)
    bench.end()
    bench.begin()
    assert (bench.graph.hold(), bench.graph.count()) == (30, 1)
    bench.sides([(0, window(1))])
    assert (bench.graph.hold(), bench.graph.count()) == (END, 0)


def test_epoch_that_failed_leaves_nothing_in_memory() -> None:
    bench = Bench([same], [OFTEN])
    bench.begin()
    bench.admit(element(1, 30, window(1)))
    bench.begin()
    assert (bench.graph.count(), bench.sides([(0, window(1))])) == (0, [])


def test_window_that_was_freed_in_an_epoch_lets_later_elements_of_that_epoch_pass() -> None:
    bench = Bench([same], [OFTEN])
    bench.begin()
    assert bench.admit(element(1, 30, window(1))) == []
    assert bench.sides([(0, window(1))]) == [(1, window(1))]
    assert bench.admit(element(2, 30, window(1))) == [(2, window(1))]
    bench.end()
    assert bench.epoch() == []


def test_many_main_windows_wait_for_one_side_window_and_many_elements_for_one_main_window() -> None:
    late = window(90)
    bench = Bench([lambda _: late], [OFTEN])
    for round_ in range(3):
        bench.epoch(*[element(round_ * 3000 + n, n, window(n % 7)) for n in range(3000)])
    found = bench.epoch(data=[(0, late)])
    assert [value for value, _ in found] == list(range(9000))
    assert all(one == window(value % 3000 % 7) for value, one in found)


def test_batches_that_are_released_are_never_longer_than_a_batch_may_be() -> None:
    bench = Bench([same], [OFTEN])
    bench.epoch(*[element(n, n, window(1)) for n in range(5000)])
    bench.begin()
    bench.channels[0].add_rows(payload(element(0, 0, window(1))))
    opened = [(0, one) for one in bench.channels[0].advance(BEGINNING)]
    sizes = [len(values) for values, _ in bench.graph.release(opened, [BEGINNING])]
    assert sizes == [2048, 2048, 904]


# -- another number of shards


def deal(stores: list[MemoryStore], shards: int) -> list[MemoryStore]:
    """Deal the rows of all shards out to another number of shards, by the rules of the layout."""
    dealt = [MemoryStore() for _ in range(shards)]
    for store in stores:
        for row, value in store.rows.items():
            kind = kind_of(row)
            if kind in EVERYWHERE:
                for to in dealt:
                    to.put(row, value)
            elif kind not in OWN:
                to = dealt[key_group_of(row) % shards]
                assert row not in to.rows, "two shards gave a row the same name"
                to.put(row, value)
    return dealt


@pytest.mark.parametrize("shards", [1, 3, 5])
def test_elements_follow_their_keys_to_another_number_of_shards(shards: int) -> None:
    place = ShardOf(coders.VarIntCoder(), KEY_GROUPS).any
    old = [Bench([same, same], [OFTEN, ONCE], keyed=True) for _ in range(2)]
    for start in (0, 50):
        for shard, bench in enumerate(old):
            bench.epoch(
                *[
                    element((key, start), key, window(key % 3), window(4))
                    for key in range(start, start + 50)
                    if place(key) % 2 == shard
                ]
            )
    seen = []
    for shard, store in enumerate(deal([bench.store for bench in old], shards)):
        bench = Bench([same, same], [OFTEN, ONCE], keyed=True)
        bench.store = store
        assert bench.epoch(data=[(0, window(n)) for n in range(5)]) == []
        found = bench.epoch(marks={1: end_of(window(2))})
        assert all(place(key) % shards == shard for (key, _), _ in found)
        seen += found
        bench.begin()
        waiting = sum(place(key) % shards == shard for key in range(100))
        assert bench.graph.count() == waiting
        assert bench.graph.hold() == min(k for k in range(100) if place(k) % shards == shard)
        found = bench.sides(marks={1: END})
        assert len(found) == waiting and {one for _, one in found} == {window(4)}
        seen += found
        bench.end()
        assert not bench.kinds().keys() - {Kind.SIDE, Kind.META}  # nothing of the old shards
    expected = [((k, k // 50 * 50), w) for k in range(100) for w in (window(k % 3), window(4))]
    assert Counter(seen) == Counter(expected)


def test_elements_without_key_are_all_there_after_two_changes_of_the_number_of_shards() -> None:
    old = [Bench([same], [OFTEN]) for _ in range(2)]
    for shard, bench in enumerate(old):
        bench.epoch(*[element(n, n, window(n % 4)) for n in range(40) if n % 2 == shard])
    stores = [bench.store for bench in old]
    for change, shards in enumerate((3, 2)):
        stores = deal(stores, shards)
        for store in stores:
            bench = Bench([same], [OFTEN])
            bench.store = store
            bench.epoch(*[element(100 * (change + 1), 0, window(n)) for n in range(4)])
    seen = []
    for store in stores:
        bench = Bench([same], [OFTEN])
        bench.store = store
        seen += bench.epoch(data=[(0, window(n)) for n in range(4)])
    expected = Counter({(n, window(n % 4)): 1 for n in range(40)})
    for n in range(4):
        expected[100, window(n)] = 3
        expected[200, window(n)] = 2
    assert Counter(seen) == expected


def test_elements_without_key_that_wait_are_spread_over_places() -> None:
    bench = Bench([same], [OFTEN])
    for _ in range(8):
        bench.epoch(element(1, 0, window(1)))
    chunks = [row for row in bench.store.rows if kind_of(row) is Kind.PENDING_ELEMENTS]
    assert len({key_group_of(row) % 4 for row in chunks}) > 1


def test_moved_elements_hold_the_watermark_at_the_earliest_of_all_batches() -> None:
    old = Bench([same], [ONCE])
    old.begin()
    for time in (20, 5, 90):
        old.admit(element(time, time, window(1)))
    old.end()
    bench = Bench([same], [ONCE])
    (bench.store,) = deal([old.store], 1)
    bench.begin()
    assert bench.graph.hold() == 5


def test_moved_elements_whose_side_windows_are_ready_already_are_not_forgotten() -> None:
    old = Bench([same], [ONCE])
    old.epoch(element(1, 1, window(1)))
    bench = Bench([same], [ONCE])
    (bench.store,) = deal([old.store], 1)
    bench.marks = [END]
    bench.begin()
    assert bench.graph.count() == 1
    bench.end()  # nobody asked for releases in this epoch
    assert bench.epoch() == [(1, window(1))]


# -- against a list


@dataclass
class Model:
    """The same by brute force: a list of (value, window) that wait."""

    mappings: list[Any]
    often: list[bool]
    marks: list[int]
    filled: list[set[Any]]
    waiting: list[tuple[int, Any, int]]

    def ready(self, main: Any) -> bool:
        return all(
            self.marks[i] >= end_of(mapping(main))
            or (self.often[i] and mapping(main) in self.filled[i])
            for i, mapping in enumerate(self.mappings)
        )

    def free(self) -> list[tuple[int, Any]]:
        found = [(value, one) for value, one, _ in self.waiting if self.ready(one)]
        self.waiting = [entry for entry in self.waiting if not self.ready(entry[1])]
        return sorted(found, key=lambda pair: (pair[0], pair[1].end, pair[1].start))

    def copy(self) -> Model:
        return Model(
            self.mappings, self.often, list(self.marks), [set(f) for f in self.filled],
            list(self.waiting),
        )


@dataclass
class Round:
    """One epoch of the property test."""

    data: list[tuple[int, int]]  # side input, window number
    steps: list[int]  # how far each side watermark moves, in windows
    times: list[int]  # seconds of main elements
    sides_first: bool  # release before admission, or after
    rebuilt: bool  # another process runs it
    fails: bool  # it is run once in vain before


rounds = st.builds(
    Round,
    data=st.lists(st.tuples(st.integers(0, 2), st.integers(-1, 8)), max_size=4),
    steps=st.lists(st.integers(0, 2), min_size=3, max_size=3),
    times=st.lists(st.integers(0, 69), max_size=8),
    sides_first=st.booleans(),
    rebuilt=st.booleans(),
    fails=st.booleans(),
)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.integers(-2, 2), st.booleans()), min_size=1, max_size=3),
    st.lists(rounds, max_size=8),
    st.booleans(),
)
def test_every_element_is_processed_once_per_window_as_soon_as_its_side_windows_are_ready(
    sides: list[tuple[int, bool]], script: list[Round], keyed: bool
) -> None:
    """Sliding main windows; side windows before, at, and after the end of the main window."""
    mappings = [
        (lambda main, shift=shift: window(int(main.end.seconds()) // 10 - 1 + shift))
        for shift, _ in sides
    ]
    often = [early for _, early in sides]
    bench = Bench(mappings, [OFTEN if early else ONCE for early in often], keyed=keyed)
    model = Model(
        mappings, often, [BEGINNING] * len(sides), [set() for _ in sides], []
    )
    sliding = SlidingWindows(20, 10)
    number = 0
    for one in script:
        elements = []
        for seconds in one.times:
            context = SlidingWindows.AssignContext(seconds)
            value = (number % 5, number) if keyed else number
            elements.append(element(value, seconds * SECOND, *sliding.assign(context)))
            number += 1
        for attempt in range(2 if one.fails else 1):
            last = attempt == (1 if one.fails else 0)
            before, rows, marks = model.copy(), dict(bench.store.rows), list(bench.marks)
            run_round(bench, model, one, elements, last=last)
            if not last:
                model, bench.store.rows, bench.marks = before, rows, marks
    bench.begin()
    found = bench.sides(marks=dict.fromkeys(range(len(sides)), END))
    model.marks = [END] * len(sides)
    assert found == model.free()
    bench.end()
    assert not bench.kinds().keys() - {Kind.SIDE, Kind.META}


def run_round(bench: Bench, model: Model, one: Round, elements: list[Any], *, last: bool) -> None:
    if one.rebuilt:
        bench.build()
    bench.begin()
    data = [(index, window(n)) for index, n in one.data if index < len(model.often)]
    marks = {
        i: max(model.marks[i], 0) + step * 10 * SECOND if step else model.marks[i]
        for i, step in enumerate(one.steps[: len(model.often)])
    }

    def open_sides() -> None:
        for index, side in data:
            model.filled[index].add(side)
        model.marks = [marks[i] for i in range(len(marks))]
        expected = model.free()
        assert bench.sides(data, marks) == expected

    def admit() -> None:
        # In front of the sides only what was ready before the epoch may pass.
        model.waiting += [
            (each.value, main, each.timestamp_micros) for each in elements for main in each.windows
        ]
        expected = model.free()
        assert (bench.admit(*elements) if elements else []) == expected

    steps = [open_sides, admit] if one.sides_first else [admit, open_sides]
    for step in steps:
        step()
    assert bench.graph.count() == len(model.waiting)
    assert bench.graph.hold() == min((time for _, _, time in model.waiting), default=END)
    for n in range(-2, 8):
        main = window(n, 20)
        assert bench.graph.waits(encoded(main)) == any(main == w for _, w, _ in model.waiting)
    if last:
        bench.end()
