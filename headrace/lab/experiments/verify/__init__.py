"""Every workload on headrace, in every condition that may change an answer, against the oracle."""
