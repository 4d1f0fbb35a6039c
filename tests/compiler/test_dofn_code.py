"""The traits that the analysis reads from code, by tables: what each snippet is, told by hand."""

from __future__ import annotations

import functools
import importlib
import json
import time
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.coders import VarIntCoder
from apache_beam.internal import pickler
from apache_beam.testing.util import equal_to_per_window
from apache_beam.transforms.window import GlobalWindow

from headrace.compiler.code.dofn import dofn_traits
from headrace.plan.traits import (
    DECLARED,
    Determinism,
    KeyForwarding,
    Selectivity,
    State,
    Traits,
    traits,
)
from tests.compiler import snippets as s
from tests.naming import steady


def of(subject: object) -> Traits:
    """The traits of a DoFn class, a DoFn, or a transform such as Map(f)."""
    if isinstance(subject, type):
        subject = subject()
    return dofn_traits(subject.fn if isinstance(subject, beam.ParDo) else subject)


def name(value: object) -> str:
    if isinstance(value, type):
        return value.__name__
    return steady(getattr(value, "label", value))


STATELESS = [
    s.ReadsField,
    s.HelperReads,
    s.RecursiveHelper,
    s.CopiesFirst,
    s.LocalWorkOnly,
    s.SetupMakesClient,
    s.ResetsPerBundle,
    s.CountsByMetric,
    s.ReadsGlobal,
    s.AsksHeldHelper,
    s.TriesToParse,
    s.InnerGenerator,
    s.LooksUpTableOfSetup,
    s.PropertyReads,
    beam.Map(s.cached_square),
    beam.Map(s.inner_nonlocal),
    beam.Map(s.keep_key),
    beam.Map(s.plain_partial),
    beam.Map(s.Scaler(2).scale),  # type: ignore[no-untyped-call]
    beam.Map(str.upper),
    beam.Map(len),
    beam.Map({"a": 1}.get),
    beam.Map(dict),
    beam.FlatMap(str.split),
    beam.Filter(lambda x: x > 1),
    beam.MapTuple(lambda k, v: (k, v)),
    beam.Map(lambda x: json.dumps(x)),
]


@pytest.mark.parametrize("subject", STATELESS, ids=name)
def test_code_that_writes_nothing_shared_has_no_state(subject: object) -> None:
    found = of(subject)
    assert found.state is State.NONE, found.state_reason


KEEPS_SOMETHING = [
    (s.AddsToField, "writes self.total in line"),
    (s.SetsField, "writes self.last in line"),
    (s.AnnotatesField, "writes self.last in line"),
    (s.DeletesField, "writes self.last in line"),
    (s.UnpacksIntoField, "writes self.key in line"),
    (s.SetsItem, "changes self.seen in line"),
    (s.Appends, "changes self.buffer in line"),
    (s.AppendsThroughAlias, "changes kept in line"),
    (s.AppendsDeepInside, "changes values in line"),
    (s.PushesOntoHeap, "changes self.heap in line"),
    (s.AdvancesIterator, "changes self.numbers in line"),
    (s.WritesInHelper, "writes self.n in line"),
    (s.CallsSuper, "called through super().process"),
    (s.CallsUnknownClient, "calls self.client.fetch in line"),
    (s.CountsBundles, "writes self.bundles in line"),
    (s.WritesGlobal, "writes global TOTAL in line"),
    (s.ChangesGlobal, "changes SEEN in line"),
    (s.MutableDefault, "changes kept in line"),
    (s.EvaluatesText, "calls eval in line"),
    (s.CallsHeldHelper, "called through self.helper.remember"),
    (s.PassesField, "called through remember"),
    (s.WritesClassField, "writes self.__class__.total in line"),
    (s.WritesClassThroughType, "writes type(self).total in line"),
    (s.WritesClassThroughAlias, "writes cls.total in line"),
    (s.WritesNamedClass, "writes WritesNamedClass.total in line"),
    (s.SetsAttributeTheLongWay, "changes self in line"),
    (s.TakesFromQueue, "called through self.waiting.get"),
    (s.TakesFromQueueOfSetup, "changes self.waiting in line"),
    (s.DrawsFromOwnDice, "changes self.dice in line"),
    (s.NumbersWords, "may add to self.ids in line"),
    (s.WrapsField, "calls writer.push in line"),
    (s.PropertyCounts, "called through self.next_number"),
    (beam.Map(s.closure_counter()), "changes seen in line"),  # type: ignore[no-untyped-call]
    (beam.Map(s.nonlocal_counter()), "writes enclosing n in line"),  # type: ignore[no-untyped-call]
    (beam.Map(s.CallableObject()), "writes self.n in line"),  # type: ignore[no-untyped-call]
    (beam.Map(s.changes_what_it_is_given), "changes shared_table() in line"),
    (beam.Map([].append), "changes a list through append()"),
    (beam.Filter(lambda x: s.SEEN.setdefault(x, 1)), "changes s.SEEN in line"),
]


