"""Timers in a store fire when and in the order a plain table of timers says."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest
from apache_beam import coders
from apache_beam.coders.coders import IntervalWindowCoder, _TimerCoder
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.worker.bundle_processor import FnApiUserStateContext, TimerInfo
from apache_beam.transforms import userstate
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.window import IntervalWindow
from apache_beam.utils.timestamp import MAX_TIMESTAMP, MIN_TIMESTAMP, Timestamp
from apache_beam.utils.windowed_value import PANE_INFO_UNKNOWN
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import HeadraceError, StateError
from headrace.state.layout import KEY_GROUPS, Kind, key_group_of, kind_of
from headrace.state.store import MemoryStore
from headrace.worker.exchange.keys import ShardOf
from headrace.worker.sideinputs.side_inputs import SideInputs
from headrace.worker.userstate.stored_cells import StoredCells
from headrace.worker.userstate.stored_timers import StoredTimers
from tests.worker.stored_kit import CountingStore

STEP, OTHER = "step", "another step"
STAGE = 3
KEYS = coders.StrUtf8Coder()
WINDOW_CODER = IntervalWindowCoder()
WINDOWS = [IntervalWindow(0, 10), IntervalWindow(10, 20)]
END = MAX_TIMESTAMP.micros
BEGIN = MIN_TIMESTAMP.micros

EVENT = userstate.TimerSpec("event", TimeDomain.WATERMARK)
SECOND_EVENT = userstate.TimerSpec("event two", TimeDomain.WATERMARK)
CLOCK = userstate.TimerSpec("clock", TimeDomain.REAL_TIME)
SPECS = {"event": EVENT, "event two": SECOND_EVENT, "clock": CLOCK}
FAMILIES = {spec.name: family for family, spec in SPECS.items()}  # Beam adds a prefix
DOMAINS = {
    TimeDomain.WATERMARK: beam_runner_api_pb2.TimeDomain.EVENT_TIME,
    TimeDomain.REAL_TIME: beam_runner_api_pb2.TimeDomain.PROCESSING_TIME,
}

place = ShardOf(KEYS, KEY_GROUPS).any


@dataclass(frozen=True)
class Name:
    """Which timer."""

    step: str = STEP
    family: str = "event"
    key: str = "a"
    window: IntervalWindow = WINDOWS[0]
    tag: str = ""


class Worker:
    """What a process has: the timers of a stage and Beam's timer objects over them."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.timers = StoredTimers(STAGE)
        self.contexts = {}
        coder = _TimerCoder(KEYS, WINDOW_CODER)
        for step in (STEP, OTHER):
            context = FnApiUserStateContext(None, step, KEYS, WINDOW_CODER)
            for spec in SPECS.values():
                sink = self.timers.sink(step, spec.name, DOMAINS[spec.time_domain], coder)
                context.add_timer_info(spec.name, TimerInfo(sink, sink))
            self.contexts[step] = context
        self.timers.attach(store)

    def timer(self, name: Name, input_micros: int = 0) -> Any:
        return self.contexts[name.step].get_timer(
            SPECS[name.family], name.key, name.window, Timestamp(micros=input_micros),
            PANE_INFO_UNKNOWN,
        )  # fmt: skip

    def set(self, name: Name, micros: int, input_micros: int = 0) -> None:
        timer = self.timer(name, input_micros)
        timer.set(Timestamp(micros=micros), dynamic_timer_tag=name.tag)

    def clear(self, name: Name) -> None:
        self.timer(name).clear(dynamic_timer_tag=name.tag)

    def end_epoch(self) -> None:
        self.timers.flush()
        self.timers.attach(self.store)

    def fired(self, watermark: int, now: int = BEGIN) -> list[tuple[Name, int]]:
        found = []
        while (due := self.timers.pop(watermark, now)) is not None:
            found.append(named(due))
        return found


def named(due: Any) -> tuple[Name, int]:
    """Give which timer it is and its firing time."""
    timer = due.timer
    assert not timer.clear_bit
    assert timer.paneinfo == PANE_INFO_UNKNOWN
    name = Name(due.transform_id, FAMILIES[due.family], timer.user_key, timer.windows[0],
                timer.dynamic_timer_tag)  # fmt: skip
    return name, timer.fire_timestamp.micros


