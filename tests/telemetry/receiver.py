"""A small server on this machine that keeps what is posted to it; it may be ill."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Receiver:
    """What was posted, by path; the answer is `status`, after `hold` is set."""

    def __init__(self) -> None:
        self.posted: list[tuple[str, bytes]] = []
        self.status = 200
        self.hold = threading.Event()
        self.hold.set()
        self.url = ""

    def bodies(self, path: str) -> list[bytes]:
        return [body for where, body in self.posted if where == path]


@contextmanager
def receiving() -> Iterator[Receiver]:
    """Serve while the block runs."""
    kept = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            kept.posted.append((self.path, body))
            kept.hold.wait(30)
            self.send_response(kept.status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *words: object) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    kept.url = f"http://127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield kept
    finally:
        kept.hold.set()
        server.shutdown()
        server.server_close()
