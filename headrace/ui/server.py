"""The server of the live page: GET alone, on loopback unless told otherwise.

Takes a history, gives answers over HTTP. A page of somebody else's must not read it through the
user's browser: the Host header must name this machine by an address or be a name that was given,
so that a foreign name that points here is refused, and no other origin is let in. Text of the
pipeline never becomes markup: it travels as JSON and the page puts it in as text.
"""

from __future__ import annotations

import base64
import hashlib
import ipaddress
import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from typing import Any
from urllib.parse import parse_qs, urlsplit

from headrace.errors import OptionError
from headrace.ui.history import History
from headrace.ui.metrics_text import CONTENT_TYPE, metrics_text

LOOPBACK = "127.0.0.1"
#: Ports that are tried if none is asked for, as Spark does with its own page.
PORTS = range(4090, 4110)
#: A page that has asked within this time is taken to be open still; it asks every second.
OPEN_SECONDS = 3.0
#: How long the server stays for an open page to see how the run has ended.
LINGER_SECONDS = 2.0


class PageServer:
    """Serves one history until it is closed.

    Args:
        history: what is shown.
        host: the address or name to listen at.
        port: the port, or None: the first free one of `PORTS`.
        look: is called before an answer is made, to see what is new.
    """

    def __init__(
        self, history: History, *, host: str = LOOPBACK, port: int | None = None,
        look: Callable[[], None] | None = None,
    ) -> None:
        self._asked = 0.0
        page = _page()

        class Handler(_Handler):
            def answer(handler, path: str, query: str) -> tuple[str, bytes] | None:
                if path == "/":
                    return "text/html; charset=utf-8", page
                if path not in ("/api/state", "/metrics"):
                    return None
                if look is not None:
                    look()
                if path == "/metrics":
                    return CONTENT_TYPE, metrics_text(history.seen()).encode()
                self._asked = time.monotonic()
                since = parse_qs(query).get("since", ["-1"])[0]
                number = int(since) if since.lstrip("-").isdigit() else -1
                text = json.dumps(history.document(number), separators=(",", ":"))
                return "application/json", text.encode()

            def is_known(handler, host_header: str) -> bool:
                return is_known_host(host_header, host)

        Handler.policy = _policy(page)
        self._server = _listening(host, port, Handler)
        self.port = int(self._server.server_address[1])
        shown = f"[{host}]" if ":" in host else host
        self.url = f"http://{shown}:{self.port}/"
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.2}, name="headrace-ui",
            daemon=True,
        )
        self._thread.start()

    def close(self, *, linger: float = LINGER_SECONDS) -> None:
        """End; a page that is open gets the time to see how the run has ended."""
        until = time.monotonic() + linger
        if time.monotonic() - self._asked < OPEN_SECONDS:
            last = self._asked
            while time.monotonic() < until and self._asked == last:
                time.sleep(0.05)
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def is_known_host(header: str, given: str) -> bool:
    """Whether a Host header names this server, and not a name that somebody let point here.

    >>> is_known_host("127.0.0.1:4090", "127.0.0.1"), is_known_host("evil.example", "127.0.0.1")
    (True, False)
    """
    name = urlsplit(f"//{header}").hostname or ""
    if name in ("localhost", given.lower()):
        return True
    try:
        asked = ipaddress.ip_address(name)
    except ValueError:
        return False
    return asked.is_loopback or not is_loopback(given)


def is_loopback(host: str) -> bool:
    """Whether an address or name is this machine's alone."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _listening(host: str, port: int | None, handler: type[_Handler]) -> ThreadingHTTPServer:
    """Listen at a port, or at the first that is free."""
    last: OSError | None = None
    for wanted in PORTS if port is None else (port,):
        try:
            return _Server((host, wanted), handler)
        except OSError as error:
            last = error
    asked = f"--ui_port={port}" if port is not None else f"ports {PORTS[0]} to {PORTS[-1]}"
    msg = (
        f"{asked}: the live page cannot listen at {host}: {last}. Give another --ui_port; 0 takes "
        "any that is free"
    )
    raise OptionError(msg) from last


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a browser that goes away in the middle is no error of the run's."""


class _Handler(BaseHTTPRequestHandler):
    """Answers GET and HEAD, refuses the rest."""

    server_version = "headrace"
    sys_version = ""
    timeout = 10
    policy = ""

    def answer(self, path: str, query: str) -> tuple[str, bytes] | None:
        """Give type and bytes; None: there is no such page."""
        raise NotImplementedError

    def is_known(self, host_header: str) -> bool:
        """Whether a Host header names this server."""
        raise NotImplementedError

    def do_GET(self) -> None:
        """Answer."""
        if not self.is_known(self.headers.get("Host", "")):
            self._send(403, "text/plain; charset=utf-8", b"this host name is not the server's\n")
            return
        asked = urlsplit(self.path)
        found = self.answer(asked.path, asked.query)
        if found is None:
            self._send(404, "text/plain; charset=utf-8", b"there is no such page\n")
        else:
            self._send(200, *found)

    do_HEAD = do_GET

    def _refuse(self) -> None:
        self._send(405, "text/plain; charset=utf-8", b"GET only\n")

    do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = _refuse

    def _send(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        for name, value in (
            ("Content-Type", kind), ("Content-Length", str(len(body))),
            ("Cache-Control", "no-store"), ("X-Content-Type-Options", "nosniff"),
            ("Content-Security-Policy", self.policy), ("X-Frame-Options", "DENY"),
            ("Referrer-Policy", "no-referrer"), ("Cross-Origin-Resource-Policy", "same-origin"),
            *([("Allow", "GET, HEAD")] if status == 405 else []),
        ):  # fmt: skip
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: the log is the pipeline's."""


def _page() -> bytes:
    """Give the page, whole: nothing is loaded besides its data."""
    folder = resources.files("headrace.ui")
    html, style, script = (
        (folder / name).read_text(encoding="utf-8") for name in ("page.html", "page.css", "page.js")
    )
    return html.replace("/*style*/", style).replace("/*script*/", script).encode()


def _policy(page: bytes) -> str:
    """Allow the page's own script and style, and nothing else."""
    def digest(tag: bytes) -> str:
        inside = page[page.index(b"<" + tag + b">") + len(tag) + 2 : page.index(b"</" + tag + b">")]
        return f"'sha256-{base64.b64encode(hashlib.sha256(inside).digest()).decode()}'"

    return (
        f"default-src 'none'; script-src {digest(b'script')}; style-src {digest(b'style')}; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    )
