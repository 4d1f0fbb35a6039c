"""Experiments, a file each: what is asked of a system under which load, and what follows."""
