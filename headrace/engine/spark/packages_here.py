"""What is installed in this Python; workers of a local session have the same."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from importlib import metadata

from packaging.utils import canonicalize_name as normal


@functools.cache
def installed_here() -> Mapping[str, str]:
    """Give name and version of every distribution this Python can import."""
    return {
        normal(each.metadata["Name"]): each.version
        for each in metadata.distributions()
        if each.metadata["Name"]
    }
