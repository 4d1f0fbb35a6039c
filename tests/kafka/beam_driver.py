"""Beam's own Kafka pipelines and their checks, as they ship, in a process of their own.

`python -m tests.kafka.beam_driver SERVERS KEYED|KEYLESS --test-pipeline-options=...`
"""

from __future__ import annotations

import sys
import uuid

from apache_beam.io.external import xlang_kafkaio_it_test as shipped


def main(servers: str, kind: str) -> None:
    """Write a thousand messages and read them back, by Beam's own transforms."""
    topic = f"xlang-{uuid.uuid4().hex}"
    made = shipped.CrossLanguageKafkaIO(servers, topic, kind == "KEYLESS")
    test = shipped.CrossLanguageKafkaIOTest()
    from headrace.lab.experiments.kafka.broker import create

    create(servers, topic, 2)
    test.run_kafka_write(made)
    test.run_kafka_read(made, None if kind == "KEYLESS" else b"key")
    print("written and read", topic, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
