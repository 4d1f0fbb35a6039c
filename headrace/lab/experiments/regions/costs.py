"""What the pieces of a region cost, in seconds; read from and written to a small JSON file."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
#: Fitted to what the authors of ordered regions published of theirs, written in C++.
PUBLISHED = HERE / "published.json"
#: Measured by `headrace lab run regions calibrate`, pieces of headrace in Python.
MEASURED = HERE / "measured.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Seconds for one element, or one pulse."""

    split: float  # the splitter finds the channel of a tuple
    transfer: float  # to send a tuple; to receive one costs as much
    seqno: float  # to give a tuple its number
    pulse: float  # to send, forward or take one pulse
    merge: float  # the merger puts a tuple into its queue and takes it out
    heap: float  # the same for each doubling of the channels, where it keeps heaps
    work: float  # what the operator of a region does for a tuple

    def __post_init__(self) -> None:
        for field in fields(self):
            if not getattr(self, field.name) >= 0:
                msg = f"the cost {field.name} is not a number of seconds, zero or more"
                raise ValueError(msg)


def read_costs(path: Path) -> Costs:
    """Read a file of costs; beside them it may say `about`, where they come from."""
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    content.pop("about", None)
    known = {field.name for field in fields(Costs)}
    if content.keys() != known:
        msg = f"{path.name} must have exactly {', '.join(sorted(known))}, and may have about"
        raise ValueError(msg)
    return Costs(**{name: float(value) for name, value in content.items()})


def write_costs(path: Path, costs: Costs, about: str) -> None:
    """Write a file of costs."""
    path.write_text(
        json.dumps({"about": about, **asdict(costs)}, indent=2) + "\n", encoding="utf-8"
    )
