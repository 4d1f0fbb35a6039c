"""An S3 on this machine: moto's server, which keeps objects in memory."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

BUCKET = "headrace"
REGION = "us-east-1"


def one_at_a_time(application: Any) -> Callable[[dict[str, Any], Any], Iterable[bytes]]:
    """Let an application answer one request at a time.

    moto looks whether an object is there and then takes the new one, in two steps: of several
    threads more than one can win. S3 does both in one step, and so does this.
    """
    turn = threading.Lock()

    def answer(environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        length = int(environ.get("CONTENT_LENGTH") or 0)
        # Read before the turn: a client that is stopped in the middle must not stop the others.
        environ["wsgi.input"] = io.BytesIO(environ["wsgi.input"].read(length))
        with turn:
            answered: Iterable[bytes] = application(environ, start)
            return answered

    return answer


@dataclass(frozen=True, slots=True)
class S3:
    """A server with one bucket."""

    endpoint: str

    def place(self, prefix: str) -> str:
        """The URI of a prefix, as a user would write it."""
        return f"s3://{BUCKET}/{prefix}?endpoint_override={self.endpoint}&region={REGION}"

    def client(self) -> Any:
        """Another client than the one under test."""
        import boto3

        return boto3.client("s3", endpoint_url=self.endpoint, region_name=REGION)

    def objects(self, prefix: str) -> dict[str, bytes]:
        """All objects below a prefix, as the other client sees them."""
        client = self.client()
        pages = client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=f"{prefix}/")
        keys = [entry["Key"] for page in pages for entry in page.get("Contents", ())]
        return {
            key[len(prefix) + 1 :]: client.get_object(Bucket=BUCKET, Key=key)["Body"].read()
            for key in keys
        }


@contextmanager
def served(around: Callable[[Any], Any] = lambda application: application) -> Iterator[S3]:
    """Run a server on a free port of this machine, with something around it if one likes."""
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import WSGIRequestHandler, make_server

    class Silent(WSGIRequestHandler):
        def log(self, *_: Any) -> None:
            """Say nothing: a run makes thousands of requests."""

    application = around(one_at_a_time(DomainDispatcherApplication(create_backend_app)))
    server = make_server("127.0.0.1", 0, application, threaded=True, request_handler=Silent)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        found = S3(f"http://127.0.0.1:{server.server_port}")
        found.client().create_bucket(Bucket=BUCKET)
        yield found
    finally:
        server.shutdown()


@pytest.fixture(scope="session")
def s3() -> Iterator[S3]:
    """The server that all tests share; each keeps to a prefix of its own."""
    with served() as server:
        yield server