@pytest.mark.parametrize(("subject", "reason"), KEEPS_SOMETHING, ids=name)
def test_code_that_writes_or_may_write_shared_things_has_unknown_state(
    subject: object, reason: str
) -> None:
    found = of(subject)
    assert found.state is State.UNKNOWN
    assert reason in found.state_reason


def test_a_matcher_of_beams_tests_remembers_and_its_coders_do_not() -> None:
    """One crosses off what it has seen; the others cache at the most."""
    matcher = equal_to_per_window({GlobalWindow(): [1, 2]})
    assert dofn_traits(beam.Map(matcher).fn).state is State.UNKNOWN
    assert dofn_traits(beam.Map(VarIntCoder().decode).fn).state is State.NONE


def test_the_reason_names_the_line_of_the_write() -> None:
    with open(s.__file__) as f:
        line = next(i for i, text in enumerate(f, 1) if "self.total += element" in text)
    assert of(s.AddsToField).state_reason == f"writes self.total in line {line}"


COUNTS = [
    (s.YieldsOnce, Selectivity.EXACTLY_ONE),
    (s.YieldsInBothBranches, Selectivity.EXACTLY_ONE),
    (s.YieldsInOneBranch, Selectivity.AT_MOST_ONE),
    (s.YieldsAfterGuard, Selectivity.AT_MOST_ONE),
    (s.YieldsTwice, Selectivity.MANY),
    (s.YieldsOneOrTwo, Selectivity.MANY),
    (s.YieldsInLoop, Selectivity.MANY),
    (s.YieldsInWhile, Selectivity.MANY),
    (s.YieldsFirstOfLoop, Selectivity.AT_MOST_ONE),
    (s.YieldsAfterLoop, Selectivity.EXACTLY_ONE),
    (s.YieldsFromPair, Selectivity.MANY),
    (s.YieldsFromUnknown, Selectivity.MANY),
    (s.ReturnsList, Selectivity.EXACTLY_ONE),
    (s.ReturnsNothing, Selectivity.AT_MOST_ONE),
    (s.ReturnsListOrNone, Selectivity.AT_MOST_ONE),
    (s.RaisesOrYields, Selectivity.EXACTLY_ONE),
    (s.TriesToParse, Selectivity.AT_MOST_ONE),
    # The handler cannot follow the yield: `else` runs only when nothing was raised.
    (s.TriesAndTags, Selectivity.EXACTLY_ONE),
    (s.FinallyYields, Selectivity.EXACTLY_ONE),
    (s.WithBlock, Selectivity.EXACTLY_ONE),
    (s.YieldsInWith, Selectivity.EXACTLY_ONE),  # a file swallows nothing
    (s.EmitsAtEnd, Selectivity.UNKNOWN),
    (s.QuietEnd, Selectivity.EXACTLY_ONE),
    (s.InnerGenerator, Selectivity.EXACTLY_ONE),
    (beam.Map(s.keep_key), Selectivity.EXACTLY_ONE),
    (beam.Map(s.no_result), Selectivity.EXACTLY_ONE),
    (beam.MapTuple(s.spread_keep), Selectivity.EXACTLY_ONE),
    (beam.Filter(lambda x: x), Selectivity.AT_MOST_ONE),
    (beam.FlatMap(lambda x: [x]), Selectivity.EXACTLY_ONE),
    (beam.FlatMap(lambda x: [x, x]), Selectivity.MANY),
    (beam.FlatMap(lambda x: []), Selectivity.AT_MOST_ONE),
    (beam.FlatMap(lambda x: None), Selectivity.AT_MOST_ONE),
    (beam.FlatMap(lambda x: [x] if x else []), Selectivity.AT_MOST_ONE),
    (beam.FlatMap(lambda x: (y for y in x)), Selectivity.MANY),
    (beam.FlatMap(lambda x: {*x}), Selectivity.MANY),
    (beam.FlatMap(lambda x: [*x]), Selectivity.MANY),
    (beam.FlatMap(lambda x: x.split()), Selectivity.MANY),
    (beam.FlatMap(str.split), Selectivity.MANY),
    (beam.FlatMapTuple(lambda k, v: [(k, v)]), Selectivity.EXACTLY_ONE),
    (beam.FlatMap(s.one_of), Selectivity.EXACTLY_ONE),
    (beam.FlatMap(s.one_logged), Selectivity.EXACTLY_ONE),
    (beam.FlatMap(lambda x: s.maybe_of(x)), Selectivity.AT_MOST_ONE),
    (beam.FlatMap(lambda x: tuple(s.one_of(x))), Selectivity.EXACTLY_ONE),
    (beam.FlatMap(lambda x: set(s.doubled(x))), Selectivity.MANY),
    (beam.FlatMap(lambda x: map(str, [x])), Selectivity.EXACTLY_ONE),
    (beam.FlatMap(lambda x: [y for y in (x,) if y]), Selectivity.AT_MOST_ONE),
    (beam.FlatMap(s.endless), Selectivity.MANY),
    (beam.FlatMap(functools.partial(s.pair_with, 3)), Selectivity.MANY),
    (s.DelegatesToMethod, Selectivity.EXACTLY_ONE),
    (s.DelegatesThroughTwo, Selectivity.AT_MOST_ONE),
    (s.DelegatesAndAdds, Selectivity.MANY),
    # The helper may raise behind its output.
    (s.DelegatesInTry, Selectivity.MANY),
    (s.ReturnsNamedList, Selectivity.EXACTLY_ONE),
    (s.ReturnsGrowingList, Selectivity.MANY),
    (s.TakesHelperAsArgument, Selectivity.MANY),
]


