"""Keeps Beam silent while it is imported, and undoes what its one warning does to the user's log.

Beam tells at each import, by the root logger, of an optional part that is not installed. The first
record that is logged without a handler makes Python install one, and from then on the user's own
`logging.basicConfig` does nothing.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quietly() -> Iterator[None]:
    """Let nothing be logged in the block, and no handler be installed by it."""
    root, nobody = logging.getLogger(), logging.NullHandler()
    kept = logging.root.manager.disable
    root.addHandler(nobody)  # with one there, Python installs none
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(kept)
        root.removeHandler(nobody)


def undo_beams_handler() -> None:
    """Remove the handler that Beam's import has had installed: the user has asked for none.

    One that the user's own `basicConfig()` made looks the same where he gave no arguments; Beam
    makes it anew when a pipeline is built.
    """
    root = logging.getLogger()
    if "apache_beam" not in sys.modules or len(root.handlers) != 1 or root.level != logging.WARNING:
        return
    (handler,) = root.handlers
    form = handler.formatter._fmt if handler.formatter else None  # noqa: SLF001 (no public name)
    if (
        type(handler) is logging.StreamHandler
        and handler.stream is sys.stderr
        and form == logging.BASIC_FORMAT
    ):
        root.removeHandler(handler)
