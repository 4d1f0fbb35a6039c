"""The server: who is answered, what may be asked, and that nothing private is told unasked."""

from __future__ import annotations

import http.client
import json
import re
import socket
from collections.abc import Iterator

import pytest

from headrace.errors import OptionError
from headrace.plan.epoch_records import RetryRecord
from headrace.ui.history import KEPT, History
from headrace.ui.server import PageServer, is_known_host
from tests.ui.test_findings import GRAPH, epoch


@pytest.fixture
def history() -> History:
    return History(GRAPH)


@pytest.fixture
def server(history: History) -> Iterator[PageServer]:
    made = PageServer(history, port=0)
    yield made
    made.close(linger=0.0)


def ask(
    server: PageServer, path: str, method: str = "GET", **headers: str
) -> tuple[int, dict[str, str], str]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    found = answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read().decode()
    connection.close()
    return found


def test_it_listens_on_loopback_alone(server: PageServer) -> None:
    assert server.url == f"http://127.0.0.1:{server.port}/"
    others = {i[4][0] for i in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
    for address in {str(a) for a in others} - {"127.0.0.1", "127.0.1.1"}:
        with pytest.raises(OSError), socket.create_connection((address, server.port), 1):
            pass


@pytest.mark.parametrize(
    ("header", "given", "known"),
    [
        ("127.0.0.1:4090", "127.0.0.1", True),
        ("localhost:4090", "127.0.0.1", True),
        ("[::1]:4090", "127.0.0.1", True),
        ("evil.example:4090", "127.0.0.1", False),
        ("127.0.0.1.evil.example", "127.0.0.1", False),
        ("10.0.0.7:4090", "127.0.0.1", False),
        ("", "127.0.0.1", False),
        ("10.0.0.7:4090", "0.0.0.0", True),
        ("evil.example", "0.0.0.0", False),
        ("driver.example:80", "driver.example", True),
    ],
)
def test_a_name_that_somebody_let_point_here_is_refused(
    header: str, given: str, known: bool
) -> None:
    assert is_known_host(header, given) is known


def test_a_foreign_host_header_gets_nothing(server: PageServer) -> None:
    for path in ("/", "/api/state", "/metrics"):
        status, _, body = ask(server, path, Host="evil.example")
        assert status == 403
        assert "shop" not in body


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_nothing_but_get_is_answered(server: PageServer, method: str) -> None:
    status, headers, _ = ask(server, "/api/state", method)
    assert (status, headers["allow"]) == (405, "GET, HEAD")


def test_what_is_not_there_is_not_found(server: PageServer) -> None:
    assert [ask(server, p)[0] for p in ("/x", "/../server.py", "/api", "//evil/")] == [404] * 4


def test_no_other_origin_is_let_in_and_only_our_script_runs(server: PageServer) -> None:
    _, headers, body = ask(server, "/", Origin="http://evil.example")
    assert "access-control-allow-origin" not in headers
    assert headers["cross-origin-resource-policy"] == "same-origin"
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    assert "innerHTML" not in body
    assert not re.search(r"""(src|href)="(?!data:)|@import|url\(|https?://(?!www\.w3\.org)""", body)


def test_the_state_has_only_what_is_new(server: PageServer, history: History) -> None:
    for number in range(5):
        history.epoch(epoch(number))
    found = json.loads(ask(server, "/api/state")[2])
    assert [e["epoch"] for e in found["epochs"]] == [0, 1, 2, 3, 4]
    found = json.loads(ask(server, "/api/state?since=3")[2])
    assert [e["epoch"] for e in found["epochs"]] == [4]
    assert ask(server, "/api/state?since=x")[0] == 200


def test_the_history_does_not_grow_without_end(history: History) -> None:
    for number in range(KEPT + 10):
        history.epoch(epoch(number))
    assert len(history.seen().epochs) == KEPT
    assert history.seen().totals.epochs == KEPT + 10


def test_elements_and_words_of_exceptions_are_not_told_unless_asked_for() -> None:
    private = RetryRecord(epoch=1, error="ValueError", step="Parse", text="card 4711")
    told = {}
    for samples in (False, True):
        history = History(GRAPH, samples=samples)
        history.retry(private)
        history.epoch(epoch(0, samples={1: ("card 4712",)}, retries=(private,)))
        history.retry(private)
        history.ended("FAILED", private)
        told[samples] = json.dumps(history.document())
    assert "card" not in told[False]
    assert "ValueError" in told[False]
    assert "card 4711" in told[True] and "card 4712" in told[True]


def test_hot_keys_can_be_hidden() -> None:
    history = History(GRAPH, keys=False)
    history.epoch(epoch(0))
    text = json.dumps(history.document())
    assert "k1" not in text
    assert "(hidden 1)" in text


def test_a_port_that_is_taken_is_told_with_a_way_out(server: PageServer, history: History) -> None:
    with pytest.raises(OptionError, match=r"--ui_port=\d+: .*Give another --ui_port"):
        PageServer(history, port=server.port)


def test_the_next_free_port_is_taken_if_none_is_asked_for(history: History) -> None:
    first, second = PageServer(history), PageServer(history)
    assert first.port != second.port
    first.close(linger=0.0)
    second.close(linger=0.0)
