"""The protocol of a publication, against a broker in memory: crashes in every gap, two drivers."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from headrace.errors import CheckpointError, MarkerLostError
from headrace.io.kafka.publish import (
    AwayError,
    Messages,
    Position,
    Publisher,
    Rules,
)


class CrashError(BaseException):
    """The process is gone."""


class FakeBroker:
    """What Kafka promises: the newest producer alone goes on, a transaction counts whole."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.marker: Position | None = None
        self.generation = 0
        self.turn: Callable[[str], None] = lambda verb: None

    def connect(self) -> FakeProducer:
        self.turn("connect")
        self.generation += 1
        return FakeProducer(self, self.generation)


class FakeProducer:
    def __init__(self, broker: FakeBroker, generation: int) -> None:
        self._broker, self._generation = broker, generation
        self._open: tuple[list[str], Position] | None = None

    def _check(self, verb: str) -> None:
        self._broker.turn(verb)
        if self._generation != self._broker.generation:
            message = "fenced"
            raise AwayError(message)

    def position(self) -> Position | None:
        self._check("position")
        return self._broker.marker

    def stage(self, messages: Messages, after: Position) -> None:
        self._check("stage")
        self._open = (list(messages), after)

    def commit(self) -> None:
        self._check("commit")
        assert self._open is not None
        messages, self._broker.marker = self._open
        self._broker.log += messages
        self._broker.turn("committed")

    def close(self) -> None:
        self._open = None


class MemoryOutbox:
    def __init__(self, epochs: dict[int, list[str]]) -> None:
        self.held = {epoch: list(messages) for epoch, messages in epochs.items()}
        self.marked = False

    def epochs(self) -> list[int]:
        return sorted(self.held)

    def messages(self, epoch: int, start: int, most: int) -> Iterator[tuple[list[str], bool]]:
        left = self.held.get(epoch, [])[start:]
        while len(left) > most:
            yield left[:most], False
            left = left[most:]
        yield left, True

    def remove(self, epoch: int) -> None:
        self.held.pop(epoch, None)

    def is_marked(self) -> bool:
        return self.marked

    def mark(self) -> None:
        self.marked = True


EPOCHS = {0: ["a0", "a1", "a2"], 2: ["c0"], 3: ["d0", "d1"], 4: ["not committed"]}
RIGHT = ["a0", "a1", "a2", "c0", "d0", "d1"]


def publisher(
    broker: FakeBroker, outbox: MemoryOutbox, *, fence: Callable[[], None] = lambda: None,
    gap: Callable[[str, int], None] = lambda step, epoch: None, most: int = 2,
    if_marker_lost: str = "refuse",
) -> Publisher:
    return Publisher(
        "sink", broker.connect, outbox, fence=fence, gap=gap, pause=lambda seconds: None,
        rules=Rules(most=most, if_marker_lost=if_marker_lost),
    )


@pytest.mark.parametrize("most", [1, 2, 100])
def test_committed_epochs_are_published_in_order_and_forgotten(most: int) -> None:
    broker, outbox = FakeBroker(), MemoryOutbox(EPOCHS)
    assert publisher(broker, outbox, most=most).publish(3)
    assert broker.log == RIGHT
    assert outbox.epochs() == [4]
    assert broker.marker == Position(4, 0)


def test_what_is_published_later_is_added_by_the_same_producer() -> None:
    broker, outbox = FakeBroker(), MemoryOutbox(EPOCHS)
    one = publisher(broker, outbox)
    one.publish(3)
    one.publish(4)
    assert broker.log == [*RIGHT, "not committed"]
    assert broker.generation == 1


@pytest.mark.parametrize("crashes", [1, 2, 3])
def test_crashes_at_any_verbs_of_the_broker_lose_and_repeat_nothing(crashes: int) -> None:
    """Every set of so many crashes among the first verbs, each followed by a new driver."""
    count = 0
    for at in itertools.combinations(range(24 if crashes < 3 else 14), crashes):
        broker, outbox, verbs = FakeBroker(), MemoryOutbox(EPOCHS), itertools.count()

        def turn(verb: str, verbs: Any = verbs, at: tuple[int, ...] = at) -> None:
            if next(verbs) in at:
                raise CrashError

        broker.turn = turn
        for _ in range(crashes + 1):
            try:
                publisher(broker, outbox).publish(3)
            except CrashError:
                continue
            break
        assert broker.log == RIGHT, at
        assert outbox.epochs() == [4]
        count += 1
    assert count > crashes * 20


@pytest.mark.parametrize("step", ["staged", "committed", "removed"])
@pytest.mark.parametrize("epoch", [0, 2, 3])
def test_a_crash_in_each_gap_of_each_epoch(step: str, epoch: int) -> None:
    broker, outbox = FakeBroker(), MemoryOutbox(EPOCHS)
    seen = []

    def gap(found: str, at: int) -> None:
        if (found, at) == (step, epoch):
            seen.append(found)
            raise CrashError

    with pytest.raises(CrashError):
        publisher(broker, outbox, gap=gap).publish(3)
    publisher(broker, outbox).publish(3)
    assert seen == [step]
    assert broker.log == RIGHT


