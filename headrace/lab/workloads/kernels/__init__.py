"""Application kernels: network monitoring, PageRank, two on tweets, and finance."""

from __future__ import annotations

from headrace.lab.workload import Workload
from headrace.lab.workloads.kernels import (
    finance,
    network,
    pagerank,
    twitter_cep,
    twitter_nlp,
)

WORKLOADS: tuple[Workload, ...] = (
    network.WORKLOAD,
    pagerank.WORKLOAD,
    twitter_nlp.WORKLOAD,
    twitter_cep.WORKLOAD,
    finance.WORKLOAD,
)
