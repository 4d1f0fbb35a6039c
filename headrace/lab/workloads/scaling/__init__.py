"""Scalability graphs: a stateless operator, a keyed aggregate, and two with an exchange between."""

from __future__ import annotations

from headrace.lab.workload import Workload
from headrace.lab.workloads.scaling import keyed, shuffle, stateless

WORKLOADS: tuple[Workload, ...] = (stateless.WORKLOAD, keyed.WORKLOAD, shuffle.WORKLOAD)