class Model:
    """The same timers in one dict: name -> (firing time, hold)."""

    def __init__(self) -> None:
        self.set: dict[Name, tuple[int, int]] = {}

    def due(self, watermark: int, now: int) -> tuple[Name, int] | None:
        for clock, bound in ((False, watermark), (True, now)):
            found = [
                (fire, place(n.key), steps.index(n.step), n.window.end, len(n.family),
                 len(n.tag), n.tag, n)
                for n, (fire, _) in self.set.items()
                if (n.family == "clock") == clock and fire <= bound
            ]  # fmt: skip
            if found:
                first = min(found, key=lambda row: row[:-1])
                return first[-1], first[0]
        return None

    def first(self, clock: bool) -> int | None:
        times = [t for n, (t, _) in self.set.items() if (n.family == "clock") == clock]
        return min(times, default=None)


# Steps of one key and time fire in an order that is fixed but has no meaning: ask the rows for it.
def _order_of_steps() -> list[str]:
    found = {}
    for step in (STEP, OTHER):
        worker = Worker(MemoryStore())
        worker.set(Name(step), 1)
        worker.timers.flush()
        found[step] = min(worker.store.rows)
    return sorted(found, key=lambda step: found[step])


steps = _order_of_steps()

names = st.builds(
    Name,
    step=st.sampled_from([STEP, OTHER]),
    family=st.sampled_from(sorted(SPECS)),
    key=st.sampled_from(["a", "b", "k" * 200]),
    window=st.sampled_from(WINDOWS),
    tag=st.sampled_from(["", "", "x", "yy"]),
)
times = st.integers(-2, 12).map(lambda n: n * 1_000 + n)  # finer than the milliseconds of the coder
sets = st.tuples(st.just("set"), names, times, times)
script_steps = st.one_of(
    sets,
    sets,
    st.tuples(st.just("clear"), names),
    # Fire everything due; the n-th that fires sets or clears as told.
    st.tuples(
        st.just("fire"), times, times,
        st.lists(st.one_of(sets, st.tuples(st.just("clear"), names)), max_size=4),
    ),
    st.tuples(st.just("drop"), names),
    st.sampled_from([("epoch",), ("process",), ("crash",)]),
)  # fmt: skip


def apply(worker: Worker, model: Model, action: Any) -> None:
    if action[0] == "set":
        _, name, fire, put_in = action
        worker.set(name, fire, put_in)
        model.set[name] = (fire, put_in if name.family == "clock" else fire)
    else:
        worker.clear(action[1])
        model.set.pop(action[1], None)


def owner(worker: Worker, name: Name) -> bytes:
    """Give the name under which state cells would report the owner of a timer."""
    cells = StoredCells(SideInputs())
    cells.register(name.step, STAGE, KEYS, WINDOW_CODER, 0)
    cells.attach(MemoryStore())
    context = FnApiUserStateContext(cells, name.step, KEYS, WINDOW_CODER)
    spec = userstate.BagStateSpec("bag", coders.VarIntCoder())
    context.get_state(spec, name.key, name.window).add(1)
    context.commit()
    told: list[bytes] = []
    assert cells.expire(STAGE, END, lambda window: False, told.extend) == 1
    return told[0]


def check(worker: Worker, model: Model) -> None:
    timers = worker.timers
    assert timers.pending() == bool(model.set)
    assert timers.hold() == min((hold for _, hold in model.set.values()), default=END)
    assert timers.next_wakeup() == model.first(clock=True)


