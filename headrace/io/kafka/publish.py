"""Publishes the messages that committed epochs have set aside, each of them once.

The protocol, in numbered steps; `tests/kafka/test_publish.py` crashes in every gap, and lets two
drivers interleave in every way:

1. A driver connects: the broker shuts out every older producer of this sink, ends what that had
   open, and the driver asks its checkpoint once more whether it is the newest.
2. It reads the marker, which says the next message to publish: an epoch and an index in it.
3. A transaction takes messages from there on, and moves the marker behind them.
4. The transaction is committed. Messages and marker count together, or neither does.
5. When the last message of an epoch counts, its messages are removed from the outbox.

What is in the outbox does not change any more, so whoever publishes next goes on by the marker.
Epochs after the one that is named may come into it meanwhile (the next one runs, and may commit):
they are left for the publication after this one, which begins when this one has ended.
Whatever goes wrong, the way on is the same: connect again, and read the marker. Knows a broker by
four verbs; `transactions` is the one with Kafka behind it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from headrace.errors import CheckpointError, HeadraceError, MarkerLostError

_LOG = logging.getLogger(__name__)

#: Bits of a marker's number that are the index of a message in its epoch.
_INDEX_BITS = 32
#: Pauses before a broker that is away is asked again, in seconds; the last one goes on.
_PAUSES = (0.1, 0.5, 1.0, 2.0, 5.0)
#: A warning at the first failure, and after that at every so many.
_WARN_EACH = 12

#: The gaps of the protocol, by the step that comes before.
STAGED, COMMITTED, REMOVED = "staged", "committed", "removed"


class AwayError(HeadraceError):
    """A broker did not do what it was asked, and may do it when it is asked again."""


class Position(NamedTuple):
    """The next message to publish."""

    epoch: int
    message: int  # its place in the epoch

    def to_offset(self) -> int:
        """Give it as the offset that a consumer group can hold.

        >>> Position.from_offset(Position(7, 3).to_offset())
        Position(epoch=7, message=3)
        """
        return (self.epoch << _INDEX_BITS) + self.message

    @classmethod
    def from_offset(cls, offset: int) -> Position:
        """Read what `to_offset` gave."""
        return cls(offset >> _INDEX_BITS, offset & ((1 << _INDEX_BITS) - 1))


class Messages(Protocol):
    """So many messages, each of them a tuple."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Any]: ...


class Producer(Protocol):
    """A connection that has shut out all older ones of the same sink. All verbs raise AwayError."""

    def position(self) -> Position | None:
        """Read the marker; None if there is none."""

    def stage(self, messages: Messages, after: Position) -> None:
        """Begin a transaction, send messages in it, and move the marker."""

    def commit(self) -> None:
        """Make the transaction count; when it raises, nobody knows whether it does."""

    def close(self) -> None:
        """Let go. Never raises."""


class Outbox(Protocol):
    """Messages that epochs have set aside, in an order that stays."""

    def epochs(self) -> list[int]:
        """Give the epochs that have messages, in order; some may not be committed."""

    def messages(self, epoch: int, start: int, most: int) -> Iterator[tuple[Messages, bool]]:
        """Give an epoch's messages from an index on, some at a time; whether they are the last."""

    def remove(self, epoch: int) -> None:
        """Forget an epoch's messages; forgotten ones may be forgotten again."""

    def is_marked(self) -> bool:
        """Whether `mark` was called, by this driver or one before it."""

    def mark(self) -> None:
        """Note that the broker has a marker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How a sink publishes."""

    most: int  # messages in a transaction
    if_marker_lost: str = "refuse"  # or "publish", "skip"


