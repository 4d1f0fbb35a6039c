"""Tells others of a run: a collector of OpenTelemetry, a receiver of OpenLineage's events."""
