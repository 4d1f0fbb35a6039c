"""Kafka's topics on our own loop: the client library says how far they go, Spark's connector reads.

Positions and the note of where a run began have the form of the connector's own.
"""

from __future__ import annotations

import json
from typing import Any

from headrace.engine.sources.stream_plans import StreamOf
from headrace.errors import CheckpointError, UnsupportedTransformError
from headrace.io.kafka.heads import EARLIEST, LATEST, Heads, Position
from headrace.state.files import Files

#: Options of a stream, or of what it reads, that a bounded read is told in another way.
_OF_STREAMS = frozenset({
    "subscribe", "subscribepattern", "assign", "startingoffsets", "endingoffsets",
    "startingtimestamp", "startingoffsetsbytimestamp", "startingoffsetsbytimestampstrategy",
    "maxoffsetspertrigger", "minoffsetspertrigger", "maxtriggerdelay",
})  # fmt: skip


class KafkaSource:
    """Topics; a position has the next offset of every partition.

    Args:
        name: the read's.
        plan: of the streaming DataFrame.
        session: in which rows are read.
        files: the checkpoint.
        log: the folder in it for the log of this DataFrame.
    """

    look_seconds = 0.05

    def __init__(self, name: str, plan: StreamOf, session: Any, files: Files, log: str) -> None:
        read = plan.read
        self._name, self._plan, self._session = name, plan, session
        self._files, self._note = files, f"{log}/sources/0/0"
        self._options = {n: v for n, v in read.options.items() if n not in _OF_STREAMS}
        if read.option("startingOffsetsByTimestamp"):
            msg = (
                f"{name}: startingOffsetsByTimestamp is not known to headrace's own loop; give "
                "startingTimestamp, or startingOffsets by partition"
            )
            raise UnsupportedTransformError(msg)
        self._most = read.most(name, "maxOffsetsPerTrigger")
        self._may_lose = read.option("failOnDataLoss", "true").lower() == "false"
        assigned = read.option("assign")
        self._heads = Heads(
            name,
            {n.removeprefix("kafka."): v for n, v in read.options.items() if n[:6] == "kafka."},
            topics=tuple(t.strip() for t in read.option("subscribe").split(",") if t.strip()),
            pattern=read.option("subscribePattern"),
            partitions=json.loads(assigned) if assigned else None,
        )
        self._fixed: Position | None = None

    def first(self) -> Position:
        """Give where the run began, or begins now: "latest" must not be another place tomorrow."""
        try:
            note = self._files.read(self._note)
        except FileNotFoundError:
            began = self._beginning()
            self._files.create(self._note, b"\x00v1\n" + json.dumps(began).encode())
            note = self._files.read(self._note)
        found: Position = json.loads(note.partition(b"\n")[2])
        return found

    def advanced(self, start: Position) -> Position:
        """Ask the broker how far its topics go."""
        end = self._fixed if self._fixed is not None else self._heads.ends()[1]
        if not self._may_lose:
            self._check(start, end)
        return limited(start, {**start, **end}, self._most)

    def fix(self) -> None:
        """Take note of how far they go now."""
        self._fixed = self._heads.ends()[1]

    def promised(self, start: Position, end: Position) -> int | None:
        """Give how many messages are between two positions; None if a partition is new."""
        steps = [
            (start.get(topic, {}).get(part, EARLIEST), after)
            for topic, parts in end.items()
            for part, after in parts.items()
        ]
        # After a topic was made anew, numbers begin again, and a difference says nothing.
        if any(not 0 <= begin <= after for begin, after in steps):
            return None
        return sum(after - begin for begin, after in steps)

    def between(self, start: Position, end: Position) -> list[tuple[str, str, int, int]]:
        """Give topic, partition, first and next offset of what lies between two positions."""
        return [
            (topic, part, start.get(topic, {}).get(part, EARLIEST), after)
            for topic, parts in end.items()
            for part, after in parts.items()
            if after != start.get(topic, {}).get(part)
        ]

    def rows(self, start: Position, end: Position) -> Any:
        """Give the messages between two positions."""
        assign: dict[str, list[int]] = {}
        begins: Position = {}
        ends: Position = {}
        for topic, part, begin, after in self.between(start, end):
            assign.setdefault(topic, []).append(int(part))
            begins.setdefault(topic, {})[part] = begin if begin <= after else EARLIEST
            ends.setdefault(topic, {})[part] = after
        made = self._session.read.format("kafka").options(
            **self._options, assign=json.dumps(assign), startingOffsets=json.dumps(begins),
            endingOffsets=json.dumps(ends),
        ).load()
        return self._plan.over(made)

    def counted(self, end: Position) -> None:
        """Brokers keep what they keep."""

    def close(self) -> None:
        """Let go of the broker."""
        self._heads.close()

    def _beginning(self) -> Position:
        read = self._plan.read
        if millis := read.option("startingTimestamp"):
            return self._heads.at(int(millis))
        given = read.option("startingOffsets", "latest")
        first, after = self._heads.ends()
        if given in ("earliest", "latest"):
            return first if given == "earliest" else after
        asked: Position = json.loads(given)
        ends = {EARLIEST: first, LATEST: after}
        return {
            topic: {part: ends[at][topic][part] if at in ends else at for part, at in parts.items()}
            for topic, parts in asked.items()
        }

    def _check(self, start: Position, end: Position) -> None:
        for topic, parts in start.items():
            for part, at in parts.items():
                if end.get(topic, {}).get(part, at) < at:
                    msg = (
                        f"{self._name}: partition {part} of {topic} ends before offset {at}, up "
                        "to which it was read: the topic was made anew, and its messages are not "
                        "those that the checkpoint counts. Begin anew on an empty checkpoint, or "
                        "give failOnDataLoss=false to go on with what is there"
                    )
                    raise CheckpointError(msg)


def limited(start: Position, end: Position, most: int) -> Position:
    """Give a position on the way to an end, with so many messages at most; 0: the end.

    Every partition comes on by its share. A partition that was not there before begins at its
    first message, which is taken for 0.

    >>> limited({"t": {"0": 0, "1": 5}}, {"t": {"0": 90, "1": 15}}, 10)
    {'t': {'0': 9, '1': 6}}
    """
    lags = {
        (topic, part): max(0, after - start.get(topic, {}).get(part, 0))
        for topic, parts in end.items()
        for part, after in parts.items()
    }
    total = sum(lags.values())
    if not most or total <= most:
        return end
    found: Position = {}
    for (topic, part), lag in lags.items():
        share = max(1, lag * most // total) if lag else 0
        found.setdefault(topic, {})[part] = start.get(topic, {}).get(part, 0) + share
    return found
