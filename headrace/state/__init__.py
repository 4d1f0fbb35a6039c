"""Keyed stores: bytes in, bytes out. Knows neither Beam nor Spark."""
