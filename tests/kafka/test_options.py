"""What Spark and the client library are told, what people may read, and what is refused."""

from __future__ import annotations

import datetime
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.utils.timestamp import Timestamp

from headrace.errors import ColumnTypeError, OptionError
from headrace.io import ReadFromKafka, WriteToKafka
from headrace.io.kafka.offsets import (
    Topics,
    end_options,
    offsets_in,
    partitions_in,
    start_options,
)
from headrace.io.kafka.options import checked, for_client, for_java, scrubbed, shown

JAAS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="ann" password="pa\\"ss";'
)


def test_a_login_in_the_words_of_either_client_reaches_both() -> None:
    login = {"sasl.mechanism": "PLAIN", "sasl.username": "ann", "sasl.password": 'pa"ss'}
    java = for_java(login)
    assert java == {"sasl.mechanism": "PLAIN", "sasl.jaas.config": JAAS}
    back = for_client(java)
    assert back == login


def test_scram_has_a_login_module_of_its_own() -> None:
    java = for_java({
        "sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "u", "sasl.password": "p",
    })
    assert java["sasl.jaas.config"].startswith(
        "org.apache.kafka.common.security.scram.ScramLoginModule required "
    )


def test_an_authority_in_pem_reaches_both() -> None:
    assert for_java({"ssl.ca.location": "/ca.pem"}) == {
        "ssl.truststore.type": "PEM", "ssl.truststore.location": "/ca.pem",
    }  # fmt: skip
    told = {"ssl.truststore.type": "PEM", "ssl.truststore.location": "/ca.pem"}
    assert for_client(told) == {"ssl.ca.location": "/ca.pem"}


def test_stores_of_javas_own_kind_and_its_classes_stay_with_java() -> None:
    options = {
        "ssl.truststore.location": "/a.jks", "key.deserializer": "x.Y",
        "security.protocol": "SSL", "auto.offset.reset": "earliest",
    }  # fmt: skip
    assert for_client(options) == {"security.protocol": "SSL"}


@pytest.mark.parametrize(
    "name",
    ["sasl.password", "ssl.key.password", "ssl.keystore.password", "sasl.jaas.config",
     "sasl.oauthbearer.client.secret", "ssl.key.pem", "basic.auth.user.info"],
)  # fmt: skip
def test_secrets_are_never_shown(name: str) -> None:
    assert shown({name: "hush", "group.id": "g"}) == {name: "(not shown)", "group.id": "g"}


def test_secrets_are_taken_out_of_what_others_say() -> None:
    said = f"cannot log in with {JAAS} as ann"
    clean = scrubbed(said, {"sasl.jaas.config": JAAS, "sasl.mechanism": "PLAIN"})
    assert "pa" not in clean.replace("apache", "").replace("password", "")
    assert scrubbed("value hush is wrong", {"sasl.password": "hush"}) == (
        "value (not shown) is wrong"
    )


def test_no_secret_is_in_the_proto_of_a_pipeline_nor_in_what_a_transform_says_of_itself() -> None:
    options = {"sasl.username": "ann", "sasl.password": "hush-hush", "security.protocol": "SSL"}
    pipeline = beam.Pipeline()
    read = ReadFromKafka("b:1", "t", options=options)
    write = WriteToKafka("b:1", "t", options=options)
    _ = pipeline | read | beam.Map(lambda row: row.value) | write
    proto = pipeline.to_runner_api()
    assert b"hush-hush" not in proto.SerializeToString()
    for said in (str(read), repr(read), str(write), repr(write), str(read.display_data())):
        assert "hush-hush" not in said


@pytest.mark.parametrize(
    "name", ["transactional.id", "enable.auto.commit", "kafka.transactional.id"]
)
def test_what_is_ours_to_set_is_refused(name: str) -> None:
    with pytest.raises(OptionError, match="not yours to set"):
        checked("WriteToKafka", "a:1", {name: "x"})


@pytest.mark.parametrize("servers", ["", "  ", None, 9092])
def test_brokers_are_text(servers: Any) -> None:
    with pytest.raises(OptionError, match="give the brokers"):
        checked("ReadFromKafka", servers, None)


