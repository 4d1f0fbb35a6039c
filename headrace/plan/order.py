"""Order numbers: one integer says where an element stands in the run of a single shard.

An element that comes in is numbered at its source. What it causes carries its number on, with the
branch and a running sub-index behind it where one number does not tell the outputs apart. What a
watermark causes (a pane, a timer) is numbered by its time and key. All numbers that meet in one
place have the same number of bits, so that comparing them is comparing places in the sequential
run; see docs/decisions/2026-11-16-order-numbers.md. Pure arithmetic.

    from the left    phase | source | partition | row               an element of a source
                     phase | time | key | start of window | pane    a pane, a timer
    then, repeated   branch | sub-index                             what it caused since
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b

PHASE_BITS = 8
SOURCE_BITS, PARTITION_BITS, ROW_BITS = 16, 24, 40
SOURCE_WIDTH = PHASE_BITS + SOURCE_BITS + PARTITION_BITS + ROW_BITS
TIME_BITS, KEY_BITS, PANE_BITS = 64, 128, 16
FIRED_WIDTH = PHASE_BITS + TIME_BITS + KEY_BITS + TIME_BITS + PANE_BITS
BRANCH_BITS = 8
SUB_BITS = 32

LAST_PHASE = (1 << PHASE_BITS) - 1
_TIME_BIAS = 1 << (TIME_BITS - 1)  # times before 1970 are negative
_LAST_TIME = (1 << TIME_BITS) - 1
_LAST_PANE = (1 << PANE_BITS) - 1
_PREFIX_BYTES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class StageOrder:
    """How the numbers inside one stage are made."""

    width: int  # bits of every number in the stage
    phase: int  # of what watermarks cause here: past that of all that comes in

    def fired(self, time: int, key: bytes, start: int = 0, pane: int = 0) -> int:
        """Number what a watermark caused: by time, then by key, whatever the shard.

        Args:
            time: of the timer, or the last moment of the window, in microseconds.
            key: encoded.
            start: of the window, in microseconds; or what else tells two firings apart.
            pane: its place among the panes of the window.
        """
        number = self.phase << TIME_BITS | min(max(time + _TIME_BIAS, 0), _LAST_TIME)
        number = number << KEY_BITS | int.from_bytes(key_part(key), "big")
        number = number << TIME_BITS | (start + _TIME_BIAS) & _LAST_TIME
        number = number << PANE_BITS | min(max(pane, 0), _LAST_PANE)
        return number << (self.width - FIRED_WIDTH)

    def ended(self) -> int:
        """Number what the end of a bundle caused: after all else."""
        return (self.phase + 1 << self.width - PHASE_BITS) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PortOrder:
    """How numbers change where a stage meets a channel."""

    shift: int  # bits by which they are widened first, so that all that meet are equally wide
    branch: int | None = None  # of a writer: which of several this one is; None: there is one
    many: bool = False  # of a writer: one number may leave more than once
    width: int = 0  # bits of the numbers in the channel

    @property
    def number_bytes(self) -> int:
        """Bytes of one number."""
        return (self.width + 7) // 8


def source_number(source: int, partition: int) -> int:
    """Number the first row of a source's partition; the others follow.

    >>> source_number(0, 1) - source_number(0, 0) == 1 << ROW_BITS
    True
    """
    if not (0 <= source < 1 << SOURCE_BITS and 0 <= partition < 1 << PARTITION_BITS):
        msg = (
            f"ordered runs have at most {1 << SOURCE_BITS} sources of at most "
            f"{1 << PARTITION_BITS} partitions; this is partition {partition} of source {source}"
        )
        raise OverflowError(msg)
    return (source << PARTITION_BITS | partition) << ROW_BITS


def key_part(key: bytes) -> bytes:
    """Give what stands for a key in a number: its first bytes, then a digest of all of it.

    So keys of texts come in the order of their first letters, and no two keys are taken for one.
    """
    digest = blake2b(key, digest_size=KEY_BITS // 8 - _PREFIX_BYTES).digest()
    return key[:_PREFIX_BYTES].ljust(_PREFIX_BYTES, b"\0") + digest
