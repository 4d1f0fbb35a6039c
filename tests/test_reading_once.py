"""What Beam reads of a DoFn while `reading_once` holds is what it would read without it."""

from __future__ import annotations

import threading
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.transforms import core, userstate

from headrace.quick_beam import parameters, reading_once
from tests.quick_beam import beams_parameters, beams_specs
from tests.test_quick_beam import COUNT, COUNTED, DUE, _methods, stateful


def _others() -> list[Any]:
    def strange(a: int, b: int = 2) -> None: ...

    strange.__defaults__ = (1, 2, 3)

    class Odd(beam.DoFn):  # type: ignore[misc]
        def process(self, one: Any = 1, /, *rest: Any, key: Any = 3) -> None: ...

        def of_rest(*everything: Any, key: int = 1) -> None: ...

    Odd.process.__defaults__ = (0, 1)  # as if `self` had a default
    return [strange, Odd().process, Odd.process, Odd().of_rest, lambda: 0, lambda *a, **k: 0]


@pytest.mark.parametrize("at", range(len(_methods()) + len(_others())))
def test_parameters_are_those_that_inspect_gives(at: int) -> None:
    f = [*_methods(), *_others()][at]
    found = parameters(f)
    assert found is None or found == beams_parameters(f)


def test_most_methods_of_dofns_are_read_without_inspect() -> None:
    assert parameters(stateful()().process) == (["element", "count"], [COUNTED])
    assert parameters(beam.DoFn().start_bundle) == ([], [])


def test_state_and_timers_are_those_that_beam_finds() -> None:
    mapped = beam.FlatMap(lambda x, count=COUNTED: [x]).fn
    for dofn in (stateful()(), beam.Map(str).fn, mapped, beam.Map("a".join).fn, beam.DoFn()):
        expected = beams_specs(dofn)
        with reading_once():
            assert userstate.get_dofn_specs(dofn) == expected
            userstate.get_dofn_specs(dofn)[0].clear()
            assert userstate.get_dofn_specs(dofn) == expected
    with reading_once():
        assert userstate.get_dofn_specs(stateful()()) == ({COUNT}, {DUE})


def test_a_dofn_is_read_again_in_the_next_block() -> None:
    cls = stateful()
    dofn = cls()
    with reading_once():
        assert userstate.get_dofn_specs(dofn) == ({COUNT}, {DUE})
    cls.process = lambda self, element: None
    with reading_once():
        assert userstate.get_dofn_specs(dofn) == (set(), {DUE})


def test_beams_own_functions_are_back_once_the_last_of_several_blocks_is_left() -> None:
    before = core.get_function_args_defaults, userstate.get_dofn_specs
    entered, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with reading_once():
            entered.set()
            leave.wait(30)

    other = threading.Thread(target=hold)
    msg = "mine"
    with pytest.raises(ValueError, match=msg), reading_once():
        other.start()
        assert entered.wait(30)
        raise ValueError(msg)
    assert userstate.get_dofn_specs is not before[1]
    leave.set()
    other.join(30)
    assert (core.get_function_args_defaults, userstate.get_dofn_specs) == before
