"""Reference answers of all workloads at their default settings, a JSON file each; only data."""
