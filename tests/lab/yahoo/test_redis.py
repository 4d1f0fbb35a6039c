"""The Yahoo pipeline against a real Redis server on loopback."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from headrace.errors import OptionError
from headrace.lab.workloads import yahoo
from headrace.lab.workloads.yahoo import redis_steps
from headrace.lab.workloads.yahoo.redis_store import (
    connect,
    find_campaigns,
    store_ads,
    store_counts,
)
from headrace.lab.workloads.yahoo.settings import Settings
from tests.lab.local_runs import generated_rows, oracle_rows

(WORKLOAD,) = yahoo.WORKLOADS
pytest.importorskip("redis", reason="the Python package redis is not installed")
SERVER = shutil.which("redis-server")
pytestmark = pytest.mark.skipif(
    SERVER is None, reason="there is no redis-server on PATH; scripts/ensure_redis.sh installs it"
)


class StoredWindow(NamedTuple):
    """One count as it stands in Redis."""

    campaign: str
    window_start_ms: int
    seen_count: int
    time_updated_ms: int


def read_counts(client: Any) -> list[StoredWindow]:
    """Read every count that is stored, sorted by campaign and window."""
    stored = []
    for campaign in sorted(client.smembers("campaigns")):
        list_id = client.hget(campaign, "windows")
        starts = sorted(map(int, client.lrange(list_id, 0, -1))) if list_id else []
        for start in starts:
            window = client.hgetall(client.hget(campaign, str(start)))
            stored.append(
                StoredWindow(
                    campaign, start, int(window["seen_count"]), int(window["time_updated"])
                )
            )
    return stored


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server of this module's own; it is ended by its process, whatever happens."""
    folder = tmp_path_factory.mktemp("redis")
    for _ in range(5):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        assert SERVER is not None
        told = {"--port": str(port), "--bind": "127.0.0.1", "--save": "", "--daemonize": "no"}
        command = [SERVER, *(word for option in told.items() for word in option)]
        server = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL)
        try:
            # Another process may have taken the port in between: then this one ends by itself.
            if _answers(server, f"127.0.0.1:{port}"):
                yield f"127.0.0.1:{port}"
                return
        finally:
            server.terminate()
            server.wait(timeout=10)
    pytest.fail("no port stayed free for as long as a server takes to start")


def _answers(server: subprocess.Popen[bytes], address: str) -> bool:
    """Wait until the server answers; False if it ended instead."""
    deadline = time.monotonic() + 10
    while server.poll() is None:
        try:
            connect(address).ping()
        except Exception:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return server.poll() is None
    return False


@pytest.fixture
def client(address: str) -> Iterator[Any]:
    """A client of an empty server."""
    opened = connect(address)
    opened.flushall()
    yield opened
    opened.close()


def test_counts_are_stored_in_yahoos_layout(client: Any) -> None:
    store_counts(client, [("c1", 0, 5), ("c1", 10_000, 6), ("c2", 0, 7)], now_ms=12_345)
    assert client.smembers("campaigns") == {"c1", "c2"}
    window_list = client.hget("c1", "windows")
    assert sorted(client.lrange(window_list, 0, -1)) == ["0", "10000"]
    window = client.hget("c1", "10000")
    assert client.hgetall(window) == {"seen_count": "6", "time_updated": "12345"}


def test_storing_a_count_again_changes_its_time_alone(client: Any) -> None:
    store_counts(client, [("c1", 0, 5)], now_ms=100)
    store_counts(client, [("c1", 0, 5), ("c1", 10_000, 2)], now_ms=200)
    assert read_counts(client) == [
        StoredWindow("c1", 0, 5, 200),
        StoredWindow("c1", 10_000, 2, 200),
    ]


def test_ads_are_found_and_unknown_ones_are_none(client: Any) -> None:
    store_ads(client, {"a1": "c1", "a2": "c1", "a3": "c2"})
    assert find_campaigns(client, ["a3", "a9", "a1", "a3"]) == {"a3": "c2", "a9": None, "a1": "c1"}
    assert find_campaigns(client, []) == {}
    assert client.smembers("campaigns") == {"c1", "c2"}


@pytest.mark.parametrize("batch", [3, 1_000])
def test_a_run_with_redis_gives_the_oracles_answer_and_stores_it(
    client: Any, address: str, tmp_path: Path, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch smaller than a bundle: look-ups wait and are answered several times in a bundle."""
    monkeypatch.setattr(redis_steps, "BATCH_ELEMENTS", batch)
    settings = Settings(
        events=2_000, rate=100, unknown_ads=50, out_of_order=20,
        table="redis", counts="redis", redis=address,
    )
    before = time.time_ns() // 1_000_000
    rows = generated_rows(WORKLOAD, settings)
    expected = oracle_rows(WORKLOAD, settings, tmp_path)
    assert Counter(rows) == Counter(expected)
    stored = read_counts(client)
    assert Counter((w.campaign, w.window_start_ms, w.seen_count) for w in stored) == Counter(rows)
    assert all(before <= w.time_updated_ms <= time.time_ns() // 1_000_000 for w in stored)


def test_a_server_that_does_not_answer_is_named_before_the_run() -> None:
    with socket.socket() as taken:  # bound, but nobody listens
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(OptionError, match=f"redis={address}: no Redis server answers"):
            WORKLOAD.build(Settings(table="redis", redis=address))


def test_an_ad_that_is_stored_later_is_found_later(client: Any, address: str) -> None:
    look_up = redis_steps.LookUpInRedis(address)
    look_up.setup()

    def bundle() -> list[Any]:
        look_up.start_bundle()
        made = list(look_up.process("a1", timestamp=0, window="w"))
        return made + [late.value for late in look_up.finish_bundle()]

    assert bundle() == [("UNKNOWN AD", 1)]
    store_ads(client, {"a1": "c1"})
    assert bundle() == [("c1", 1)]
    client.flushall()
    assert bundle() == [("c1", 1)], "known here now, Redis is not asked again"
    look_up.teardown()
