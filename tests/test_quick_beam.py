"""What the tests' processes remember for Beam is what Beam itself would say."""

from __future__ import annotations

import functools
import gc
import inspect
import weakref
from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options import pipeline_options
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.options.value_provider import ValueProvider
from apache_beam.transforms import core, ptransform, userstate, util
from apache_beam.typehints import decorators

from headrace.options import HeadraceOptions
from tests.quick_beam import (
    all_options,
    beams_all_options,
    beams_parameters,
    beams_signature,
    beams_specs,
    beams_view_as,
    beams_visible,
    install,
    parameters,
    signature,
    specs,
    view_as,
    visible,
)

BEAMS = sorted(
    (c for c in PipelineOptions.__subclasses__() if c.__module__ == pipeline_options.__name__),
    key=lambda c: str(c.__name__),
)
FLAGS: tuple[list[str], ...] = (
    [],
    ["--streaming", "--experiments=one,two", "--experiments=three", "--unknown=4"],
    ["--pickle_library=dill", "--job_name=mine", "--labels=a=b", "--temp_location=gs://x/y"],
)


@pytest.fixture(autouse=True)
def _installed() -> Iterator[None]:
    install()
    assert PipelineOptions.view_as is view_as
    assert PipelineOptions.get_all_options is all_options
    assert PipelineOptions._visible_option_list is visible
    assert all(module.get_signature is signature for module in (core, decorators, ptransform, util))
    assert core.get_function_args_defaults is parameters
    assert userstate.get_dofn_specs is specs
    yield


def told(view: Any) -> dict[str, str]:
    """Give what a view holds, values that come at run time by their words: each is an object."""
    return {name: str(value) for name, value in view.get_all_options(drop_default=True).items()}


@pytest.mark.parametrize("cls", BEAMS, ids=lambda c: c.__name__)
@pytest.mark.parametrize("flags", FLAGS, ids=len)
def test_a_view_shows_what_beams_own_shows(cls: Any, flags: list[str]) -> None:
    theirs, ours = PipelineOptions(flags), PipelineOptions(flags)
    beams = beams_view_as(theirs, cls)
    for _ in range(2):  # parsed, then remembered
        view = view_as(PipelineOptions(flags), cls)
        assert type(view) is cls
        assert str(view) == str(beams)
        assert told(view) == told(beams)
    view_as(ours, cls)
    assert list(ours._all_options) == list(theirs._all_options)
    assert visible(view) == beams_visible(beams)


WORDS = ["none", "one unknown", "Beam's", "known", "of the program"]
KNOWN = ["--streaming", "--experiments=one,two", "--shards=3", "--beam_services={\"a\": \"b\"}"]


