"""Beam's import says nothing, and the user's own log works after it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
AFTER = """
import logging
logging.basicConfig(format="mine %(message)s", level=logging.INFO)
logging.info("heard")
"""


def said_by(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code + AFTER], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return done.stderr


def test_headrace_imports_beam_without_a_word_and_without_a_handler() -> None:
    assert said_by("import headrace\nheadrace.SparkRunner") == "mine heard\n"


def test_a_basic_config_behind_both_imports_counts() -> None:
    """Beam's warning has had Python install a handler; with one there, basicConfig does nothing."""
    assert said_by("import apache_beam, headrace").endswith("mine heard\n")


@pytest.mark.parametrize("own", ["level=40", "format='%(message)s'", "stream=sys.stdout"])
def test_a_log_that_the_user_has_set_up_stays(own: str) -> None:
    code = (
        "import logging, sys\n"
        f"logging.basicConfig({own})\n"
        "before = logging.getLogger().handlers[:]\n"
        "import apache_beam, headrace\n"
        "assert logging.getLogger().handlers == before\n"
        "sys.exit(0)\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=True)
