"""Workloads, the systems that run them, and the answers they must give."""
