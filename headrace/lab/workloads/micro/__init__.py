"""Micro benchmarks: what it costs to hand elements on, and to group them."""

from __future__ import annotations

from headrace.lab.workload import Workload
from headrace.lab.workloads.micro import group_by_key, pardo_chain

WORKLOADS: tuple[Workload, ...] = (pardo_chain.WORKLOAD, group_by_key.WORKLOAD)