@pytest.mark.parametrize(("subject", "selectivity"), COUNTS, ids=name)
def test_outputs_are_counted_over_all_paths(subject: object, selectivity: Selectivity) -> None:
    found = of(subject)
    assert found.selectivity is selectivity, found.selectivity_reason


def test_a_match_that_ends_in_a_wildcard_takes_one_of_its_cases() -> None:
    assert of(s.MatchesAll).selectivity is Selectivity.EXACTLY_ONE


FORWARDED = [
    s.KeyByUnpacking,
    s.KeyByIndex,
    s.KeyByName,
    s.KeyNested,
    s.KeyTagged,
    s.KeyFromParam,
    s.KeyElementItself,
    s.KeyElementRemade,
    s.KeyInCollectedList,
    s.Stateful,
    beam.Map(s.keep_key),
    beam.Map(s.plain_partial),
    beam.Map(lambda kv: (kv[0], 1)),
    beam.Map(lambda kv: kv),
    beam.Map(lambda kv, extra: (kv[0], extra), 3),
    beam.MapTuple(s.spread_keep),
    beam.MapTuple(lambda k, v: (k, len(v))),
    beam.FlatMapTuple(lambda k, vs: [(k, v) for v in vs]),
    beam.FlatMap(lambda kv: ((kv[0], v) for v in kv[1])),
    beam.FlatMap(lambda kv: [kv] if kv[1] else []),
    beam.Filter(lambda kv: kv[1]),
    beam.Filter(str.isalpha),
    s.KeyThroughMethod,
    s.KeyThroughStaticMethod,
    s.KeyThroughGenerator,
    beam.Map(lambda kv: s.same_key(kv, 1)),
    beam.Map(lambda kv: s.with_key(kv[0], 1)),
    beam.Map(lambda kv: s.same_key(extra=1, kv=kv)),
    beam.FlatMap(lambda kv: s.spread_values(kv)),
    beam.FlatMap(lambda kv: [s.same_key(kv, v) for v in kv[1]]),
    beam.Map(s.matched),
    beam.Map(s.keeps_logged),
    beam.Map(lambda kv: (key := kv[0], key)),
]