@pytest.mark.parametrize("drop_default", [False, True])
@pytest.mark.parametrize("retain_unknown_options", [False, True])
@pytest.mark.parametrize("flags", [*FLAGS, KNOWN, None], ids=WORDS)
def test_all_options_are_those_that_beam_gives(
    flags: list[str] | None, drop_default: bool, retain_unknown_options: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.argv", ["program", "--job_name=asked"])
    how = {"drop_default": drop_default, "retain_unknown_options": retain_unknown_options}
    for _ in range(2):  # parsed, then remembered
        options = PipelineOptions(flags)
        assert listed(all_options(options, **how)) == listed(beams_all_options(options, **how))
        options.view_as(pipeline_options.StandardOptions).streaming = "set"
        options.view_as(pipeline_options.DebugOptions).add_experiment("three")
        options._all_options["nobodys"] = 3
        assert listed(all_options(options, **how)) == listed(beams_all_options(options, **how))


def listed(options: dict[str, Any]) -> list[tuple[str, Any]]:
    """Give options in their order, those that come at run time by their words."""
    return [(k, str(v) if isinstance(v, ValueProvider) else v) for k, v in options.items()]


class _Later(PipelineOptions):  # type: ignore[misc]
    """Options of a module, told at run time; there are some in Beam's examples."""

    @classmethod
    def _add_argparse_args(cls, parser: Any) -> None:
        parser.add_value_provider_argument("--quick_beam_later", default="then")


def test_options_that_are_told_at_run_time_are_objects_of_their_own() -> None:
    def given(*flags: str) -> Any:
        found = all_options(
            PipelineOptions(["--shards=3", *flags]), drop_default=True, retain_unknown_options=True
        )
        return found["quick_beam_later"]

    one, other = given(), given()
    assert one is not other
    assert str(one) == str(other)
    assert "then" in str(one)
    assert [given("--quick_beam_later=now").get() for _ in range(2)] == ["now", "now"]
    assert issubclass(_Later, PipelineOptions)


def test_what_a_caller_does_to_all_options_shows_in_no_other() -> None:
    def given() -> dict[str, Any]:
        return all_options(PipelineOptions(list(KNOWN)), retain_unknown_options=True)

    given()["experiments"].append("more")
    given()["beam_services"]["c"] = "d"
    assert given()["experiments"] == ["one", "two"]
    assert given()["beam_services"] == {"a": "b"}


def test_defaults_that_come_from_the_environment_are_those_of_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for chosen in ("off", "always", "off"):
        monkeypatch.setenv("HEADRACE_SMALL_EPOCHS", chosen)
        options = PipelineOptions(["--shards=3"])
        assert options.get_all_options(retain_unknown_options=True)["small_epochs"] == chosen
        assert options.view_as(HeadraceOptions).small_epochs == chosen


def test_flags_of_the_command_line_count_where_none_are_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.argv", ["program"])
    assert PipelineOptions().view_as(pipeline_options.StandardOptions).streaming is False
    monkeypatch.setattr("sys.argv", ["program", "--streaming"])
    assert PipelineOptions().view_as(pipeline_options.StandardOptions).streaming is True


def test_what_one_view_sets_shows_in_another_of_the_same_options_alone() -> None:
    first, second = PipelineOptions(["--experiments=a"]), PipelineOptions(["--experiments=a"])
    first.view_as(pipeline_options.DebugOptions).add_experiment("b")
    first.view_as(pipeline_options.StandardOptions).streaming = True
    assert first.view_as(pipeline_options.DebugOptions).experiments == ["a", "b"]
    assert first.view_as(pipeline_options.StandardOptions).streaming is True
    assert second.view_as(pipeline_options.DebugOptions).experiments == ["a"]
    assert second.view_as(pipeline_options.StandardOptions).streaming is False
    assert PipelineOptions(["--experiments=a"], experiments=["c"]).view_as(
        pipeline_options.DebugOptions
    ).experiments == ["c"]


def test_options_of_others_are_parsed_each_time() -> None:
    parsed: list[type] = []

    class Mine(PipelineOptions):  # type: ignore[misc]
        @classmethod
        def _add_argparse_args(cls, parser: Any) -> None:
            parsed.append(cls)
            parser.add_argument("--mine", default="no")
            parser.add_value_provider_argument("--later", default="then")

    options = PipelineOptions(["--mine=yes", "--shards=3"])
    before = options.view_as(Mine).later
    assert options.view_as(Mine).mine == "yes"
    assert options.view_as(Mine).later is before
    assert len(parsed) == 3
    for _ in range(2):
        assert options.get_all_options(retain_unknown_options=True)["mine"] == "yes"
    assert len(parsed) == 5
    assert options.view_as(HeadraceOptions).shards == 3


class _Keeps(beam.DoFn):  # type: ignore[misc]
    CELL = userstate.BagStateSpec("cell", beam.coders.VarIntCoder())
    OTHER = userstate.BagStateSpec("other", beam.coders.VarIntCoder())

    OF_CELL = beam.DoFn.StateParam(CELL)

    def process(self, element: Any, cell: Any = OF_CELL, /, *, more: int = 1) -> Any:
        yield element


def _methods() -> list[Any]:
    def stands_for(self: Any, other: int = 3) -> int:
        return other

    class Odd(beam.DoFn):  # type: ignore[misc]
        process = functools.wraps(stands_for)(lambda self, *args: None)
        half = functools.partialmethod(stands_for, other=4)

        @classmethod
        def of_the_class(cls, a: int, b: int = 2) -> None: ...

        @staticmethod
        def of_nobody(a: int, b: int = 2) -> None: ...

    odd, keeps = Odd(), _Keeps()
    wrapped = beam.core.CallableWrapperDoFn(lambda x, y=5: [x])
    return [
        odd.process, odd.half, odd.of_the_class, odd.of_nobody, odd.start_bundle, keeps.process,
        keeps.default_label, wrapped.process, Odd, stands_for, len, str.upper, [].append,
    ]  # fmt: skip


@pytest.mark.parametrize("at", range(len(_methods())))
def test_parameters_are_those_that_beam_reads(at: int) -> None:
    f = _methods()[at]
    beams = beams_parameters(f)
    for _ in range(2):  # read, then remembered
        names, values = parameters(f)
        assert (names, values) == beams
        names.append("changed by the caller")
        values.clear()
        assert told_by(signature, f) == told_by(beams_signature, f)


def told_by(ask: Any, f: Any) -> str:
    """Give what a signature says, or that there is none."""
    try:
        return str(ask(f))
    except (TypeError, ValueError) as error:
        return repr(error)


def test_a_function_that_was_changed_is_read_again() -> None:
    class Changes(beam.DoFn):  # type: ignore[misc]
        def process(self, element: Any, cell: Any = _Keeps.OF_CELL) -> None: ...

    def other(self: Any, renamed: Any, cell: Any = 1) -> None: ...

    def keyword_only(self: Any, renamed: Any, cell: Any = 1, *, more: Any = 2) -> None: ...

    assert userstate.get_dofn_specs(Changes()) == ({_Keeps.CELL}, set())
    Changes.process.__defaults__ = (beam.DoFn.StateParam(_Keeps.OTHER),)
    assert userstate.get_dofn_specs(Changes()) == ({_Keeps.OTHER}, set())
    Changes.process.__code__ = other.__code__
    assert parameters(Changes().process)[0] == ["renamed", "cell"]
    Changes.process.__annotations__["renamed"] = int
    assert signature(Changes().process).parameters["renamed"].annotation is int
    Changes.process.__annotations__["renamed"] = bool
    assert signature(Changes().process).parameters["renamed"].annotation is bool
    assert list(signature(Changes.process).parameters) == ["self", "renamed", "cell"]
    Changes.process.__kwdefaults__ = {"more": True}
    Changes.process.__code__ = keyword_only.__code__
    assert signature(Changes().process).parameters["more"].default is True
    Changes.process.__kwdefaults__ = {"more": 1}  # equals True, and is another
    assert signature(Changes().process).parameters["more"].default is 1  # noqa: F632
    Changes.process.__code__ = other.__code__
    Changes.process.__signature__ = inspect.signature(lambda self, told: None)  # type: ignore[attr-defined]
    assert parameters(Changes().process) == (["told"], [])


COUNT = userstate.CombiningValueStateSpec("count", sum)
DUE = userstate.TimerSpec("due", userstate.TimeDomain.WATERMARK)
COUNTED, TIMED = beam.DoFn.StateParam(COUNT), beam.DoFn.TimerParam(DUE)


def stateful() -> Any:
    """Give a class of its own with a state and a timer."""

    class Stateful(beam.DoFn):  # type: ignore[misc]
        def process(self, element: Any, count: Any = COUNTED) -> None: ...

        def later(self, due: Any = TIMED) -> None: ...

    return Stateful


def test_state_and_timers_of_a_class_are_those_that_beam_finds() -> None:
    for dofn in (stateful()(), beam.Map(str).fn, beam.Map("a".join).fn, beam.DoFn()):
        for _ in range(2):  # read, then remembered
            assert specs(dofn) == beams_specs(dofn)
    assert specs(stateful()()) == ({COUNT}, {DUE})


def test_what_one_caller_does_to_its_answer_shows_in_no_other() -> None:
    dofn = stateful()()
    specs(dofn)[0].clear()
    assert specs(dofn)[0] == {COUNT}


def test_a_method_that_is_replaced_added_or_hidden_is_read_again() -> None:
    cls = stateful()
    dofn = cls()
    assert specs(dofn) == ({COUNT}, {DUE})
    cls.process = lambda self, element: None
    assert specs(dofn) == (set(), {DUE})
    cls.more = lambda self, count=COUNTED: None
    assert specs(dofn) == ({COUNT}, {DUE})
    dofn.later = len
    assert specs(dofn) == beams_specs(dofn) == ({COUNT}, set())
    other = cls()
    cls.more.__defaults__ = (None,)
    assert specs(other) == beams_specs(other) == (set(), {DUE})


def test_what_is_changed_in_beams_own_class_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def counts(self: Any, count: Any = COUNTED) -> None: ...

    dofn = stateful()()
    dofn.process = len
    assert specs(dofn) == beams_specs(dofn) == (set(), {DUE})
    monkeypatch.setattr(beam.DoFn, "setup", counts)
    assert specs(dofn) == beams_specs(dofn) == ({COUNT}, {DUE})
    counts.__defaults__ = (None,)
    assert specs(dofn) == beams_specs(dofn) == (set(), {DUE})


def test_a_class_that_answers_for_itself_is_asked_each_time() -> None:
    class Odd(stateful()):  # type: ignore[misc]
        asked = 0

        @property
        def odd(self) -> Any:
            Odd.asked += 1
            return self.later

    assert [specs(Odd()) for _ in range(3)] == [({COUNT}, {DUE})] * 3
    assert Odd.asked >= 3


class Holder:
    """Stands for a pipeline, whose functions know it."""

    f: Any = None


def test_a_function_whose_defaults_know_it_is_not_kept() -> None:
    def looked_at() -> weakref.ref[Holder]:
        holder = Holder()

        def f(x: int, of: Any = holder) -> Any:
            return x, of

        holder.f = f
        assert list(signature(f).parameters) == ["x", "of"]
        return weakref.ref(holder)

    of_old = looked_at()
    gc.collect()
    assert of_old() is None
