"""Loads what the user's main module registered, once per process, before any stage is built.

Takes Beam's session file as bytes; knows nothing of how it was made.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import threading

from apache_beam.internal import pickler

_lock = threading.Lock()
_loaded: set[bytes] = set()


def load_main_session(session: bytes, library: str) -> None:
    """Set Beam's pickler, then load the session unless this process has it already."""
    with _lock:
        pickler.set_library(library)
        digest = hashlib.sha256(session).digest()
        if not session or digest in _loaded:
            return
        descriptor, path = tempfile.mkstemp(prefix="headrace-session-")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(session)
            pickler.load_session(path)
        finally:
            os.unlink(path)
        _loaded.add(digest)
