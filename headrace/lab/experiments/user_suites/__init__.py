"""Tests of packages of the package index that build on Beam, unmodified, with headrace as runner.

`headrace lab run user-suites` runs them; docs/user-suites.md is made from what it saves.
"""
