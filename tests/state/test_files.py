"""One contract for files, whatever they lie on: a disk, object stores, another file system."""

from __future__ import annotations

import errno
import os
import pickle
import subprocess
import sys
import threading
import traceback
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from obstore.store import MemoryStore
from pyarrow import fs

from headrace.state import disk
from headrace.state.arrow_files import ArrowFiles
from headrace.state.files import UNFINISHED, Files, shown
from headrace.state.object_store import ObjectStore
from tests.s3 import S3

EVERYWHERE = ("disk", "file_uri", "memory_store", "s3", "arrow_subtree", "arrow_mock")
EXCLUSIVE = ("disk", "file_uri", "memory_store", "s3")


@pytest.fixture(params=EVERYWHERE)
def files(request: pytest.FixtureRequest) -> Files:
    return made(request.param, request)


@pytest.fixture(params=EXCLUSIVE)
def exclusive(request: pytest.FixtureRequest) -> Files:
    return made(request.param, request)


def made(kind: str, request: pytest.FixtureRequest) -> Files:
    folder: Path = request.getfixturevalue("tmp_path") / "check point"
    match kind:
        case "disk":
            return Files(str(folder))
        case "file_uri":
            return Files(folder.as_uri())
        case "memory_store":
            return Files("memory://", ObjectStore(MemoryStore(), "memory://"))
        case "s3":
            place = request.getfixturevalue("s3").place(f"check%20point/{uuid.uuid4().hex}")
            return Files(place)
        case "arrow_subtree":
            below = fs.SubTreeFileSystem(str(request.getfixturevalue("tmp_path")),
                                         fs.LocalFileSystem())
            return Files("subtree://", ArrowFiles(below, "checkpoint"))
        case _:
            return Files("mock://", ArrowFiles(fs._MockFileSystem(), "checkpoint"))


def test_what_is_written_is_read_back_whole(files: Files) -> None:
    for data in (b"", b"x", bytes(range(256)) * 30_000):  # the last one is uploaded in parts
        files.write("state/1-0/a.log", data)
        assert files.read("state/1-0/a.log") == data
        assert files.size("state/1-0/a.log") == len(data)


def test_a_file_in_the_folder_itself_needs_no_folder_below(files: Files) -> None:
    files.write("pipeline.json", b"{}")
    assert files.create("writer", b"w")
    assert (files.read("pipeline.json"), files.read("writer")) == (b"{}", b"w")


def test_a_file_that_is_not_there_is_told_by_its_name(files: Files) -> None:
    assert not files.exists("manifests/00000001.json")
    with pytest.raises(FileNotFoundError, match="00000001"):
        files.read("manifests/00000001.json")
    with pytest.raises(FileNotFoundError, match="00000001"):
        files.size("manifests/00000001.json")


def test_a_folder_is_no_file(files: Files) -> None:
    files.write("state/1-0/a", b"x")
    assert files.exists("state/1-0/a")
    assert not files.exists("state/1-0")


def test_writing_replaces_and_creating_does_not(files: Files) -> None:
    assert files.create("manifests/1", b"first")
    assert not files.create("manifests/1", b"second")
    assert files.read("manifests/1") == b"first"
    files.write("manifests/1", b"third")
    assert files.read("manifests/1") == b"third"


def test_files_are_listed_below_their_folder_alone_and_in_order(files: Files) -> None:
    for name in ("state/1-1/b", "state/1-0/c", "state/1-0/a", "state10/x", "states", "writer"):
        files.write(name, b"")
    assert files.names("state") == ["state/1-0/a", "state/1-0/c", "state/1-1/b"]
    assert files.names("state/1-0") == ["state/1-0/a", "state/1-0/c"]
    assert files.names("manifests") == []
    assert files.unfinished("state") == files.unfinished("manifests") == []


def test_a_file_that_was_never_finished_is_listed_apart(files: Files) -> None:
    torn = f"state/1-0/{UNFINISHED}0a1b-00000001-x.log"
    files.write("state/1-0/a", b"x")
    files.write(torn, b"to")
    assert files.names("state") == ["state/1-0/a"]
    assert files.unfinished("state") == [torn]
    files.delete([torn])
    assert files.unfinished("state") == []


def test_deleting_takes_what_is_there_and_passes_over_what_is_not(files: Files) -> None:
    for name in ("a", "b", "c"):
        files.write(f"state/{name}", b"x")
    files.delete(["state/a", "state/nothing", "state/c"])
    files.delete([])
    assert files.names("state") == ["state/b"]


@pytest.mark.parametrize("kind", ["memory_store", "s3"])
def test_more_files_than_a_store_lists_or_deletes_at_once(
    request: pytest.FixtureRequest, kind: str
) -> None:
    files = made(kind, request)
    names = [f"state/{number:05d}" for number in range(1_003)]
    for name in names:
        files.write(name, b"")
    assert files.names("state") == names
    files.delete(names[1:])
    assert files.names("state") == names[:1]


def test_nothing_is_left_aside(files: Files) -> None:
    files.write("state/a", b"x")
    files.create("state/b", b"x")
    files.create("state/b", b"y")
    assert files.unfinished("state") == []


