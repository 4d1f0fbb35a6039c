"""Metrics of many shards become those of one run; every kind by its own rule."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest
from apache_beam.metrics import cells, monitoring_infos
from apache_beam.metrics.monitoring_infos import (
    extract_bounded_trie_value,
    extract_counter_value,
    extract_distribution,
    extract_gauge_value,
    extract_histogram_value,
    extract_string_set_value,
)
from apache_beam.portability.api import beam_fn_api_pb2
from apache_beam.utils.histogram import Histogram, LinearBucket

from headrace.engine.metrics import merge, parse


def only(infos: list[Any]) -> Any:
    """Merge in every order; all must agree, whichever shard reports first."""
    merged = [merge(list(order)) for order in permutations(infos)]
    assert all(len(found) == 1 for found in merged)
    return [found[0] for found in merged]


def test_counters_are_added() -> None:
    infos = [monitoring_infos.int64_user_counter("ns", "c", n, "step") for n in (1, 10, 100)]
    assert {extract_counter_value(info) for info in only(infos)} == {111}


def test_counters_of_other_steps_and_names_stay_apart() -> None:
    infos = [
        monitoring_infos.int64_user_counter("ns", name, n, step)
        for n, (name, step) in enumerate([("c", "s"), ("c", "t"), ("d", "s"), ("c", "s")])
    ]
    assert sorted(extract_counter_value(info) for info in merge(infos)) == [1, 2, 3]


def distribution(*values: int) -> Any:
    data = cells.DistributionData(
        sum(values), len(values), min(values, default=0), max(values, default=0)
    )
    return monitoring_infos.int64_user_distribution("ns", "d", data, "step")


def test_distributions_are_joined() -> None:
    found = only([distribution(3, 4), distribution(-1), distribution(10)])
    assert {tuple(extract_distribution(info)) for info in found} == {(4, 16, -1, 10)}


def test_an_empty_shard_does_not_pull_a_distribution_to_zero() -> None:
    found = only([distribution(5, 7), distribution(), distribution(6)])
    assert {tuple(extract_distribution(info)) for info in found} == {(3, 18, 5, 7)}


def test_distributions_of_empty_shards_alone_stay_empty() -> None:
    assert {extract_distribution(info)[:2] for info in only([distribution(), distribution()])} == {
        (0, 0)
    }


def test_the_latest_word_of_a_gauge_counts() -> None:
    infos = [
        monitoring_infos.int64_user_gauge("ns", "g", cells.GaugeData(value, timestamp=moment), "s")
        for value, moment in ((1, 100), (3, 300), (2, 200))
    ]
    assert {extract_gauge_value(info)[1] for info in only(infos)} == {3}


def test_string_sets_are_united() -> None:
    infos = [
        monitoring_infos.user_set_string("ns", "s", words, "step")
        for words in ({"a", "b"}, {"b", "c"}, set())
    ]
    for info in only(infos):
        assert set(extract_string_set_value(info)) == {"a", "b", "c"}


def trie(*paths: tuple[str, ...]) -> Any:
    data = cells.BoundedTrieData()
    for path in paths:
        data = data.combine(cells.BoundedTrieData(singleton=path))
    return monitoring_infos.user_bounded_trie("ns", "t", data, "step")


def test_bounded_tries_are_united() -> None:
    found = only([trie(("a/", "x")), trie(("a/", "y"), ("b/",)), trie(("a/", "x"))])
    for info in found:
        paths = {leaf[:-1] for leaf in extract_bounded_trie_value(info).as_trie().flattened()}
        assert paths == {("a/", "x"), ("a/", "y"), ("b/",)}


def histogram(*values: float) -> Any:
    held = Histogram(LinearBucket(0, 10, 5))
    for value in values:
        held.record(value)
    return monitoring_infos.user_histogram("ns", "h", cells.HistogramData(held), "step")


def test_histograms_are_added_bucket_by_bucket() -> None:
    expected = cells.HistogramData(Histogram(LinearBucket(0, 10, 5)))
    for value in (1, 2, 11, 33, 34):
        expected.histogram.record(value)
    for info in only([histogram(1, 11), histogram(2, 33), histogram(34)]):
        found = extract_histogram_value(info).histogram
        assert found.total_count() == 5
        assert found == expected.histogram


def test_merging_leaves_the_reports_as_they_were() -> None:
    infos = [monitoring_infos.int64_user_counter("ns", "c", n, "step") for n in (1, 2)]
    before = [info.SerializeToString() for info in infos]
    merge(infos)
    assert [info.SerializeToString() for info in infos] == before


def test_an_unknown_kind_keeps_its_latest_word() -> None:
    infos = [
        monitoring_infos.create_monitoring_info("some:urn", "some:type", payload, {"A": "b"})
        for payload in (b"old", b"new")
    ]
    (found,) = merge(infos)
    assert found.payload == b"new"


def test_a_report_is_read_back_and_a_broken_one_refused() -> None:
    info = monitoring_infos.int64_user_counter("ns", "c", 5, "step")
    report = beam_fn_api_pb2.ProcessBundleResponse(monitoring_infos=[info]).SerializeToString()
    assert parse(report) == [info]
    with pytest.raises(Exception, match="(?i)pars|wire|decod"):
        parse(b"\xff\xff")
