"""Decides what Spark's connector and the client library are told of a user's Kafka options. Pure.

Takes one set of options, gives it in the words of Java's client (which Spark uses) and in those of
librdkafka (which `confluent-kafka` is). Keeps secrets out of whatever people read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from headrace.errors import OptionError

#: Stands where a secret would.
HIDDEN = "(not shown)"
#: Names of options whose values are nobody's business.
_SECRET = re.compile(r"(?i)password|secret|jaas|token|credential|\.pem$|key\.?(pem|string)$|auth")
#: What Java's client takes and librdkafka does not know: how objects become bytes is ours, and
#: stores of Java's own kind are read by Java alone.
_JAVA_ONLY = re.compile(
    r"(key|value)\.(de)?serializer$|sasl\.jaas\.config$|ssl\.(truststore|keystore)\.|"
    r"auto\.offset\.reset$|(default\.api\.timeout|max\.poll\.records|interceptor\.classes|"
    r"fetch\.max\.wait\.ms|partition\.assignment\.strategy|schema\.registry\.)"
)
#: What librdkafka takes and Java's client does not know.
_CLIENT_ONLY = re.compile(
    r"sasl\.(username|password)$|ssl\.(ca|certificate|key|crl)\.(location|pem)$|"
    r"queue\.buffering\.|log_level$|debug$|statistics\."
)
#: What we set ourselves, for Spark and for the client, and why nobody else may.
_OURS = {
    "transactional.id": "a sink has one of its own, so that an older driver is kept out",
    "enable.idempotence": "a transaction needs it",
    "enable.auto.commit": "positions are in the checkpoint",
}
_LOGIN = re.compile(r"(username|password)\s*=\s*\"((?:[^\"\\]|\\.)*)\"")
_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


def checked(step: str, servers: str, options: Mapping[str, Any] | None) -> dict[str, str]:
    """Read what a user gave.

    >>> checked("ReadFromKafka", "a:9092", {"fetch.min.bytes": 1})
    {'bootstrap.servers': 'a:9092', 'fetch.min.bytes': '1'}

    Raises:
        OptionError: something is missing, or not the user's to set.
    """
    if not isinstance(servers, str) or not servers.strip():
        msg = f'{step}: give the brokers as text, such as "broker1:9092,broker2:9092"'
        raise OptionError(msg)
    found = {"bootstrap.servers": servers}
    for name, value in (options or {}).items():
        plain = str(name).removeprefix("kafka.")
        if plain in _OURS:
            msg = f"{step}: the option {plain} is not yours to set: {_OURS[plain]}"
            raise OptionError(msg)
        if plain == "bootstrap.servers" and str(value) != servers:
            msg = f"{step}: the brokers are given twice, and not alike"
            raise OptionError(msg)
        found[plain] = _text(value)
    return found


def for_java(options: Mapping[str, str]) -> dict[str, str]:
    """Give options in the words of Java's client.

    >>> for_java({"sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": "p"}).keys()
    dict_keys(['sasl.mechanism', 'sasl.jaas.config'])
    """
    found = {name: value for name, value in options.items() if not _CLIENT_ONLY.match(name)}
    user, password = options.get("sasl.username"), options.get("sasl.password")
    if user is not None and password is not None and "sasl.jaas.config" not in found:
        mechanism = options.get("sasl.mechanism") or options.get("sasl.mechanisms") or "PLAIN"
        found.pop("sasl.mechanisms", None)
        found["sasl.mechanism"] = mechanism
        if module := _MODULES.get(mechanism.upper()):
            found["sasl.jaas.config"] = (
                f'{module} required username="{_escaped(user)}" password="{_escaped(password)}";'
            )
    if (authority := options.get("ssl.ca.location")) and "ssl.truststore.location" not in found:
        found |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": authority}
    return found


def for_client(options: Mapping[str, str]) -> dict[str, str]:
    """Give options in librdkafka's words."""
    found = {name: value for name, value in options.items() if not _JAVA_ONLY.match(name)}
    login = options.get("sasl.jaas.config", "")
    for name, value in _LOGIN.findall(login):
        found.setdefault(f"sasl.{name}", value.replace('\\"', '"').replace("\\\\", "\\"))
    authority = options.get("ssl.truststore.location")
    if authority and options.get("ssl.truststore.type", "").upper() == "PEM":
        found.setdefault("ssl.ca.location", authority)
    return found


def shown(options: Mapping[str, Any]) -> dict[str, str]:
    """Give options as people may read them.

    >>> shown({"sasl.password": "p", "group.id": "g"})
    {'sasl.password': '(not shown)', 'group.id': 'g'}
    """
    return {name: HIDDEN if _is_secret(name) else str(value) for name, value in options.items()}


def scrubbed(text: str, options: Mapping[str, Any]) -> str:
    """Take the secrets of options out of what somebody else has said."""
    for name, value in options.items():
        if not _is_secret(name) or not str(value):
            continue
        text = text.replace(str(value), HIDDEN)
        if name.endswith("jaas.config"):
            for _, part in _LOGIN.findall(str(value)):
                text = text.replace(part, HIDDEN) if part else text
    return text


def _is_secret(name: str) -> bool:
    return bool(_SECRET.search(name)) and name not in ("sasl.oauthbearer.token.endpoint.url",)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
