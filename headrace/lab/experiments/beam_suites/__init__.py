"""Beam's own pipeline tests, as the wheel ships them, with headrace as their runner.

`headrace lab run beam-suites` runs them all; docs/beam-suites.md is made from what it saves.
"""