@pytest.mark.parametrize("subject", FORWARDED, ids=name)
def test_a_key_that_is_handed_on_is_recognised(subject: object) -> None:
    found = of(subject)
    assert found.forwarding is KeyForwarding.FORWARDED, found.forwarding_reason


NOT_FORWARDED = [
    (s.KeyRebound, KeyForwarding.CHANGED),
    (s.KeyReboundInBranch, KeyForwarding.CHANGED),
    (s.KeyShadowedByLoop, KeyForwarding.CHANGED),
    (s.KeySwapped, KeyForwarding.CHANGED),
    (s.KeyInLeakedList, KeyForwarding.UNKNOWN),
    (s.KeyChangedInside, KeyForwarding.CHANGED),
    (s.KeyUnpackedFromThree, KeyForwarding.CHANGED),
    (s.TripleOut, KeyForwarding.CHANGED),
    (s.YieldsFromUnknown, KeyForwarding.UNKNOWN),
    (beam.Map(s.no_result), KeyForwarding.CHANGED),
    (beam.Map(lambda kv: kv[0]), KeyForwarding.UNKNOWN),
    (beam.Map(lambda kv: (kv[1], kv[0])), KeyForwarding.CHANGED),
    (beam.Map(lambda kv: (kv[0] + 1, kv[1])), KeyForwarding.CHANGED),
    (beam.Map(lambda kv: [kv[0], kv[1]]), KeyForwarding.CHANGED),
    (beam.Map(lambda x: (x, 1)), KeyForwarding.CHANGED),
    (beam.Map(lambda x: x.strip()), KeyForwarding.UNKNOWN),
    (beam.MapTuple(s.spread_swap), KeyForwarding.CHANGED),
    (beam.MapTuple(lambda *kv: kv), KeyForwarding.UNKNOWN),
    # A FlatMap that returns the pair emits the key and the value as two elements.
    (beam.FlatMap(lambda kv: kv), KeyForwarding.UNKNOWN),
    (beam.Map(sorted), KeyForwarding.UNKNOWN),
    (s.KeyLostInMethod, KeyForwarding.CHANGED),
    (beam.Map(lambda kv: s.other_key(kv)), KeyForwarding.CHANGED),
    (beam.Map(lambda kv: s.with_key(kv[1], kv[0])), KeyForwarding.CHANGED),
    (beam.Map(lambda kv: s.same_key(*kv)), KeyForwarding.CHANGED),
    (beam.Map(lambda kv: s.spread_values(kv)), KeyForwarding.UNKNOWN),
    (beam.Map(s.matched_wrongly), KeyForwarding.CHANGED),
    (beam.Map(s.changes_logged), KeyForwarding.CHANGED),
    (beam.Map(s.keeps_sometimes), KeyForwarding.CHANGED),
]


@pytest.mark.parametrize(("subject", "forwarding"), NOT_FORWARDED, ids=name)
def test_a_key_that_may_change_is_never_taken_for_forwarded(
    subject: object, forwarding: KeyForwarding
) -> None:
    found = of(subject)
    assert found.forwarding is forwarding, found.forwarding_reason


