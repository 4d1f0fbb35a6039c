"""Specs: what is read, and what is refused by name."""

from __future__ import annotations

import pytest

from headrace.errors import OptionError
from headrace.lab.benches import AbsentError, bench_of
from headrace.lab.experiments.fake import FakeBench
from headrace.lab.measure import Measuring
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
        ("[systems.fake]\n[sustainable]\n[latency]\nrate = 5\nshares = [0.5]", "leave one of them"),
        ("[systems.fake]\n[sustainable]\n[latency]\nshares = [1.5]", "above 0 and at most 1.0"),
        ("[systems.fake]\nfirst_rate = {q99 = 5}\n[sustainable]", "first_rate names 'q99'"),
        ("[systems.fake]\nfirst_rate = {count = 'x'}\n[sustainable]", "first_rate is {'count': "),
        (
            '[systems.fake]\n[sustainable]\n[latency]\nshares_questions = ["state"]',
            "latency names the question 'state', and the run has",
        ),
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


def test_a_system_may_have_a_first_rate_of_its_own() -> None:
    text = "[systems.fake]\nfirst_rate = 50000\n[systems.b]\nkind = 'fake'\n[sustainable]\n"
    first, second = read_spec(text).systems
    assert (first.first_rate, second.first_rate) == (50_000, 0)
    assert first.settings == {}
    with pytest.raises(OptionError, match=r"systems.fake.first_rate is 'much'"):
        read_spec(text.replace("50000", "'much'"))


def test_a_search_that_is_told_where_it_ends_makes_small_steps_and_no_ramp() -> None:
    text = """
    questions = ["count", "state"]
    [systems.fake]
    capacity = 5000
    first_rate = {count = 4800}
    [sustainable]
    ramp = true
    first_rate = 100
    precision = 0.3
    probe_seconds = 12
    confirm_seconds = 12
    """
    measuring = Measuring(read_spec(text))
    measuring.run()
    tried = {q: [p for p in measuring.probes if p.question == q] for q in ("count", "state")}
    assert [(p.rate, p.status) for p in tried["count"]] == [
        (4_800, "kept up"), (pytest.approx(4_800 * 1.3), "fell behind"),
    ]
    assert tried["state"][0].status == "estimated"


def test_searches_begin_where_the_system_says() -> None:
    text = """
    [systems.fake]
    capacity = 5000
    first_rate = 4000
    [systems.other]
    kind = "fake"
    capacity = 5000
    [sustainable]
    first_rate = 10
    probe_seconds = 12
    confirm_seconds = 12
    """
    said: list[str] = []
    Measuring(read_spec(text), said.append).run()
    first = {line.split()[0]: line for line in reversed(said) if "events/s" in line}
    assert "4,000 events/s" in first["fake"]
    assert " 10 events/s" in first["other"]


def test_first_rates_of_another_machine_are_taken_as_high_as_this_one_is_fast() -> None:
    text = """
    questions = ["count", "state"]
    [systems.fake]
    capacity = 5000
    first_rate = {count = 1600}
    [systems.other]
    kind = "fake"
    capacity = 5000
    first_rate = 400
    [sustainable]
    first_rate = 100
    loops_per_second = 10e6
    probe_seconds = 12
    confirm_seconds = 12
    """
    measuring = Measuring(read_spec(text), loops_per_second=25e6)
    measuring.run()
    first = {(p.system, p.question): p.rate for p in reversed(measuring.probes)}
    assert first["fake", "count"] == 4_000
    assert first["other", "count"] == 1_000
