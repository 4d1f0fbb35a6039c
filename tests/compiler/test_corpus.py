"""The analysis, held against a careful reader and against what the functions do.

The tables of the corpus are written by hand. Nothing may be claimed that the table does not say, or
that a run disproves; and nine of ten things that the tables say must be found.
"""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from headrace.plan.claims import Claims, claims_of
from headrace.plan.traits import Determinism, KeyForwarding, Selectivity, State
from headrace.testing import LocalRunner
from headrace.worker.checks.checked_calls import armed
from tests.compiler.corpus.run import CASES, Step, bundle, outputs, shown, steps

ROOT = Path(__file__).parents[2]
LEAST_FOUND = 0.9
LEAST_CLAIMED = 100
by_name = pytest.mark.parametrize("name", [case.name for case in CASES])

#: What a claim of each kind allows the table to say: itself, or something stronger.
ALLOWED: dict[Any, set[Any]] = {
    State.NONE: {State.NONE},
    State.KEYED: {State.KEYED, State.NONE},
    Selectivity.EXACTLY_ONE: {Selectivity.EXACTLY_ONE},
    Selectivity.AT_MOST_ONE: {Selectivity.EXACTLY_ONE, Selectivity.AT_MOST_ONE},
    Selectivity.MANY: {Selectivity.EXACTLY_ONE, Selectivity.AT_MOST_ONE, Selectivity.MANY},
    KeyForwarding.FORWARDED: {KeyForwarding.FORWARDED},
    Determinism.DETERMINISTIC: {Determinism.DETERMINISTIC},
}


@cache
def analysed() -> dict[str, Step]:
    """All steps, by name: all processes collect these tests, and one of them runs them."""
    return {step.case.name: step for step in steps()}


def said_and_found(step: Step) -> list[tuple[str, Any, Any, str]]:
    case, traits = step.case, step.operator.traits
    return [
        ("state", case.state, traits.state, traits.state_reason),
        ("outputs", case.outputs, traits.selectivity, traits.selectivity_reason),
        ("key", case.key, traits.forwarding, traits.forwarding_reason),
        ("repeatable", case.repeats, traits.determinism, traits.determinism_reason),
    ]


def test_the_corpus_is_large_and_every_name_stands_once() -> None:
    names = Counter(case.name for case in CASES)
    assert len(names) == len(CASES) == len(analysed()) >= 150


@by_name
def test_nothing_is_claimed_that_a_careful_reader_would_not_say(name: str) -> None:
    for trait, said, found, reason in said_and_found(analysed()[name]):
        assert said in ALLOWED.get(found, {said}), f"{trait}: {found} ({reason})"


def test_nine_of_ten_things_that_a_careful_reader_says_are_found() -> None:
    told, found = Counter[str](), Counter[str]()
    missed = []
    for step in analysed().values():
        for trait, said, got, reason in said_and_found(step):
            if said in ALLOWED and said is not Selectivity.MANY:
                told[trait] += 1
                found[trait] += said is got
                if said is not got:
                    missed.append(f"{step.case.name}: {trait} {said.value}, {reason}")
    page = " ".join((ROOT / "docs" / "explain.md").read_text(encoding="utf-8").split())
    number, right = sum(told.values()), sum(found.values())
    assert f"measured on {len(analysed())} functions" in page
    assert f"of {number} things said, {right} are found" in page
    for trait, number in told.items():
        assert found[trait] / number >= LEAST_FOUND, (trait, number, missed)


def test_no_run_disproves_a_claim() -> None:
    """Of those of which something is claimed, and that can be called without a runner."""
    claimed = [step for step in analysed().values() if step.callable and claims_of(step.operator)]
    assert len(claimed) >= LEAST_CLAIMED
    for step in claimed:
        try:
            check_a_claim(step)
        except Exception as error:
            msg = f"{step.case.name}: {error}"
            raise AssertionError(msg) from error


def check_a_claim(step: Step) -> None:
    """Each claim is checked call by call; what keeps nothing gives the same in any order."""
    claims = claims_of(step.operator)
    assert isinstance(claims, Claims)
    fn = armed(copy.deepcopy(step.fn), claims)
    elements = step.case.elements
    with bundle(fn):
        first = [[shown(o) for o in outputs(fn, e, step.args, step.kwargs)] for e in elements]
        if claims.deterministic:
            for _ in range(2):
                again = [
                    [shown(o) for o in outputs(fn, e, step.args, step.kwargs)]
                    for e in reversed(elements)
                ]
                assert again[::-1] == first


def test_no_run_in_a_pipeline_disproves_a_claim() -> None:
    """Those that take state, timers, windows or keys are run by a runner."""
    keyed = [step for step in analysed().values() if step.operator.traits.state is State.KEYED]
    rest = [step for step in keyed if not step.callable]
    assert rest
    for step in rest:
        options = PipelineOptions(["--verify_traits", "--shards=2"])
        with beam.Pipeline(runner=LocalRunner(), options=options) as p:
            p | beam.Create([("a", 1), ("b", 2), ("a", 3)]) | step.case.name >> step.case.step


@cache
def given_under(seed: int) -> dict[str, Any]:
    environment = {**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(
        [sys.executable, "-m", "tests.compiler.corpus.run"], cwd=ROOT, env=environment,
        check=True, capture_output=True, text=True,
    )
    found: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return found


def test_what_is_deterministic_gives_the_same_in_processes_with_other_hashes() -> None:
    first, second = given_under(1), given_under(2)
    assert first.keys() == second.keys()
    claimed = {
        step.case.name
        for step in analysed().values()
        if step.operator.traits.determinism is Determinism.DETERMINISTIC
    }
    differs = [name for name in first if first[name] != second[name]]
    assert differs  # else the seeds have no effect, and nothing was tested
    assert not claimed & set(differs)
