"""Kafka, read and written."""
