"""Who created a file: told by the answer, or by the file where the answer does not tell."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from obstore.store import MemoryStore

from headrace.engine.checkpoint import checkpoints
from headrace.engine.checkpoint.checkpoints import Checkpoint
from headrace.engine.checkpoint.exclusive import created, see_that_it_refuses
from headrace.engine.checkpoint.fencing import incarnations_of
from headrace.errors import CheckpointError
from headrace.state.files import Files
from headrace.state.object_store import ObjectStore
from tests.engine.test_checkpoints import NOON, PIPELINE
from tests.s3 import S3, served

NAME = "manifests/00000000.json"


class Memory(ObjectStore):
    """A store in memory whose answers can be spoilt by the classes below."""

    def __init__(self) -> None:
        super().__init__(MemoryStore(), "memory://")


def files_on(system: Any) -> Files:
    return Files("memory://", system)


def test_one_who_creates_first_has_it_and_the_next_has_not() -> None:
    files = files_on(Memory())
    assert created(files, NAME, b"mine")
    assert not created(files, NAME, b"of another")
    assert files.read(NAME) == b"mine"


def test_where_creation_is_not_exclusive_the_loser_sees_it() -> None:
    class LastWins(Memory):
        exclusive = False

        def create(self, name: str, data: bytes) -> bool:
            self.write(name, data)
            self.write(name, b"of the other, a moment later")
            return True

    assert not created(files_on(LastWins()), NAME, b"mine")


def test_an_error_after_the_file_was_taken_is_no_error() -> None:
    class AnswerLost(Memory):
        def create(self, name: str, data: bytes) -> bool:
            super().create(name, data)
            raise TimeoutError

    files = files_on(AnswerLost())
    assert created(files, NAME, b"mine")
    with pytest.raises(TimeoutError):
        created(files, NAME, b"of another")


def test_an_error_before_the_file_was_taken_is_told() -> None:
    class Unreachable(Memory):
        def create(self, name: str, data: bytes) -> bool:
            raise TimeoutError

    with pytest.raises(TimeoutError):
        created(files_on(Unreachable()), NAME, b"mine")


class Conflicts(Memory):
    """Refuses what is not there, as S3 may if two requests meet."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times

    def create(self, name: str, data: bytes) -> bool:
        self.times -= 1
        return self.times < 0 and super().create(name, data)


def test_a_refusal_of_what_is_not_there_is_asked_again() -> None:
    assert created(files_on(Conflicts(2)), NAME, b"mine")


def test_a_refusal_of_what_is_never_there_ends_with_the_name() -> None:
    with pytest.raises(OSError, match=f"{NAME} could be neither created nor read"):
        created(files_on(Conflicts(100)), NAME, b"mine")


class Careless(Memory):
    """Takes a condition and passes over it, as older copies of S3 do."""

    def create(self, name: str, data: bytes) -> bool:
        self.write(name, data)
        return True


def test_a_store_that_passes_over_conditions_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CheckpointError, match="If-None-Match"):
        see_that_it_refuses(files_on(Careless()), NAME, b"mine")
    monkeypatch.setattr(checkpoints, "Files", lambda place: files_on(Careless()))
    with pytest.raises(CheckpointError, match="two drivers could not be kept apart"):
        Checkpoint.open("memory://", PIPELINE, now=NOON)


def test_a_store_that_keeps_conditions_is_taken(s3: S3) -> None:
    with Checkpoint.open(s3.place("keeps"), PIPELINE, now=NOON) as checkpoint:
        assert checkpoint.incarnation == 1


class LosesAnswers:
    """In front of a server: the first answers to creations are lost after they were carried out."""

    def __init__(self, application: Any) -> None:
        self._application = application
        self._turn = threading.Lock()
        self.lost = 0

    def __call__(self, environ: dict[str, Any], start: Any) -> Iterator[bytes]:
        answers: list[Any] = []
        answered = list(self._application(environ, lambda *answer: answers.append(answer)))
        with self._turn:
            lose = environ.get("HTTP_IF_NONE_MATCH") == "*" and self.lost < 1
            self.lost += lose
        if lose:
            start("503 Slow Down", [("Content-Length", "0")])
            return iter(())
        start(*answers[0])
        return iter(answered)


def test_a_claim_whose_answer_was_lost_is_known_as_ours() -> None:
    """The client asks again and is refused, by its own object: taken for another's it were a gap.

    Numbers without gaps are what the fence relies on.
    """
    spoilt: list[LosesAnswers] = []

    def around(application: Any) -> LosesAnswers:
        spoilt.append(LosesAnswers(application))
        return spoilt[-1]

    with served(around) as s3:
        place = s3.place("lost")
        with Checkpoint.open(place, PIPELINE, now=NOON) as checkpoint:
            assert checkpoint.incarnation == 1
        assert [start.number for start in incarnations_of(Files(place))] == [1]
    assert spoilt[-1].lost == 1
