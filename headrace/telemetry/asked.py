"""What was asked to be told outside, and whether it can be. Loads no package of an extra."""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib.util import find_spec

from headrace.errors import OptionError

#: The one that the extra has an exporter for.
_PROTOCOL = "http/protobuf"
_PROTOCOLS = (
    "OTEL_EXPORTER_OTLP_PROTOCOL",
    "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
    "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Who is told of a run."""

    otel: bool = False
    otel_endpoint: str = ""  # empty: as OTEL_* in the environment says
    lineage: bool = False

    def __bool__(self) -> bool:
        return self.otel or self.lineage


def checked_otel(*, wanted: bool, endpoint: str) -> tuple[bool, str]:
    """Refuse what cannot be exported; give whether it is wanted, and where to.

    Raises:
        OptionError: the extra is missing, or the collector is not one that it can reach.
    """
    if not wanted:
        if endpoint:
            msg = "--otel_endpoint says where to export, and exporting is off: give --otel too"
            raise OptionError(msg)
        return False, ""
    if endpoint and not endpoint.startswith(("http://", "https://")):
        msg = f"--otel_endpoint={endpoint}: must begin with http:// or https://, as OTLP/HTTP does"
        raise OptionError(msg)
    for name in _PROTOCOLS:
        if os.environ.get(name, _PROTOCOL) != _PROTOCOL:
            msg = (
                f"{name}={os.environ[name]}: headrace exports by {_PROTOCOL}, which collectors "
                "take at port 4318 by default; unset it, or set it so"
            )
            raise OptionError(msg)
    _check_installed("opentelemetry.exporter.otlp.proto.http", "--otel", "otel")
    return True, endpoint.rstrip("/")


def checked_lineage(*, wanted: bool) -> bool:
    """Give whether events of OpenLineage's are wanted.

    Raises:
        OptionError: the extra is missing.
    """
    if wanted:
        _check_installed("openlineage.client", "--lineage", "lineage")
    return wanted


def _check_installed(module: str, option: str, extra: str) -> None:
    try:
        found = find_spec(module)
    except ModuleNotFoundError:  # of one of the packages above it
        found = None
    if found is None:
        package = module.partition(".")[0]
        msg = f"{option}: {package} is not installed: pip install headrace[{extra}]"
        raise OptionError(msg)