def test_truth_is_written_as_kafka_writes_it() -> None:
    assert checked("r", "a:1", {"kafka.allow.auto.create.topics": False}) == {
        "bootstrap.servers": "a:1", "allow.auto.create.topics": "false",
    }  # fmt: skip


def test_positions_become_sparks_options() -> None:
    at = datetime.datetime(2023, 11, 14, 22, 13, 20, 500_000, tzinfo=datetime.UTC)
    for same in (at, Timestamp(1_700_000_000.5), 1_700_000_000.5):
        assert start_options(same)["startingTimestamp"] == "1700000000500"
        assert end_options(same) == {"endingTimestamp": "1700000000500"}
    assert end_options({"t": {1: 9, 0: "latest"}}) == {"endingOffsets": '{"t": {"1": 9, "0": -1}}'}
    assert start_options("latest") == {"startingOffsets": "latest"}


@pytest.mark.parametrize(
    "start", ["newest", {"t": 5}, {}, {"t": {0: -7}}, {"t": {0: True}}, None, True,
              datetime.datetime(2023, 1, 1)],
)  # fmt: skip
def test_what_is_no_position_is_refused(start: Any) -> None:
    with pytest.raises(OptionError, match="ReadFromKafka"):
        start_options(start)


def test_a_position_of_sparks_log_names_partitions_and_offsets() -> None:
    assert partitions_in({"b": {"0": 7}, "a": {"10": 0, "2": 3}}) == ("a-10", "a-2", "b-0")
    assert offsets_in({"a": {"10": 4}}) == {"a": {10: 4}}
    for other in (None, 17, {"logOffset": 3}, {"a": {"x": 1}}, [1]):
        assert offsets_in(other) == {}
        assert partitions_in(other) == ()


@pytest.mark.parametrize(
    ("topics", "pattern"), [(None, None), ("t", "p"), ([], None), ("", ""), (["a", ""], None)]
)
def test_topics_or_a_pattern(topics: Any, pattern: Any) -> None:
    with pytest.raises(OptionError):
        Topics.of(topics, pattern)
    assert Topics.of(["a", "b"], None).options() == {"subscribe": "a,b"}
    assert Topics.of(None, "a.*").options() == {"subscribePattern": "a.*"}


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"columns": ["key", "colour"]}, ColumnTypeError),
        ({"columns": []}, ColumnTypeError),
        ({"value": {"a": 1}}, OptionError),
        ({"value": "utf-16"}, OptionError),
        ({"max_per_epoch": 0}, OptionError),
        ({"max_per_epoch": 5, "end": "latest"}, OptionError),
        ({"end": "earliest"}, OptionError),
        ({"bad_times": "keep"}, OptionError),
        ({"watermark": "late"}, OptionError),
    ],
)
def test_a_read_outside_its_domain_is_refused_when_it_is_made(
    arguments: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        ReadFromKafka("b:1", "t", **arguments)


@pytest.mark.parametrize(
    "arguments",
    [{"topic": ""}, {"topic": None}, {"timestamps": "late"}, {"if_marker_lost": "guess"},
     {"max_per_transaction": 0}, {"value": 17}],
)  # fmt: skip
def test_a_write_outside_its_domain_is_refused_when_it_is_made(arguments: dict[str, Any]) -> None:
    with pytest.raises(OptionError):
        WriteToKafka("b:1", **{"topic": "t", **arguments})


def test_a_read_with_an_end_is_bounded_and_its_fields_are_those_asked_for() -> None:
    pipeline = beam.Pipeline()
    open_end = pipeline | "a" >> ReadFromKafka("b:1", "t", columns=["value", "topic"])
    ended = pipeline | "b" >> ReadFromKafka("b:1", "t", end="latest", value="text")
    assert (open_end.is_bounded, ended.is_bounded) == (False, True)
    assert open_end.element_type._fields == ("value", "topic")
    assert ended.element_type._fields == ("key", "value")
