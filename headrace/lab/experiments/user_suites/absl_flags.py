"""A pytest plugin for tests written with absl: its flags count as parsed, with their defaults.

Only pytest loads it, in the environment of a package that has absl.
"""

from __future__ import annotations

from absl import flags  # type: ignore[import-not-found]


def pytest_configure() -> None:
    """Let tests read flags: absl's own runner would have parsed the command line."""
    flags.FLAGS.mark_as_parsed()
