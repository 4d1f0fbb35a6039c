"""Exceptions of every shape fail the pipeline with what the user needs to know; none hangs it."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import apache_beam as beam
import pytest

from headrace.engine.failures import translate
from headrace.errors import HeadraceError, PackagingError, WorkerLostError
from headrace.worker.task.failures import MAX_CHARACTERS, report_failure
from tests.bad_input.harness import (
    Build,
    assert_session_still_works,
    failure_on_beam,
    failure_on_spark,
    shown,
)

on_spark = [pytest.mark.spark, pytest.mark.timeout(60, func_only=True)]


class Priced(Exception):
    """Takes two arguments, keeps both as attributes, and words its own message."""

    def __init__(self, item: str, price: int) -> None:
        super().__init__(item, price)
        self.item = item
        self.price = price

    def __str__(self) -> str:
        return f"{self.item} costs {self.price}"


class Coded(Exception):
    """Cannot be built from its `args`."""

    def __init__(self, *, code: int) -> None:
        super().__init__(f"code {code}")
        self.code = code


class Speechless(Exception):
    """Its own message fails."""

    def __str__(self) -> str:
        raise AttributeError("no words")  # noqa: EM101


def sell(element: int) -> None:
    item = "tea"
    raise Priced(item, element)


def refuse(element: int) -> None:
    raise Coded(code=element)


def raise_a_local_class(element: int) -> None:
    class Nested(KeyError):
        pass

    message = f"no {element}"
    raise Nested(message)


def decode_nonsense(element: int) -> None:
    del element
    b"\xff".decode("utf-8")


def be_interrupted(element: int) -> None:
    raise KeyboardInterrupt


def leave(element: int) -> None:
    raise SystemExit(3)


def die(element: int) -> None:
    os._exit(7)


def speak_badly(element: int) -> None:
    message = "half a pair \udcff"
    raise ValueError(message)


def speak_at_length(element: int) -> None:
    raise ValueError("start " + "x" * 3_000_000 + " end")


def speak_in_our_words(element: int) -> None:
    message = "headrace-failure:AAAA"
    raise ValueError(message)


def stop_iterating(element: int) -> None:
    raise StopIteration(element)


def step(function: Callable[[int], None]) -> Build:
    return lambda p: p | beam.Create([5]) | "Fold/Step" >> beam.Map(function)


class TestOnTheWay:
    """What a task reports and what the driver makes of it, without Spark."""

    @staticmethod
    def sent(failure: BaseException) -> BaseException:
        try:
            raise failure
        except BaseException as raised:  # noqa: BLE001 (it is what was just raised)
            return translate(Exception(f"Job aborted: {report_failure(raised)} more text"))

    def test_a_plain_exception_is_itself_again(self) -> None:
        back = self.sent(ValueError("wrong number"))
        assert type(back) is ValueError
        assert back.args == ("wrong number",)

    def test_an_exception_with_several_arguments_keeps_them(self) -> None:
        back = self.sent(Priced("tea", 5))
        assert type(back) is Priced
        assert (back.item, back.price, str(back)) == ("tea", 5, "tea costs 5")

    def test_an_exception_that_cannot_be_built_from_its_arguments_keeps_class_and_text(
        self,
    ) -> None:
        back = self.sent(Coded(code=9))
        assert isinstance(back, Coded)
        assert str(back) == "code 9"
        assert type(back).__name__ == "Coded"

    def test_an_exception_of_a_local_class_is_caught_as_its_base(self) -> None:
        class Nested(KeyError):
            pass

        back = self.sent(Nested("gone"))
        assert isinstance(back, KeyError)
        assert type(back).__name__ == "Nested"
        assert str(back) == "'gone'"

    def test_an_exception_with_bytes_in_it_keeps_its_text(self) -> None:
        problem = UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")
        back = self.sent(problem)
        assert isinstance(back, UnicodeDecodeError)
        assert str(back) == str(problem)

    def test_an_exception_whose_message_fails_still_arrives(self) -> None:
        back = self.sent(Speechless("args stay"))
        assert "args stay" in shown(back)

    @pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit])
    def test_what_would_end_the_driver_becomes_an_error(self, kind: type[BaseException]) -> None:
        back = self.sent(kind())
        assert type(back) is RuntimeError
        assert str(back) == kind.__name__

    def test_a_long_message_is_cut_in_the_middle(self) -> None:
        back = self.sent(ValueError("start " + "x" * 1_000_000 + " end"))
        assert isinstance(back, ValueError)
        assert str(back).startswith("start ")
        assert str(back).endswith(" end")
        assert len(str(back)) < MAX_CHARACTERS + 100

    def test_a_message_that_looks_like_ours_is_only_a_message(self) -> None:
        back = self.sent(ValueError("headrace-failure:AAAA"))
        assert type(back) is ValueError
        assert str(back) == "headrace-failure:AAAA"

    def test_an_error_of_spark_itself_stays_as_it_is(self) -> None:
        error = Exception("no space left on device headrace-failure:nonsense")
        assert translate(error) is error

    def test_executors_without_headrace_are_told_apart_from_lost_workers(self) -> None:
        error = Exception(
            "Python worker exited unexpectedly (crashed): Error while finding module specification "
            "for 'headrace.worker.daemon' (ModuleNotFoundError: No module named 'headrace')"
        )
        assert isinstance(translate(error), PackagingError)


class TestOnSpark:
    pytestmark = on_spark

    def test_an_exception_with_several_arguments_is_the_one_beam_gives(self) -> None:
        failure = failure_on_spark(step(sell))
        local = failure_on_beam(step(sell))
        assert (type(failure), str(failure)) == (type(local), str(local))
        assert "Fold/Step" in str(failure)
        assert "in sell" in shown(failure)

    def test_an_exception_with_keyword_arguments_is_the_one_beam_gives(self) -> None:
        failure = failure_on_spark(step(refuse))
        local = failure_on_beam(step(refuse))
        assert (type(failure), str(failure)) == (type(local), str(local))

    def test_an_exception_class_defined_in_a_function_is_caught_as_its_base(self) -> None:
        failure = failure_on_spark(step(raise_a_local_class))
        assert isinstance(failure, KeyError)
        assert type(failure).__name__ == "Nested"
        assert "no 5 [while running 'Fold/Step']" in str(failure)
        assert "in raise_a_local_class" in shown(failure)

    def test_a_decoding_error_says_what_it_could_not_decode(self) -> None:
        failure = failure_on_spark(step(decode_nonsense))
        assert isinstance(failure, UnicodeDecodeError)
        assert "can't decode byte 0xff in position 0" in str(failure)

    @pytest.mark.parametrize(
        ("function", "word"),
        [(be_interrupted, "KeyboardInterrupt"), (leave, "SystemExit: 3")],
        ids=["KeyboardInterrupt", "SystemExit"],
    )
    def test_what_would_end_a_program_ends_only_the_pipeline(
        self, function: Callable[[int], None], word: str
    ) -> None:
        failure = failure_on_spark(step(function))
        assert type(failure) is RuntimeError
        assert word in str(failure)
        assert f"in {function.__name__}" in shown(failure)
        assert_session_still_works()

    def test_a_worker_that_dies_is_reported_as_lost(self) -> None:
        failure = failure_on_spark(step(die))
        assert isinstance(failure, WorkerLostError)
        assert isinstance(failure, HeadraceError)
        assert_session_still_works()

    @pytest.mark.parametrize(
        ("function", "words"),
        [
            (speak_badly, "half a pair"),
            (speak_at_length, "start x"),
            (speak_in_our_words, "headrace-failure:AAAA"),
        ],
        ids=["no UTF-8", "3 MB", "our mark"],
    )
    def test_an_odd_message_arrives(self, function: Callable[[int], None], words: str) -> None:
        failure = failure_on_spark(step(function))
        assert isinstance(failure, ValueError)
        assert words in str(failure)

    def test_a_stray_stop_iteration_loses_no_data_in_silence(self) -> None:
        failure: Any = failure_on_spark(step(stop_iterating))
        assert isinstance(failure, (StopIteration, RuntimeError))
        assert "Fold/Step" in shown(failure)
