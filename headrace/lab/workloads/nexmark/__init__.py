"""NEXMark: an auction house's events, and the questions asked about them."""

from headrace.lab.workloads.nexmark.generator import generator
from headrace.lab.workloads.nexmark.settings import NexmarkSettings as SETTINGS

__all__ = ["SETTINGS", "generator"]
