"""What a run is told beside its plan: sizes and limits. Frozen, shipped to every task."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class ColumnsMode(Enum):
    """What becomes of rows that enter a stage as columns."""

    ON = "on"  # they stay columns as far as steps can take them
    OFF = "off"  # they become objects at once
    VERIFY = "verify"  # steps run on columns and on objects, and the results are compared


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Limits of one run."""

    super_tuple_bytes: int = 65_536  # rows of this size move at the shuffle's full speed
    max_bundle_elements: int = 0  # 0: one bundle per stage and shard
    group_memory_bytes: int = 384 << 20  # grouped values a task keeps before they go to disk
    merge_hot_keys: bool = True  # what a key's elements add up to travels, not each one
    columns: ColumnsMode = ColumnsMode.ON  # whether steps run on columns where they can
    log_level: int = 30  # user log records below this level stay on the worker
    pickle_library: str = "default"  # Beam's name for what pickled the user's functions
    main_session: bytes = b""  # Beam's session file; empty: the pipeline asked for none
    options: str = "{}"  # of the pipeline, for Beam's own code in the workers: JSON
    row_types: tuple[tuple[str, bytes], ...] = ()  # the user's: Beam's id, the class pickled
    python_path: tuple[str, ...] = ()  # folders the workers import from too, when they can see them
    folder: str = ""  # where relative paths begin, when the workers share the driver's disk
    ear: str = ""  # the socket by which workers of this machine tell the driver; empty: none
    run: str = ""  # names the run in what they tell
    watch_keys: bool = False  # some keys are looked at, so that a hot one has a name
    samples: bool = False  # some elements are shown to the driver, as Python writes them
