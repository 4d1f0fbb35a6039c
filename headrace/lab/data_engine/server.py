"""The process of one partition: makes events on schedule, answers readers on a loopback socket.

Reads its task from the standard input, one message, and prints the port. It idles until the first
reader asks for events. It ends when told to, or when whoever started it has gone.
"""

from __future__ import annotations

import socket
import socketserver
import sys
import threading
import time
from typing import Any, BinaryIO

from headrace.errors import HeadraceError
from headrace.lab.data_engine.events import EventsName, load
from headrace.lab.data_engine.pressure import Limits
from headrace.lab.data_engine.queue import PartitionQueue
from headrace.lab.data_engine.schedule import Phase, Schedule
from headrace.lab.data_engine.shares import Share
from headrace.lab.data_engine.wire import encoded, receive, send

#: Events become takeable this often; a latency is known no better.
TICK_SECONDS = 0.01
#: Samples in one answer, so that asking for the record does not hold the engine up.
_SAMPLES = 100_000


class Engine:
    """A queue, and the lock that lets many threads use it."""

    def __init__(self, queue: PartitionQueue, schema: Any, name: EventsName) -> None:
        self._queue = queue
        self._schema = schema
        self._name = name
        self._change = threading.Condition()
        self._stopped = False

    def answer(self, ask: dict[str, Any]) -> tuple[dict[str, Any], Any]:
        """Answer one request: head and body."""
        with self._change:
            match ask.get("do"):
                case "pull":
                    return self._pull(ask)
                case "offer":
                    self._begin()
                    self._queue.advance(time.time())
                    self._queue.offer(str(ask.get("reader", "")))
                    return self._status(), b""
                case "acknowledge":
                    self._queue.acknowledge(int(ask["until"]), str(ask.get("reader", "")))
                    return {}, b""
                case "status":
                    return self._status(), b""
                case "go on":
                    self._go_on(ask)
                    return self._status(), b""
                case "schedule":
                    return {"phases": self._queue.schedule.pairs()}, b""
                case "record":
                    return self._record(int(ask.get("from", 0))), b""
                case "end":
                    self._queue.stop()
                    self._change.notify_all()
                    return self._status(), b""
                case other:
                    return {"error": f"a data engine cannot {other!r}"}, b""

    def _begin(self) -> None:
        if self._queue.started is None:
            self._queue.start(time.time())
            self._change.notify_all()

    def _go_on(self, ask: dict[str, Any]) -> None:
        """Put an open queue under a further load: the times of its events follow from there."""
        phases = tuple(Phase(float(seconds), float(rate)) for seconds, rate in ask["phases"])
        whole = Schedule((*self._queue.schedule.phases, *phases))
        told = {**self._name.settings, "schedule": whole.pairs()}
        events = load(EventsName(module=self._name.module, settings=told))
        limits = None if ask["limits"] is None else Limits(**ask["limits"])
        self._queue.go_on(time.time(), phases, events.batch, limits)
        self._change.notify_all()

    def _pull(self, ask: dict[str, Any]) -> tuple[dict[str, Any], Any]:
        self._begin()
        queue, start, most = self._queue, int(ask["from"]), int(ask["most"])
        wait = time.monotonic() + float(ask.get("wait", 0))
        while queue.made <= start and not queue.ended and not self._stopped:
            left = wait - time.monotonic()
            if left <= 0:
                break
            self._change.wait(left)
        batches = queue.pull(start, most)
        return {**self._status(), "from": start}, encoded(self._schema, batches)

    def _status(self) -> dict[str, Any]:
        queue = self._queue
        return {
            "made": queue.made, "pulled": queue.pulled, "acknowledged": queue.acknowledged,
            "total": queue.total, "ended": queue.ended, "started": queue.started,
            "void": queue.void, "unsustained": queue.unsustained, "replayed": queue.replayed,
            "latest_seconds": queue.latest_seconds, "cpu_seconds": time.process_time(),
            "waits": queue.waits, "samples": len(queue.samples),
        }

    def _record(self, start: int) -> dict[str, Any]:
        some = self._queue.samples[start : start + _SAMPLES]
        rows = [[s.seconds, s.made, s.pulled, s.acknowledged] for s in some]
        return {"samples": rows}

    def run(self) -> None:
        """Make events until told to stop."""
        with self._change:
            while not self._stopped:
                if self._queue.started is None:
                    self._queue.prepare()
                    self._change.wait()
                    continue
                self._queue.advance(time.time())
                self._change.notify_all()
                self._queue.prepare()
                self._change.wait(TICK_SECONDS)

    def stop(self) -> None:
        """Let `run` end."""
        with self._change:
            self._stopped = True
            self._change.notify_all()


class _Reader(socketserver.StreamRequestHandler):
    """Talks to one reader until it goes."""

    wbufsize = -1

    def setup(self) -> None:
        self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        super().setup()

    def handle(self) -> None:
        server = self.server
        assert isinstance(server, _Server)
        while (got := receive(self.rfile)) is not None:  # type: ignore[arg-type]
            try:
                head, body = server.engine.answer(got[0])
            except (HeadraceError, KeyError, TypeError, ValueError) as error:
                head, body = {"error": str(error) or repr(error)}, b""
            send(self.wfile, head, body)  # type: ignore[arg-type]


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, engine: Engine) -> None:
        super().__init__(("127.0.0.1", 0), _Reader)
        self.engine = engine

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A reader that was killed is no news."""


def serve(source: BinaryIO, out: BinaryIO) -> None:
    """Run one partition: take the task, tell the port, end when the source ends."""
    got = receive(source)
    if got is None:
        return
    task = got[0]
    name = EventsName(**task["events"])
    events = load(name)
    schedule = Schedule.read(task["schedule"])
    limits = None if task["limits"] is None else Limits(**task["limits"])
    queue = PartitionQueue(
        Share(**task["share"]), schedule, events.batch, limits, task.get("hold"),
        is_open=task["is_open"],
    )
    engine = Engine(queue, events.schema, name)
    with _Server(engine) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        threading.Thread(target=engine.run, daemon=True).start()
        send(out, {"port": server.server_address[1], "events": events.events})
        receive(source)  # a word to end, or the end of whoever would say it
        engine.stop()
        server.shutdown()


if __name__ == "__main__":
    serve(sys.stdin.buffer, sys.stdout.buffer)