class Baton:
    """Lets two drivers go on verb by verb, in the order of a schedule."""

    def __init__(self, schedule: Sequence[int]) -> None:
        self._schedule = list(schedule)
        self._moved = threading.Condition()
        self._ended: set[int] = set()
        self.me = threading.local()

    def turn(self, verb: str) -> None:
        del verb
        me = self.me.number
        with self._moved:
            while self._schedule and self._schedule[0] != me:
                if self._schedule[0] in self._ended:
                    self._schedule.pop(0)
                    self._moved.notify_all()
                    continue
                assert self._moved.wait(20)
            if self._schedule:
                self._schedule.pop(0)
            self._moved.notify_all()

    def end(self) -> None:
        with self._moved:
            self._ended.add(self.me.number)
            self._moved.notify_all()


def test_two_drivers_that_interleave_in_every_way_publish_each_message_once() -> None:
    """The older one, thought dead, goes on; the newer one claims the checkpoint at any moment."""
    epochs = {0: ["a0", "a1"], 1: ["b0"]}
    schedules = _schedules(5, 5)
    assert len(schedules) == 252
    for schedule in schedules:
        broker, outbox, baton = FakeBroker(), MemoryOutbox(epochs), Baton(schedule)
        broker.turn = baton.turn
        newest = [0]
        outcome: dict[int, str] = {}

        def drive(
            number: int, broker: FakeBroker = broker, outbox: MemoryOutbox = outbox,
            baton: Baton = baton, newest: list[int] = newest, outcome: dict[int, str] = outcome,
        ) -> None:
            baton.me.number = number
            if number == 1:
                baton.turn("claim")
                newest[0] = 1

            def fence() -> None:
                if newest[0] > number:
                    message = "overtaken"
                    raise CheckpointError(message)

            try:
                publisher(broker, outbox, fence=fence, most=1).publish(1)
                outcome[number] = "done"
            except CheckpointError:
                outcome[number] = "overtaken"
            finally:
                baton.end()

        threads = [threading.Thread(target=drive, args=(n,)) for n in (0, 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert broker.log == ["a0", "a1", "b0"], (schedule, outcome)
        assert outcome[1] == "done", schedule


def _schedules(first: int, second: int) -> list[tuple[int, ...]]:
    total = first + second
    return [
        tuple(0 if at in chosen else 1 for at in range(total))
        for chosen in map(set, itertools.combinations(range(total), first))
    ]


def test_a_broker_that_is_away_is_waited_for() -> None:
    broker, outbox, left = FakeBroker(), MemoryOutbox(EPOCHS), [7]

    def turn(verb: str) -> None:
        if left[0]:
            left[0] -= 1
            message = "nobody answers"
            raise AwayError(message)

    broker.turn = turn
    assert publisher(broker, outbox).publish(3)
    assert broker.log == RIGHT


def test_a_run_that_is_told_to_stop_leaves_the_rest_to_the_next_start() -> None:
    broker, outbox = FakeBroker(), MemoryOutbox(EPOCHS)

    def turn(verb: str) -> None:
        if verb == "commit" and broker.log == ["a0", "a1"]:
            message = "nobody answers"
            raise AwayError(message)

    broker.turn = turn
    assert not publisher(broker, outbox).publish(3, give_up=lambda: True)
    assert broker.log == ["a0", "a1"]
    broker.turn = lambda verb: None
    assert publisher(broker, outbox).publish(3)
    assert broker.log == RIGHT


def test_a_marker_that_the_broker_has_lost_is_told_of_unless_nothing_waits() -> None:
    broker, outbox = FakeBroker(), MemoryOutbox(EPOCHS)
    publisher(broker, outbox).publish(2)
    broker.marker = None
    with pytest.raises(MarkerLostError, match="epochs 3 to 3"):
        publisher(broker, outbox).publish(3)
    publisher(broker, outbox).publish(2)  # nothing waits: what is there is known
    assert broker.log == RIGHT[:4]
    assert broker.marker == Position(3, 0)


@pytest.mark.parametrize(("choice", "log"), [("publish", RIGHT), ("skip", RIGHT[:4])])
def test_what_becomes_of_messages_without_a_marker_is_the_users_choice(
    choice: str, log: list[str]
) -> None:
    broker, outbox = FakeBroker(), MemoryOutbox(EPOCHS)
    publisher(broker, outbox).publish(2)
    broker.marker = None
    publisher(broker, outbox, if_marker_lost=choice).publish(3)
    assert broker.log == log
    assert outbox.epochs() == [4]


def test_a_checkpoint_older_than_the_topic_is_refused() -> None:
    broker, outbox = FakeBroker(), MemoryOutbox(EPOCHS)
    publisher(broker, outbox).publish(3)
    with pytest.raises(CheckpointError, match="epochs up to 3, and the checkpoint counts up to 1"):
        publisher(broker, MemoryOutbox({})).publish(1)
    again = MemoryOutbox({2: ["c0 again"]})
    publisher(broker, again).publish(3)  # known: not a second time
    assert broker.log == RIGHT
    publisher(broker, MemoryOutbox({2: ["c0 again"]})).publish(2, forget_later=True)
    assert broker.log == RIGHT
    publisher(broker, MemoryOutbox({3: ["d0 again"]})).publish(3)
    assert broker.log == [*RIGHT, "d0 again"]
