"""Merges the monitoring infos that tasks report.

Takes serialised reports, gives Beam's monitoring infos summed over shards. Beam's own `consolidate`
merges integer sums and distributions only; gauges, string sets and tries need their combiners.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from apache_beam.metrics import monitoring_infos
from apache_beam.metrics.monitoring_infos import (
    BOUNDED_TRIE_TYPE,
    DISTRIBUTION_INT64_TYPE,
    HISTOGRAM_TYPE,
    LATEST_INT64_TYPE,
    STRING_SET_TYPE,
    SUM_INT64_TYPE,
)
from apache_beam.portability.api import beam_fn_api_pb2


def parse(report: bytes) -> list[Any]:
    """Read one task's report on one stage."""
    return list(beam_fn_api_pb2.ProcessBundleResponse.FromString(report).monitoring_infos)


def dump(infos_by_stage: Mapping[str, Iterable[Any]]) -> bytes:
    """Give what all stages did as bytes, for a manifest."""
    response = beam_fn_api_pb2.ProcessBundleResponse
    return json.dumps(
        {
            name: base64.b64encode(
                response(monitoring_infos=infos).SerializeToString(deterministic=True)
            ).decode()
            for name, infos in infos_by_stage.items()
        }
    ).encode()


def load(data: bytes) -> dict[str, list[Any]]:
    """Read what `dump` gave."""
    if not data:
        return {}
    return {name: parse(base64.b64decode(part)) for name, part in json.loads(data).items()}


def merge(infos: Iterable[Any]) -> list[Any]:
    """Merge infos with the same urn and labels."""
    merged: dict[Any, Any] = {}
    for info in infos:
        key = monitoring_infos.to_key(info)
        known = merged.get(key)
        if known is None:
            merged[key] = info
        else:
            combined = type(info)()
            combined.CopyFrom(known)
            combined.payload = _COMBINERS.get(info.type, _last)(known, info)
            merged[key] = combined
    return list(merged.values())


def _sum(a: Any, b: Any) -> bytes:
    return bytes(monitoring_infos.sum_payload_combiner(a.payload, b.payload))


def _distribution(a: Any, b: Any) -> bytes:
    for one, other in ((a, b), (b, a)):
        if monitoring_infos.extract_distribution(one)[0] == 0:
            return bytes(other.payload)  # an empty one has no true minimum or maximum
    return bytes(monitoring_infos.distribution_payload_combiner(a.payload, b.payload))


def _gauge(a: Any, b: Any) -> bytes:
    later = max(a, b, key=lambda info: monitoring_infos.extract_gauge_value(info)[0])
    return bytes(later.payload)


def _string_set(a: Any, b: Any) -> bytes:
    both = monitoring_infos.extract_string_set_value(a) | (
        monitoring_infos.extract_string_set_value(b)
    )
    return bytes(monitoring_infos.user_set_string("", "", sorted(both)).payload)


def _bounded_trie(a: Any, b: Any) -> bytes:
    both = monitoring_infos.extract_bounded_trie_value(a).combine(
        monitoring_infos.extract_bounded_trie_value(b)
    )
    return bytes(both.to_proto().SerializeToString())


def _histogram(a: Any, b: Any) -> bytes:
    both = monitoring_infos.extract_histogram_value(a).combine(
        monitoring_infos.extract_histogram_value(b)
    )
    return bytes(both.to_proto().SerializeToString())


def _last(a: Any, b: Any) -> bytes:
    """For progress and the like, where only the latest word counts."""
    del a
    return bytes(b.payload)


_COMBINERS: dict[str, Callable[[Any, Any], bytes]] = {
    SUM_INT64_TYPE: _sum,
    DISTRIBUTION_INT64_TYPE: _distribution,
    LATEST_INT64_TYPE: _gauge,
    STRING_SET_TYPE: _string_set,
    BOUNDED_TRIE_TYPE: _bounded_trie,
    HISTOGRAM_TYPE: _histogram,
}
