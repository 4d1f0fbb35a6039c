"""How rows are named in a shard's store: the order of names is the order of scans.

Gives and reads row names. A name is kind, stage, for some kinds a time, then four bytes that say to
which shard the row belongs, then the rest. Knows nothing of what the values mean.
"""

from __future__ import annotations

from enum import Enum
from hashlib import blake2b
from zlib import crc32

#: The store refuses longer names (LMDB's limit is 511 bytes).
MAX_NAME_BYTES = 500
#: Parts of a name up to this length stand there as they are, longer ones by their digest.
MAX_PART_BYTES = 96
_DIGEST_BYTES = 24
_DIGESTED = 0xFF
_SIGN = 1 << 63

#: Number of different key groups; a key group modulo the number of shards is the shard.
KEY_GROUPS = 1 << 32


class Kind(Enum):
    """What a row is. The letter is on disk: never give one to something else."""

    CELL = "c"  # user state
    TIMER = "t"  # a timer as it is set now
    TIMER_EVENT = "e"  # by firing time: event-time timers
    TIMER_CLOCK = "p"  # by firing time: processing-time timers
    TIMER_HOLD = "o"  # by output time: timers that hold the watermark
    EXPIRY = "x"  # by expiry: windows that have user state
    GROUP = "g"  # by window end: values that wait for their window
    SLICE = "l"  # by slice end: what came for a slice of time, many keys in one row
    TRIGGER = "k"  # a key's trigger state
    TRIGGER_VALUES = "b"  # a key's values that wait for a trigger
    TRIGGER_EVENT = "f"  # by firing time: keys with event-time timers of triggers
    TRIGGER_CLOCK = "q"  # by firing time: keys with processing-time timers of triggers
    TRIGGER_HOLD = "h"  # by time: keys that hold the watermark
    SESSION = "n"  # a key's open sessions, with their values
    SESSION_VALUES = "v"  # values of a session that are too many to stand there
    SESSION_DUE = "u"  # by the end of the first: keys with sessions that have not fired
    SESSION_OVER = "w"  # by the time it is forgotten: keys with sessions that have fired
    SESSION_HOLD = "j"  # by time: keys with sessions that have fired and hold the watermark again
    SIDE = "s"  # by window end: a side input's elements; the same on every shard
    PENDING_SIDE = "1"  # by window end: side windows that are waited for
    PENDING_MAIN = "2"  # main windows that wait
    PENDING_ELEMENTS = "3"  # elements that wait, by main window
    RESIDUAL = "r"  # by due time: residuals of splittable DoFns
    RESIDUAL_HOLD = "d"  # by hold: residuals that hold the watermark
    SORTED = "a"  # by due time: elements that wait for their turn, many keys in one row
    META = "m"  # facts about the shard itself


#: Kinds whose names begin with a time.
TIMED = frozenset(
    {
        Kind.TIMER_EVENT, Kind.TIMER_CLOCK, Kind.TIMER_HOLD, Kind.EXPIRY, Kind.GROUP,
        Kind.TRIGGER_EVENT, Kind.TRIGGER_CLOCK, Kind.TRIGGER_HOLD, Kind.SIDE, Kind.PENDING_SIDE,
        Kind.RESIDUAL, Kind.RESIDUAL_HOLD, Kind.SLICE, Kind.SORTED, Kind.SESSION_DUE,
        Kind.SESSION_OVER, Kind.SESSION_HOLD,
    }
)
#: Kinds whose rows are the same on every shard: a new shard takes them from any old one.
EVERYWHERE = frozenset({Kind.SIDE})
#: Kinds whose rows hold keys of several shards-to-be: a new shard takes those of all old ones, and
#: whoever reads them picks what is its own.
MIXED = frozenset({Kind.SLICE, Kind.SORTED})
#: Kinds that stay with the shard and are not handed on to another number of shards.
OWN = frozenset({Kind.META})

_KINDS = {kind.value.encode(): kind for kind in Kind}


def stamp(micros: int) -> bytes:
    """Encode a time so that byte order is time order."""
    return (micros + _SIGN).to_bytes(8, "big")


def moment(data: bytes) -> int:
    """Read a time back."""
    return int.from_bytes(data, "big") - _SIGN


def part(data: bytes) -> bytes:
    """Encode a part of a name so that no part is the beginning of another."""
    if len(data) <= MAX_PART_BYTES:
        return bytes((len(data),)) + data
    return bytes((_DIGESTED,)) + blake2b(data, digest_size=_DIGEST_BYTES).digest()


def head(kind: Kind, stage: int) -> bytes:
    """Give how all names of a kind and stage begin."""
    return kind.value.encode() + stage.to_bytes(2, "big")


def name(kind: Kind, stage: int, key_group: int, *rest: bytes, time: int | None = None) -> bytes:
    """Give the name of a row.

    Args:
        kind: what the row is.
        stage: the stage's number in the plan.
        key_group: below `KEY_GROUPS`; decides on the shard. All rows of a key have that of the key.
        rest: already encoded, by `part` or of fixed length.
        time: for the kinds that are ordered by one.
    """
    if (time is not None) != (kind in TIMED):
        msg = f"a row of kind {kind.name} {'needs a time' if time is None else 'has no time'}"
        raise ValueError(msg)
    when = b"" if time is None else stamp(time)
    return head(kind, stage) + when + key_group.to_bytes(4, "big") + b"".join(rest)


def until(kind: Kind, stage: int, time: int) -> tuple[bytes, bytes]:
    """Give the range of names of a kind and stage whose time is at most `time`."""
    first = head(kind, stage)
    return first, first + stamp(time) + b"\xff" * 5  # a key group has four bytes


def under(prefix: bytes) -> tuple[bytes, bytes]:
    """Give the range of all names that begin with a prefix."""
    whole = int.from_bytes(prefix, "big") + 1
    return prefix, whole.to_bytes(len(prefix), "big")


def kind_of(row: bytes) -> Kind:
    """Read a name's kind."""
    return _KINDS[row[:1]]


def time_of(row: bytes) -> int:
    """Read the time of a row of a kind that has one."""
    return moment(row[3:11])


def key_group_of(row: bytes) -> int:
    """Read the key group of a row."""
    at = 11 if kind_of(row) in TIMED else 3
    return int.from_bytes(row[at : at + 4], "big")


def rest_of(row: bytes) -> bytes:
    """Give what follows the key group."""
    return row[15:] if kind_of(row) in TIMED else row[7:]


def any_key_group(data: bytes) -> int:
    """Give a key group for a row that no key owns."""
    return crc32(data)