DICE = [
    (beam.Map(s.rolls), "random"),
    (beam.Map(s.clock), "time.time"),
    (beam.Map(s.names), "uuid"),
    (beam.Map(s.today), "datetime.now"),
    (beam.Map(s.urandom), "urandom"),
    (beam.Map(s.hashes), "hash()"),
    (beam.Map(s.rolls_inside), "called through rolls"),
    (s.AddsToField, "may depend on earlier elements"),
    (s.CallsUnknownClient, "self.client.fetch"),
]


@pytest.mark.parametrize(("subject", "reason"), DICE, ids=name)
def test_code_that_asks_a_clock_or_a_dice_is_not_deterministic(
    subject: object, reason: str
) -> None:
    found = of(subject)
    assert found.determinism is Determinism.UNKNOWN
    assert reason in found.determinism_reason


@pytest.mark.parametrize("subject", [s.ReadsField, beam.Map(s.formats_time)], ids=name)
def test_code_that_asks_nothing_is_deterministic(subject: object) -> None:
    assert of(subject).determinism is Determinism.DETERMINISTIC


def test_a_declaration_wins_over_the_code() -> None:
    @traits(state="none", selectivity="at_most_one", forwards_key=True, deterministic=True)
    class Declared(s.AddsToField):
        def process(self, element: Any) -> Any:
            self.total += 1
            yield from element

    found = of(Declared)
    assert found.state is State.NONE
    assert found.selectivity is Selectivity.AT_MOST_ONE
    assert found.forwarding is KeyForwarding.FORWARDED
    assert found.determinism is Determinism.DETERMINISTIC
    assert found.state_reason == DECLARED


def test_a_declaration_on_a_mapped_function_is_found() -> None:
    @traits(state="none", forwards_key=True)
    def opaque(kv: Any) -> Any:
        return s.SEEN.setdefault(kv, kv)

    found = of(beam.Map(opaque))
    assert found.state is State.NONE
    assert found.forwarding is KeyForwarding.FORWARDED
    assert found.selectivity is Selectivity.EXACTLY_ONE


def test_a_subclass_with_its_own_process_does_not_inherit_the_declaration() -> None:
    @traits(state="none")
    class Base(s.AddsToField):
        pass

    class Derived(Base):
        def process(self, element: Any) -> Any:
            self.total += element
            yield element

    assert of(Base).state is State.NONE
    assert of(Derived).state is State.UNKNOWN


def test_the_wrappers_of_beam_are_seen_through_after_pickling() -> None:
    for transform in (
        beam.Map(lambda kv: (kv[0], 1)),
        beam.MapTuple(lambda k, v: (k, v)),
        beam.Filter(lambda kv: kv[0]),
        beam.Map(functools.partial(s.pair_with, 3)),
    ):
        found = dofn_traits(pickler.loads(pickler.dumps(transform.fn)))
        assert found.forwarding is KeyForwarding.FORWARDED, transform.label
        assert found.state is State.NONE


def test_two_lambdas_on_one_line_are_told_apart() -> None:
    first, second = beam.Map(lambda kv: (kv[0], 1)), beam.Map(lambda kv: (kv[1], 1))
    assert of(first).forwarding is KeyForwarding.FORWARDED
    assert of(second).forwarding is KeyForwarding.CHANGED


def compiled(text: str, **names: object) -> object:
    """A function `f` made from text, so that no source file is at hand."""
    space: dict[str, object] = dict(names)
    exec(text, space)
    return space["f"]


