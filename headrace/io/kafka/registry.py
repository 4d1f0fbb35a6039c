"""A schema registry that speaks Confluent's protocol, and the header that its messages have.

The header is a byte of zero and the schema's number in four bytes. Schemas never change under their
number, so each is asked for once in a process. Speaks HTTP, and knows nothing of Kafka itself.
"""

from __future__ import annotations

import base64
import json
import os
import struct
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass, field
from typing import Any

from headrace.errors import OptionError, RegistryError

_HEADER = struct.Struct(">bI")
_SECONDS = 30

#: (URL, what was asked) -> the answer: a process asks once.
_known: dict[tuple[str, str], Any] = {}


@dataclass(frozen=True, slots=True)
class SchemaRegistry:
    """Where schemas are kept.

    Args:
        url: of the registry.
        user: who asks; empty: nobody is asked who it is.
        password_variable: the environment variable that holds the password, here and on the
            workers. The password itself does not travel with the pipeline.
    """

    url: str
    user: str = ""
    password_variable: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        parts = urllib.parse.urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            msg = "SchemaRegistry: the address begins with http:// or https:// and names a host"
            raise OptionError(msg)
        if "@" in parts.netloc:
            msg = (
                "SchemaRegistry: no user and password in the address, which is shown to people; "
                "give user=... and password_variable=..."
            )
            raise OptionError(msg)

    def schema(self, number: int) -> str:
        """Give the text of a schema by its number."""
        answer = self._asked(f"/schemas/ids/{number}")
        return str(answer["schema"])

    def number(self, subject: str | None, schema: str | None, kind: str) -> int:
        """Give the number of a schema; a registry that does not have it yet takes it."""
        if not subject or schema is None:
            msg = f"{self}: to write, give the subject and the schema"
            raise OptionError(msg)
        request = {"schema": schema} if kind == "AVRO" else {"schema": schema, "schemaType": kind}
        path = f"/subjects/{urllib.parse.quote(subject, safe='')}/versions"
        return int(self._asked(path, json.dumps(request))["id"])

    def _asked(self, path: str, body: str = "") -> Any:
        asked = (self.url, path + body)
        if asked in _known:
            return _known[asked]
        request = urllib.request.Request(
            self.url.rstrip("/") + path,
            data=body.encode() or None,
            headers={"Content-Type": "application/vnd.schemaregistry.v1+json"},
        )
        if self.user:
            password = os.environ.get(self.password_variable, "")
            login = base64.b64encode(f"{self.user}:{password}".encode()).decode()
            request.add_header("Authorization", f"Basic {login}")
        try:
            with urllib.request.urlopen(request, timeout=_SECONDS) as answer:
                found = json.load(answer)
        except urllib.error.HTTPError as error:
            msg = f"{self.url}{path}: the registry answers {error.code}, {error.reason}"
            raise RegistryError(msg) from None
        except (OSError, ValueError) as error:
            msg = f"{self.url}{path}: the registry cannot be asked: {error}"
            raise RegistryError(msg) from None
        _known[asked] = found
        return found


def framed(number: int, body: bytes) -> bytes:
    r"""Put the header before a message.

    >>> framed(7, b"x")
    b'\x00\x00\x00\x00\x07x'
    """
    return _HEADER.pack(0, number) + body


def unframed(data: bytes) -> tuple[int, bytes]:
    """Give the schema's number and the message without its header."""
    if len(data) < _HEADER.size:
        msg = f"a message of {len(data)} bytes has no header of a schema registry"
        raise ValueError(msg)
    magic, number = _HEADER.unpack_from(data)
    if magic != 0:
        msg = (
            f"the message begins with byte {magic & 0xFF}, not with the 0 of a schema registry's "
            "header; if it was written without a registry, leave registry=... out"
        )
        raise ValueError(msg)
    return number, data[_HEADER.size :]
