"""Asks a Kafka broker how far its topics go, and a group of consumers, by the client library.

Spark is not asked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from headrace.errors import HeadraceError, OptionError
from headrace.io.kafka.client import client
from headrace.io.kafka.options import for_client, scrubbed

#: How long a broker may take to answer.
SECONDS = 30.0
#: Spark's numbers for the two ends of a partition.
EARLIEST, LATEST = -2, -1

#: Offsets by topic and partition, the numbers of partitions as texts, as Spark's log has them.
Position = dict[str, dict[str, int]]


class Heads:
    """The topics that a stream reads.

    Args:
        step: the read's name.
        options: of Kafka's clients, in the words of either.
        topics: their names.
        pattern: a regular expression for them, if they are not named.
        partitions: those to read, by topic, if not all.
    """

    def __init__(
        self, step: str, options: Mapping[str, str], *, topics: tuple[str, ...] = (),
        pattern: str = "", partitions: Mapping[str, list[int]] | None = None,
    ) -> None:
        self._step, self._options = step, options
        self._topics, self._pattern, self._assigned = topics, pattern, partitions
        self._library = client(step)
        settings = {**for_client(options), "enable.auto.commit": False}
        settings.setdefault("group.id", "headrace-looks")  # asked for, though nothing is joined
        self._consumer = self._library.Consumer(settings)

    def ends(self) -> tuple[Position, Position]:
        """Give the first and the next offset of every partition."""
        first: Position = {}
        after: Position = {}
        try:
            for topic, part in self._partitions():
                low, high = self._consumer.get_watermark_offsets(
                    self._library.TopicPartition(topic, part), timeout=SECONDS
                )
                first.setdefault(topic, {})[str(part)] = low
                after.setdefault(topic, {})[str(part)] = high
        except self._library.KafkaException as error:
            raise self._away(error) from None
        return first, after

    def at(self, millis: int) -> Position:
        """Give the first offset of every partition at a time or later; its end if there is none."""
        _, after = self.ends()
        asked = [
            self._library.TopicPartition(topic, int(part), millis)
            for topic, parts in after.items()
            for part in parts
        ]
        try:
            found = self._consumer.offsets_for_times(asked, timeout=SECONDS)
        except self._library.KafkaException as error:
            raise self._away(error) from None
        for each in found:
            if each.offset >= 0:
                after[each.topic][str(each.partition)] = each.offset
        return after

    def committed(self, otherwise: str) -> Position | None:
        """Give where the group of the options stands, partition by partition; None: nowhere yet.

        Args:
            otherwise: where a partition begins of which the group has committed nothing, or what
                is there no more: "earliest", "latest", or "none" to refuse.
        """
        first, after = self.ends()
        asked = [
            self._library.TopicPartition(topic, int(part))
            for topic, parts in after.items()
            for part in parts
        ]
        try:
            found = self._consumer.committed(asked, timeout=SECONDS)
        except self._library.KafkaException as error:
            raise self._away(error) from None
        committed: Position = {}
        for each in found:
            committed.setdefault(each.topic, {})[str(each.partition)] = each.offset
        return begun(self._step, committed, first, after, otherwise)

    def close(self) -> None:
        """Let go of the broker."""
        self._consumer.close()

    def _partitions(self) -> list[tuple[str, int]]:
        if self._assigned is not None:
            return sorted((t, part) for t, parts in self._assigned.items() for part in parts)
        known = self._consumer.list_topics(timeout=SECONDS).topics
        wanted = self._topics or tuple(
            name for name in known if re.fullmatch(self._pattern, name)
        )
        missing = [t for t in self._topics if t not in known or known[t].error is not None]
        if missing:
            msg = f"{self._step}: the broker has no topic {missing[0]!r}; make it first"
            raise OptionError(msg)
        return sorted((topic, part) for topic in wanted for part in known[topic].partitions)

    def _away(self, error: Exception) -> HeadraceError:
        said = scrubbed(str(error), self._options)
        return HeadraceError(
            f"{self._step}: the broker does not say how far its topics go: {said}. Nothing is "
            "lost: a start on the same checkpoint goes on"
        )


def begun(
    step: str, committed: Position, first: Position, after: Position, otherwise: str
) -> Position | None:
    """Decide where a read begins for a consumer group; None if the group has committed nothing.

    >>> begun("Read", {"t": {"0": 7, "1": -1001}}, {"t": {"0": 0, "1": 0}},
    ...       {"t": {"0": 9, "1": 5}}, "latest")
    {'t': {'0': 7, '1': 5}}

    Args:
        step: the read's name.
        committed: offsets of the group; below 0 where there is none.
        first: the first offset of every partition.
        after: the next offset of every partition.
        otherwise: where a partition begins that has none, or one that is there no more.
    """
    found: Position = {}
    for topic, parts in after.items():
        for part, end in parts.items():
            at = committed.get(topic, {}).get(part, LATEST)
            if first[topic][part] <= at <= end:
                found.setdefault(topic, {})[part] = at
            elif otherwise == "none":
                msg = (
                    f"{step}: the consumer group has committed no offset that partition {part} of "
                    f"{topic} still has, and auto.offset.reset is none; give earliest or latest"
                )
                raise OptionError(msg)
            else:
                # What is first may go at any time; what comes next is what it was now.
                found.setdefault(topic, {})[part] = EARLIEST if otherwise == "earliest" else end
    if all(at < 0 for parts in committed.values() for at in parts.values()):
        return None
    return found