class Publisher:
    """Publishes for one driver.

    Args:
        name: of the sink, for people.
        connect: makes a producer; raises AwayError.
        outbox: where messages are.
        fence: raises if the checkpoint has a newer driver.
        rules: how.
        gap: called in each gap of the protocol, with the step before it and the epoch.
        pause: waits for so many seconds, or less if somebody asks for an end.
    """

    def __init__(
        self, name: str, connect: Callable[[], Producer], outbox: Outbox, *,
        fence: Callable[[], None], rules: Rules, gap: Callable[[str, int], None],
        pause: Callable[[float], None],
    ) -> None:  # fmt: skip
        self._name = name
        self._connect = connect
        self._outbox = outbox
        self._fence = fence
        self._rules = rules
        self._gap = gap
        self._pause = pause
        self._producer: Producer | None = None
        self._at = Position(0, 0)

    def publish(
        self, committed: int, *, give_up: Callable[[], bool] = lambda: False,
        forget_later: bool = False,
    ) -> bool:
        """Publish all that committed epochs have set aside; give whether that is done.

        Waits for a broker that is away, until somebody asks to give up: what is in the outbox stays
        there for the next start.

        Args:
            committed: the last epoch that counts; -1: none does.
            give_up: whether to leave what the broker does not take.
            forget_later: go on although the broker has epochs that the checkpoint does not know.

        Raises:
            CheckpointError: a newer driver publishes, or the marker does not fit the checkpoint.
        """
        failures = 0
        while True:
            try:
                producer = self._connected(committed, forget_later)
                self._work(producer, committed)
                return True
            except AwayError as error:
                self.close()
                self._fence()  # a newer driver may be what is wrong
                if give_up():
                    _LOG.warning("%s: messages wait in the outbox: %s", self._name, error)
                    return False
                if failures % _WARN_EACH == 0:
                    _LOG.warning(
                        "%s: Kafka does not take what is to be published, which is kept and tried "
                        "again: %s", self._name, error,
                    )
                self._pause(_PAUSES[min(failures, len(_PAUSES) - 1)])
                failures += 1

    def close(self) -> None:
        """Let the producer go."""
        if self._producer is not None:
            self._producer.close()
            self._producer = None

    def _connected(self, committed: int, forget_later: bool) -> Producer:
        """Steps 1 and 2."""
        if self._producer is not None:
            return self._producer
        self._fence()
        producer = self._connect()
        try:
            # One that slept before it connected has shut the newer driver out, and must not go on;
            # the newer one connects again.
            self._fence()
            found = producer.position()
            if found is None:
                found = self._first(committed)
                if found is None:
                    found = Position(committed + 1, 0)
                    for epoch in self._outbox.epochs():
                        if epoch <= committed:
                            self._outbox.remove(epoch)
                producer.stage((), found)
                producer.commit()
            elif found.epoch > committed + 1:
                if not forget_later:
                    raise self._ahead(found, committed)
                found = Position(committed + 1, 0)
                producer.stage((), found)
                producer.commit()
            self._outbox.mark()
        except BaseException:
            producer.close()
            raise
        self._at = found
        self._producer = producer
        return producer

    def _first(self, committed: int) -> Position | None:
        """Give where to begin without a marker; None: after all that is there."""
        waiting = [epoch for epoch in self._outbox.epochs() if epoch <= committed]
        begin = Position(waiting[0] if waiting else committed + 1, 0)
        if not waiting or not self._outbox.is_marked() or self._rules.if_marker_lost == "publish":
            return begin
        if self._rules.if_marker_lost == "skip":
            return None
        msg = (
            f"{self._name}: the broker has lost the marker that says what was published (offsets "
            "of a consumer group expire, and end with their topic), while the outbox has messages "
            f"of epochs {waiting[0]} to {waiting[-1]}. Look whether the topic has them, and "
            'start with WriteToKafka(..., if_marker_lost="publish") or "skip"'
        )
        raise MarkerLostError(msg)

    def _ahead(self, found: Position, committed: int) -> CheckpointError:
        return CheckpointError(
            f"{self._name}: the topic holds messages of epochs up to {found.epoch - 1}, and the "
            f"checkpoint counts up to {committed}: an older copy of it was restored, and what "
            "comes after that would be published a second time. Restore the newest copy, or accept "
            "that with --remove_later_epochs"
        )

    def _work(self, producer: Producer, committed: int) -> None:
        """Steps 3 to 5."""
        for epoch in self._outbox.epochs():
            if epoch > committed:
                break
            if epoch >= self._at.epoch:
                start = self._at.message if epoch == self._at.epoch else 0
                for messages, last in self._outbox.messages(epoch, start, self._rules.most):
                    start += len(messages)
                    after = Position(epoch + 1, 0) if last else Position(epoch, start)
                    producer.stage(messages, after)
                    self._gap(STAGED, epoch)
                    producer.commit()
                    self._at = after
                    self._gap(COMMITTED, epoch)
            self._outbox.remove(epoch)
            self._gap(REMOVED, epoch)
