"""Brings systems that do not come with headrace: environments by pip, job servers by Maven."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from headrace.lab import environments
from headrace.lab.job_servers import parts

#: What can be brought, by name.
INSTALLED = (*environments.PACKAGES, *parts.JOB_SERVERS)


def install(system: str, told: Callable[[str], None] = lambda _text: None) -> Path:
    """Bring a system, if it is not there; give its folder.

    Raises:
        OptionError: it cannot be had; says why.
    """
    if system in parts.JOB_SERVERS:
        return parts.install(system, told)
    return environments.install(system, told)
