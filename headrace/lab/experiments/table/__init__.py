"""Every workload on every system in one run, with verdict and rate."""
