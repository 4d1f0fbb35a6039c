"""The client library `confluent-kafka`: loaded when it is needed, and named when it is missing."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from headrace.errors import OptionError
from headrace.io.kafka.offsets import offsets_in
from headrace.io.kafka.options import for_client, scrubbed

_LOG = logging.getLogger(__name__)


def client(step: str) -> Any:
    """Give the library.

    Raises:
        OptionError: it is not installed; says how to mend that.
    """
    try:
        import confluent_kafka
    except ImportError as missing:
        msg = (
            f"{step}: the client library confluent-kafka is not installed; "
            "pip install 'headrace[kafka]' brings it"
        )
        raise OptionError(msg) from missing
    return confluent_kafka


class GroupOffsets:
    """Tells a consumer group how far a pipeline is, for those who watch it.

    Args:
        group: the consumer group's name.
        options: of Kafka's clients.
    """

    def __init__(self, group: str, options: Mapping[str, str]) -> None:
        client("ReadFromKafka(group_id=...)")
        self._group = group
        self._options = options
        self._consumer: Any = None
        self._last: Any = None

    def reached(self, position: Any) -> None:
        """Commit where an epoch that counts has ended; failing that, say so and go on."""
        self._last = position
        self._commit(position, wait=False)

    def close(self) -> None:
        """See that the last position has arrived, and let go."""
        if self._consumer is not None:
            self._commit(self._last, wait=True)
            self._consumer.close()
            self._consumer = None

    def _commit(self, position: Any, *, wait: bool) -> None:
        library = client("ReadFromKafka(group_id=...)")
        parts = [
            library.TopicPartition(topic, part, offset)
            for topic, offsets in offsets_in(position).items()
            for part, offset in offsets.items()
        ]
        try:
            if self._consumer is None:
                settings = {**for_client(self._options), "group.id": self._group}
                self._consumer = library.Consumer({
                    **settings, "enable.auto.commit": False, "on_commit": self._answered,
                })  # fmt: skip
            if parts:
                self._consumer.commit(offsets=parts, asynchronous=not wait)
            self._consumer.poll(0)  # hears how earlier commits have ended; nothing is subscribed
        except Exception as error:  # noqa: BLE001 (nothing depends on it but somebody's chart)
            self._warn(error)

    def _answered(self, error: Any, parts: Any) -> None:
        """Hear how a commit that nobody waited for has ended."""
        failed = error or next((part.error for part in parts if part.error), None)
        if failed is not None:
            self._warn(failed)

    def _warn(self, error: Any) -> None:
        said = scrubbed(str(error), self._options)
        _LOG.warning("the offsets of group %s could not be committed: %s", self._group, said)
