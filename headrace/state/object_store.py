"""Files in an object store: S3 and what speaks its language, Google Cloud Storage, Azure.

An object appears whole when its upload ends, so nothing is written aside. `create` is an upload on
the condition that there is no such object, which the store decides (S3, Azure: `If-None-Match: *`;
Google: generation 0). Credentials come from the environment or the machine, never from the URI,
and never leave the client: errors are told without the store's own words about a request's query.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import SplitResult, parse_qsl, urlsplit

#: Schemes of URIs, and the names of the stores for people.
SCHEMES = {
    "s3": "S3", "s3a": "S3", "gs": "Google Cloud Storage",
    "az": "Azure", "abfs": "Azure", "abfss": "Azure",
}
#: What may stand behind the `?` of an S3 URI; the same words as pyarrow's.
S3_OPTIONS = ("endpoint_override", "region", "scheme")
EXTRA = "stores"


class ObjectStore:
    """Objects below a prefix of a bucket."""

    exclusive = True

    def __init__(self, store: Any, base: str, options: str = "") -> None:
        """Use a store.

        Args:
            store: one of obstore's stores, which begins at the prefix.
            base: the URI of the prefix, for people.
            options: what else tells this prefix from others of the same URI.
        """
        self._store = store
        self._base = base.rstrip("/")
        self._options = options

    @classmethod
    def at(cls, uri: str) -> ObjectStore:
        """Open the location of a URI; ValueError says what is wrong with it, or what is missing."""
        base, mark, options = uri.partition("?")
        # Forked children must not share a client's connections and threads.
        return cls(_client(uri, os.getpid()), base, mark + options)

    def path(self, name: str) -> str:
        """Give an object's URI; for no name that of the prefix, with its options."""
        return f"{self._base}/{name}" if name else self._base + self._options

    def read(self, name: str) -> bytes:
        """Read a whole object; FileNotFoundError if there is none."""
        with self._plain_errors(name):
            return bytes(self._store.get(name).bytes())

    def write(self, name: str, data: bytes) -> None:
        """Upload an object; what was there before is replaced."""
        with self._plain_errors(name):
            self._store.put(name, data)

    def create(self, name: str, data: bytes) -> bool:
        """Upload an object unless there is one; say whether it was uploaded.

        False is also the answer if the store had taken the object, its answer was lost, and the
        client asked again.
        """
        from obstore.exceptions import AlreadyExistsError

        with self._plain_errors(name):
            try:
                self._store.put(name, data, mode="create")
            except AlreadyExistsError:
                return False
            return True

    def size(self, name: str) -> int | None:
        """Give an object's size in bytes; None if there is no such object."""
        try:
            with self._plain_errors(name):
                return int(self._store.head(name)["size"])
        except FileNotFoundError:
            return None

    def listed(self, folder: str) -> list[str]:
        """Give the names of all objects below a folder."""
        with self._plain_errors(folder):
            return [found["path"] for batch in self._store.list(folder) for found in batch]

    def delete(self, names: Sequence[str]) -> None:
        """Delete objects; one that is not there is no mistake."""
        if not names:
            return
        try:
            with self._plain_errors(names[0]):
                self._store.delete(list(names))
        except FileNotFoundError:  # not all stores pass over an object that is not there
            for name in names:
                try:
                    with self._plain_errors(name):
                        self._store.delete(name)
                except FileNotFoundError:
                    continue

    @contextmanager
    def _plain_errors(self, name: str) -> Iterator[None]:
        """Tell the client's errors as the system's, with the object and without any secret."""
        from obstore.exceptions import BaseError

        try:
            yield
        except (BaseError, OSError, NotImplementedError) as e:
            kinds = (FileNotFoundError, PermissionError)
            raised = next((kind for kind in kinds if isinstance(e, kind)), OSError)
            msg = f"{self.path(name)}: {_cause(e)}"
            raise raised(msg) from None


def _cause(error: BaseException) -> str:
    """Give what the client says, without its inner view and without the queries of addresses."""
    said = str(error).partition("\n\nDebug source")[0]
    return re.sub(r"(https?://[^\s?]*)\?\S*", r"\1", " ".join(said.split()))


@functools.lru_cache(maxsize=64)
def _client(uri: str, process: int) -> Any:
    """Make a client, once for each URI and process: it keeps connections and credentials."""
    del process
    config = _config(uri)
    try:
        from obstore.exceptions import BaseError
        from obstore.store import from_url
    except ImportError as e:
        msg = (
            f"{SCHEMES[urlsplit(uri).scheme.lower()]} needs the package obstore, which is not "
            f"installed here: pip install 'headrace[{EXTRA}]', on the driver and on all executors"
        )
        raise ValueError(msg) from e
    endpoints = (
        config.get("endpoint", ""),
        *(os.environ.get(f"AWS_{name}", "") for name in ("ENDPOINT", "ENDPOINT_URL",
                                                           "ENDPOINT_URL_S3")),
    )
    # Plain HTTP is spoken only where somebody has written it out.
    plain = any(endpoint.startswith("http://") for endpoint in endpoints)
    try:
        # A slash at the end would be an empty part of all names.
        return from_url(
            uri.partition("?")[0].rstrip("/"), config=config or None,
            client_options={"allow_http": True} if plain else None,
        )
    except (BaseError, ValueError) as e:
        msg = f"{uri} is no address of an object store: {_cause(e)}"
        raise ValueError(msg) from None


def _config(uri: str) -> Any:
    """Read the options of a URI; ValueError if they are not ours or if there are credentials."""
    parts = urlsplit(uri)
    s3 = parts.scheme.lower() in ("s3", "s3a")
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    allowed = S3_OPTIONS if s3 else ()
    if parts.password or (s3 and parts.username):
        msg = (
            f"the address {_without_secrets(parts)} has credentials in it, which would be told in "
            "logs and errors: leave them out, and set them as environment variables"
        )
        raise ValueError(msg)
    if wrong := sorted(options.keys() - set(allowed)):
        known = ", ".join(allowed) if allowed else "none"
        msg = (
            f"the address {_without_secrets(parts)} has options that are not known here: "
            f"{', '.join(wrong)}; known are: {known}. Credentials and all else are set as "
            "environment variables"
        )
        raise ValueError(msg)
    config = {}
    if region := options.get("region"):
        config["region"] = region
    if endpoint := options.get("endpoint_override"):
        scheme = options.get("scheme", "https")
        config["endpoint"] = endpoint if "://" in endpoint else f"{scheme}://{endpoint}"
    return config


def _without_secrets(parts: SplitResult) -> str:
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}"