@given(script=st.lists(script_steps, min_size=15, max_size=60))
@settings(max_examples=200, deadline=None)
def test_timers_fire_as_a_plain_table_says_however_epochs_are_cut(script: list[Any]) -> None:
    store = MemoryStore()
    worker, model = Worker(store), Model()
    kept, rows = dict(model.set), dict(store.rows)
    for step in script:
        match step:
            case ("set", *_) | ("clear", _):
                apply(worker, model, step)
            case ("fire", watermark, now, actions):
                rest = iter(actions)
                for _ in range(100):
                    want = model.due(watermark, now)
                    due = worker.timers.pop(watermark, now)
                    assert (None if due is None else named(due)) == want
                    if want is None:
                        break
                    _, hold = model.set.pop(want[0])
                    assert due.timer.hold_timestamp.micros == hold  # type: ignore[union-attr]
                    if (action := next(rest, None)) is not None:
                        apply(worker, model, action)
            case ("drop", name):
                gone = [n for n in model.set if (n.step, n.key, n.window) ==
                        (name.step, name.key, name.window)]  # fmt: skip
                assert worker.timers.drop([owner(worker, name)]) == len(gone)
                for n in gone:
                    del model.set[n]
            case ("epoch",) | ("process",):
                worker.timers.flush()
                if step == ("process",):
                    worker = Worker(store)
                worker.timers.attach(store)
                kept, rows = dict(model.set), dict(store.rows)
            case ("crash",):  # the store of the epoch is thrown away, and so is what is in memory
                store = MemoryStore()
                store.rows = dict(rows)
                worker.store = store
                worker.timers.attach(store)
                model.set = dict(kept)
        check(worker, model)
    worker.end_epoch()
    check(Worker(store), model)
    for name in list(model.set):
        worker.clear(name)
    worker.end_epoch()
    assert store.rows == {}


def test_a_timer_set_again_moves_and_the_last_word_counts() -> None:
    worker = Worker(MemoryStore())
    worker.set(Name(), 5)
    worker.set(Name(), 9)
    worker.set(Name(key="b"), 5)
    worker.clear(Name(key="b"))
    worker.set(Name(key="c"), 5)
    worker.clear(Name(key="c"))
    worker.set(Name(key="c"), 7)
    worker.end_epoch()
    worker.set(Name(), 3)
    assert worker.fired(4) == [(Name(), 3)]
    assert worker.fired(8) == [(Name(key="c"), 7)]
    assert worker.fired(END) == []


def test_an_event_timer_fires_when_the_watermark_reaches_it_and_a_clock_timer_when_time_does() -> (
    None
):
    worker = Worker(MemoryStore())
    event, clock = Name(), Name(family="clock")
    worker.set(event, 100)
    worker.set(clock, 200)
    for _ in range(2):  # in memory, then from the store
        assert worker.fired(99, 199) == []
        worker.end_epoch()
    assert worker.fired(99, 200) == [(clock, 200)]
    assert worker.fired(100, 200) == [(event, 100)]


def test_a_timer_set_while_firing_counts_in_the_same_round_if_it_is_due() -> None:
    worker = Worker(MemoryStore())
    worker.set(Name(), 10)
    worker.set(Name(key="b"), 30)
    worker.end_epoch()
    assert named(worker.timers.pop(50, 0)) == (Name(), 10)
    worker.set(Name(), 20)
    worker.set(Name(key="c"), 60)
    worker.set(Name(key="d", family="clock"), 0)
    assert named(worker.timers.pop(50, 0)) == (Name(), 20)
    assert named(worker.timers.pop(50, 0)) == (Name(key="b"), 30)
    assert named(worker.timers.pop(50, 0)) == (Name(key="d", family="clock"), 0)
    assert worker.timers.pop(50, 0) is None
    assert worker.timers.hold() == 60


def test_a_due_timer_that_is_moved_before_its_turn_fires_at_its_new_time_only() -> None:
    worker = Worker(MemoryStore())
    for number, key in enumerate("abc"):
        worker.set(Name(key=key), number)
    assert named(worker.timers.pop(50, 0)) == (Name(key="a"), 0)
    worker.set(Name(key="b"), 100)
    worker.set(Name(key="c"), 30)
    assert worker.fired(50, 0) == [(Name(key="c"), 30)]
    assert worker.fired(100, 0) == [(Name(key="b"), 100)]


@pytest.mark.parametrize("stored", [("a", "c"), ("b", "d"), ()], ids=str)
def test_timers_of_one_moment_fire_by_place_wherever_they_are_kept(stored: tuple[str, ...]) -> None:
    worker = Worker(MemoryStore())
    for key in stored:
        worker.set(Name(key=key), 5)
    worker.end_epoch()
    for key in set("abcd") - set(stored):
        worker.set(Name(key=key), 5)
    assert [name.key for name, _ in worker.fired(5)] == sorted("abcd", key=place)


