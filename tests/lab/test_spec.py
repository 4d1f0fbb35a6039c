"""Specs: what is read, and what is refused by name."""

from __future__ import annotations

import pytest

from headrace.errors import OptionError
from headrace.lab.benches import AbsentError, bench_of
from headrace.lab.experiments.fake import FakeBench
from headrace.lab.spec import EXPERIMENTS, LatencySpec, SystemSpec, read_spec


def test_a_spec_has_its_systems_and_its_experiments_in_their_order() -> None:
    spec = read_spec(
        'name = "mine"\n[latency]\nrate = 5\n[systems.fast]\nkind = "fake"\ncapacity = 9\n'
        "[systems.fake]\n[sustainable]\n"
    )
    assert [(s.name, s.kind, dict(s.settings)) for s in spec.systems] == [
        ("fast", "fake", {"capacity": 9}), ("fake", "fake", {}),
    ]
    assert list(spec.experiments) == ["sustainable", "latency"]
    assert spec.experiments["latency"] == LatencySpec(rate=5.0)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name = ", "no TOML"),
        ('name = "a/b"\n[systems.fake]\n[growth]', "to become a folder"),
        ("[latency]\nrate = 1", "names no system"),
        ("systems = 5\n[latency]\nrate = 1", "names no system"),
        ("[systems]\nfake = 1\n[latency]\nrate = 1", "systems.fake is no table"),
        ("[systems.fake]", "asks for no experiment; there are tuning, sustainable"),
        ("[systems.fake]\n[lateness]", "no experiment 'lateness'"),
        ("[systems.fake]\n[latency]\nrates = 5", "no setting 'rates'; there are rate, share"),
        ('[systems.fake]\n[latency]\nrate = "5"', "latency.rate is '5'; it must be such as 0.0"),
        ("[systems.fake]\n[latency]", "needs \\[sustainable\\]"),
        ("[systems.fake]\n[scaling]", "scaling searches with the settings of"),
        ("latency = 3\n[systems.fake]\n", "latency is no table"),
    ],
)
def test_what_a_spec_cannot_say_is_refused_by_name(text: str, said: str) -> None:
    with pytest.raises(OptionError, match=said):
        read_spec(text)


def test_a_fake_is_made_as_it_is_told() -> None:
    bench = bench_of(SystemSpec(name="x", kind="fake", settings={"capacity": 7}))
    assert isinstance(bench, FakeBench)
    assert bench.settings.capacity == 7.0
    with pytest.raises(OptionError, match="systems.x has no setting 'speed'"):
        bench_of(SystemSpec(name="x", kind="fake", settings={"speed": 7}))


def test_a_kind_that_is_unknown_or_absent_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OptionError, match="no kind of system 'storm'; there are headrace"):
        bench_of(SystemSpec(name="x", kind="storm", settings={}))
    monkeypatch.setenv("HEADRACE_LAB_PYFLINK_PYTHON", "/no/such/python")
    with pytest.raises(AbsentError, match="headrace lab install pyflink"):
        bench_of(SystemSpec(name="x", kind="pyflink", settings={}))


def test_every_experiment_can_be_asked_for_with_its_defaults() -> None:
    for kind in EXPERIMENTS.values():
        assert kind() == kind()