BYTECODE = [
    ("f = lambda x: [x]", State.NONE, Selectivity.EXACTLY_ONE),
    ("f = lambda x: [x, x]", State.NONE, Selectivity.MANY),
    ("def f(x):\n  yield x", State.NONE, Selectivity.EXACTLY_ONE),
    ("def f(x):\n  if x:\n    yield x", State.NONE, Selectivity.AT_MOST_ONE),
    ("def f(x):\n  for y in x:\n    yield y", State.NONE, Selectivity.MANY),
    ("def f(x):\n  yield x\n  yield x", State.NONE, Selectivity.MANY),
    ("def f(x):\n  global g\n  g = x\n  yield x", State.UNKNOWN, Selectivity.EXACTLY_ONE),
    ("seen = []\ndef f(x):\n  seen.append(x)\n  yield x", State.UNKNOWN, Selectivity.EXACTLY_ONE),
    ("def f(x):\n  x.y = 1\n  yield x", State.UNKNOWN, Selectivity.EXACTLY_ONE),
    ("def f(x):\n  yield missing(x)", State.UNKNOWN, Selectivity.EXACTLY_ONE),
]


@pytest.mark.parametrize(("text", "state", "selectivity"), BYTECODE)
def test_without_source_the_bytecode_is_read(
    text: str, state: State, selectivity: Selectivity
) -> None:
    found = of(beam.FlatMap(compiled(text)))
    assert found.state is state, found.state_reason
    assert found.selectivity is selectivity, found.selectivity_reason
    assert found.forwarding is KeyForwarding.UNKNOWN


def test_source_that_no_longer_fits_the_code_is_not_believed(tmp_path: Path) -> None:
    file = tmp_path / "moving.py"
    file.write_text("seen = []\ndef f(x):\n    seen.append(x)\n    return [x]\n")
    space: dict[str, object] = {}
    exec(compile(file.read_text(), str(file), "exec"), space)
    file.write_text("seen = []\ndef f(x):\n    len(seen)\n    return [x]\n")
    assert of(beam.FlatMap(space["f"])).state is State.UNKNOWN


def test_odd_things_are_unknown_and_never_an_error() -> None:
    class Hostile:
        def __getattribute__(self, name: Any) -> Any:
            raise RuntimeError(name)

    for subject in (object(), None, 3, Hostile(), s.ReplacedProcess()):  # type: ignore[no-untyped-call]
        found = dofn_traits(subject)
        assert found.state is State.UNKNOWN
        assert found.selectivity is Selectivity.UNKNOWN
        assert found.forwarding is KeyForwarding.UNKNOWN
        assert found.determinism is Determinism.UNKNOWN


def test_analysis_takes_milliseconds() -> None:
    subjects = [v() for v in vars(s).values() if isinstance(v, type) and issubclass(v, beam.DoFn)]
    started = time.thread_time()
    for dofn in subjects:
        dofn_traits(dofn)
    assert (time.thread_time() - started) / len(subjects) < 0.02


@pytest.mark.timeout(60)
@pytest.mark.parametrize("ask", ["lends(row)", "x = made(row)", "yield from many(row)"])
def test_functions_that_fan_out_are_read_in_bounded_time(
    ask: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eight levels of helpers, each of which calls the next one twelve times: 430 million ways."""
    lines = ["def step(pair):", "    row = {'key': pair[0], 'value': pair[1]}"]
    lines += [f"    {ask.replace('(', '0(')}", "    yield row['key'], 1"]
    for kind, call, end in (
        ("lends", "{}(x)", "return len(x)"), ("made", "y = {}(y)", "return y"),
        ("many", "yield from {}(x)", "yield x"),
    ):
        for level in range(9):
            calls = [f"    {call.format(f'{kind}{level + 1}')}"] * 12 if level < 8 else []
            lines += [f"def {kind}{level}(x):", "    y = x", *calls, f"    {end}"]
    name = f"fan_out_{ask[0]}"
    (tmp_path / f"{name}.py").write_text("\n".join(lines) + "\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    module = importlib.import_module(name)
    began = time.thread_time()
    found = dofn_traits(beam.FlatMap(module.step).fn)
    assert time.thread_time() - began < 20
    # A helper that was not read to its end may have changed the key.
    assert found.forwarding is not KeyForwarding.FORWARDED or ask == "x = made(row)"