def test_of_many_that_create_one_file_at_once_one_is_told_so(exclusive: Files) -> None:
    assert exclusive.exclusive
    for round_ in range(25):
        name = f"incarnations/{round_}"
        ready = threading.Barrier(6)
        winners: list[Any] = []

        def claim(number: int, name: str = name, ready: Any = ready, won: Any = winners) -> None:
            ready.wait()
            if exclusive.create(name, b"%d" % number):
                won.append(number)

        run_all([lambda n=number: claim(n) for number in range(6)])  # type: ignore[misc]
        assert len(winners) == 1
        assert exclusive.read(name) == b"%d" % winners[0]


def run_all(tasks: list[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=task) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_where_pyarrow_is_all_there_is_creation_is_not_called_exclusive() -> None:
    assert not Files("mock://", ArrowFiles(fs._MockFileSystem(), "x")).exclusive
    assert not Files("mock:///x").exclusive  # as a URI of pyarrow's, found by its scheme


@pytest.mark.parametrize("kind", ["disk", "file_uri", "s3"])
def test_a_worker_gets_the_same_files_and_no_credentials(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI")
    files = made(kind, request)
    files.write("state/a", b"x")
    carried = pickle.dumps(files)
    assert b"wJalrXUtnFEMI" not in carried
    again = pickle.loads(carried)
    assert (again.location, again.path("a"), again.read("state/a")) == (
        files.location, files.path("a"), b"x",
    )


# --- what people are told


def test_an_s3_address_is_told_without_options_and_a_folder_with_them(s3: S3) -> None:
    place = s3.place("auction")
    files = Files(place)
    assert files.path("manifests/1") == "s3://headrace/auction/manifests/1"
    assert files.below("spark/0") == "s3://headrace/auction/spark/0"
    assert files.path("") == place  # two stores may have a bucket of the same name
    assert Files("/data/auction/").below("spark/0") == "/data/auction/spark/0"


@pytest.mark.parametrize(
    "place",
    [
        "s3://AKIA:wJalrXUtnFEMI@bucket/auction",
        "s3://bucket/auction?access_key=AKIA&secret_key=wJalrXUtnFEMI",
        "abfss://auction@account.dfs.core.windows.net/x?sig=wJalrXUtnFEMI",
        "gs://bucket/auction?token=wJalrXUtnFEMI",
    ],
)
def test_credentials_in_an_address_are_refused_and_not_repeated(place: str) -> None:
    with pytest.raises(ValueError, match="environment variables") as caught:
        Files(place)
    assert "wJalrXUtnFEMI" not in str(caught.value)
    assert "wJalrXUtnFEMI" not in shown(place)


@pytest.mark.parametrize("place", ["ftp://me:wJalrXUtnFEMI@host/x", "what://me:wJalrXUtnFEMI@h"])
def test_a_place_of_which_nobody_knows_is_refused_without_its_credentials(place: str) -> None:
    with pytest.raises(ValueError, match="://me@h") as caught:
        Files(place)
    assert "wJalrXUtnFEMI" not in "".join(traceback.format_exception(caught.value))


def test_a_place_is_shown_as_it_is_where_there_is_nothing_to_hide() -> None:
    for place in ("/data/a?b@c", "s3://bucket/x", "abfss://c@account.dfs.core.windows.net/x"):
        assert shown(place) == place
    assert shown("s3://bucket/x?region=eu-central-1") == "s3://bucket/x"


def test_what_a_store_says_of_an_error_is_told_without_signatures() -> None:
    class Failing:
        def get(self, name: str) -> bytes:
            said = "GET https://account.blob.core.windows.net/c/a?sv=1&sig=wJalrXUtnFEMI in 3 ms"
            said += ": 503\n\nDebug source:\n sig=wJalrXUtnFEMI"
            raise OSError(said)

    with pytest.raises(OSError) as caught:
        Files("abfss://", ObjectStore(Failing(), "abfss://c@account")).read("a")
    assert str(caught.value) == (
        "abfss://c@account/a: GET https://account.blob.core.windows.net/c/a in 3 ms: 503"
    )
    assert caught.value.__cause__ is None and caught.value.__suppress_context__


def test_a_store_that_is_not_there_is_told_with_the_address(s3: S3) -> None:
    files = Files(s3.place("x").replace("headrace", "no-such-bucket"))
    with pytest.raises(OSError, match="s3://no-such-bucket/x/a: .*NoSuchBucket"):
        files.write("a", b"x")


@pytest.mark.parametrize("place", ["s3://bucket/a", "gs://bucket/a", "abfss://c@a.b.c/a"])
def test_without_the_extra_its_name_and_remedy_are_told(place: str) -> None:
    code = (
        "import sys; sys.modules['obstore'] = None\n"
        "from headrace.state.files import Files\n"
        f"try: Files({place!r})\nexcept ValueError as e: print(e)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=Path(__file__).parents[2], capture_output=True, text=True,
    )
    assert "pip install 'headrace[stores]'" in done.stdout, done.stderr
    assert "on the driver and on all executors" in done.stdout


def test_a_file_system_without_hard_links_is_refused_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_link(source: str, target: str) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM), source, None, target)

    monkeypatch.setattr(disk.os, "link", no_link)  # type: ignore[attr-defined]
    files = Files(str(tmp_path))
    with pytest.raises(OSError, match="no hard links .* created only once; use a folder") as caught:
        files.create("manifests/1", b"x")
    assert caught.value.filename == str(tmp_path / "manifests" / "1")
    assert files.names("manifests") == files.unfinished("manifests") == []