def test_a_timer_set_and_fired_in_one_epoch_writes_nothing() -> None:
    store = CountingStore()
    worker = Worker(store)
    for number in range(5):
        worker.set(Name(key=str(number)), number)
    assert len(worker.fired(10)) == 5
    worker.end_epoch()
    assert store.calls["put"] == store.calls["delete"] == 0


def test_a_processing_time_timer_holds_the_watermark_at_the_time_of_its_element() -> None:
    worker = Worker(MemoryStore())
    assert worker.timers.hold() == END
    worker.set(Name(family="clock"), 1_700_000_000_000_000, input_micros=42)
    worker.set(Name(), 50)
    for _ in range(2):
        assert worker.timers.hold() == 42
        worker.end_epoch()
    assert len(worker.fired(BEGIN, 1_700_000_000_000_000)) == 1
    assert worker.timers.hold() == 50
    worker.clear(Name())
    assert worker.timers.hold() == END
    assert not worker.timers.pending()


def test_times_beyond_the_end_of_time_are_the_end_of_time() -> None:
    worker = Worker(MemoryStore())
    worker.set(Name(), END + 1_000_000)
    worker.set(Name(key="b"), END + 5)
    assert named(worker.timers.pop(END, 0))[1] == END
    worker.end_epoch()
    assert [fire for _, fire in worker.fired(END)] == [END]


def test_an_event_time_timer_has_two_rows_and_a_processing_time_timer_three() -> None:
    store = MemoryStore()
    worker = Worker(store)
    worker.set(Name(), 5)
    worker.set(Name(family="clock", key="b"), 5)
    worker.end_epoch()
    assert Counter(map(kind_of, store.rows)) == {
        Kind.TIMER: 2, Kind.TIMER_EVENT: 1, Kind.TIMER_CLOCK: 1, Kind.TIMER_HOLD: 1,
    }  # fmt: skip
    assert Counter(map(key_group_of, store.rows)) == {place("a"): 2, place("b"): 3}


def test_names_stay_within_what_the_store_takes_whatever_their_parts() -> None:
    store = MemoryStore()
    long = Name(key="k" * 96, tag="t" * 96)
    worker = Worker(store)
    worker.set(long, 5)
    worker.set(Name(key="k" * 5_000, tag="t" * 5_000), 6)
    worker.end_epoch()
    assert max(map(len, store.rows)) <= 500
    assert worker.fired(9) == [(long, 5), (Name(key="k" * 5_000, tag="t" * 5_000), 6)]


def epoch_cost(keys: int) -> Counter[str]:
    """What one epoch asks of a store with so many timers, when ten are due and five are moved."""
    store = CountingStore()
    worker = Worker(store)
    for number in range(keys):
        worker.set(Name(key=str(number)), number)
        worker.set(Name(key=str(number), family="clock"), number)
    worker.end_epoch()
    store.calls.clear()
    assert len(worker.fired(9)) == 10
    for number in range(50, 55):
        worker.set(Name(key=str(number)), 70)
    assert worker.timers.hold() == 0
    assert worker.timers.next_wakeup() == 0
    worker.end_epoch()
    return store.calls


def test_an_epoch_costs_what_it_touches_and_not_what_is_there() -> None:
    few = epoch_cost(100)
    assert few == epoch_cost(5_000)
    assert few["put"] == 10
    assert few["delete"] == 30  # ten fired and five moved, two rows each
    assert few["get"] == 5


def test_a_timer_of_a_family_the_pipeline_no_longer_has_is_an_error() -> None:
    store = MemoryStore()
    worker = Worker(store)
    worker.set(Name(), 5)
    worker.end_epoch()
    other = StoredTimers(STAGE)
    other.attach(store)
    with pytest.raises(StateError, match="stage 3 has a timer of a step or family"):
        other.pop(9, 0)


def test_timers_are_refused_outside_an_epoch() -> None:
    worker = Worker(MemoryStore())
    worker.timers.flush()
    with pytest.raises(HeadraceError, match="attach a store first"):
        worker.set(Name(), 5)
