"""The random texts of NEXMark, many at a time.

Takes random generators, a row each, and gives arrays of strings; the generators have then drawn
exactly as often as one row at a time would have made them. Knows nothing of records.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.lab.data.java_random import JavaRandom, JavaRandoms, jumps, remainder
from headrace.lab.data.randoms import I64, U64

Bytes = npt.NDArray[np.uint8]

#: States that are worked on at a time: they and what is made of them stay in a core's cache.
_BLOCK = 2**16
_PER_DRAW = 6  # characters of an exact string that one draw gives
_LETTERS = 26
_THREE = _LETTERS**3
_SPACE = ord(" ")
#: A draw from here on may be refused, for 26 letters or for 13 chances.
_UNFAIR = 2**31 - 2**31 % _LETTERS


def _three_letters() -> U64:
    """Give three characters for each remainder: first of positive numbers, then of negative."""
    digits = np.arange(_THREE)[:, None] // np.array([1, _LETTERS, _LETTERS**2]) % _LETTERS
    codes = np.concatenate([97 + digits, 97 - digits]).astype(np.uint64)
    return np.asarray(codes @ np.array([1, 2**8, 2**16], dtype=np.uint64))


_FIRST_THREE = _three_letters()
_LAST_THREE = _FIRST_THREE << np.uint64(24)


def exact_strings(randoms: JavaRandoms, sizes: I64) -> pa.StringArray:
    """Make strings of exactly these sizes. They are the last draws of a row: its state is left."""
    draws = -(-int(sizes.max(initial=0)) // _PER_DRAW)
    if not draws:
        return texts(sizes, np.zeros(0, np.uint8))
    rows = max(_BLOCK // draws, 1)
    parts = [
        _beginnings(_letters(randoms.states[at : at + rows], draws), sizes[at : at + rows])
        for at in range(0, len(sizes), rows)
    ]
    return pa.concat_arrays(parts)


def _letters(states: U64, draws: int) -> Bytes:
    """Give the characters that so many draws make: a row per state."""
    factors, addends = jumps(draws)
    drawn = states[:, None] * factors
    drawn += addends
    drawn >>= np.uint64(16)
    signed = drawn.astype(np.uint32).view(np.int32)
    size = np.abs(signed).view(np.uint32)
    upper = size // np.uint32(_THREE)
    lower = size - upper * np.uint32(_THREE)
    upper = remainder(upper, _THREE)
    negative = (signed < 0) * np.uint32(_THREE)
    lower += negative
    upper += negative
    eight = _FIRST_THREE.take(lower)
    eight |= _LAST_THREE.take(upper)
    # Six of eight bytes are characters. Three strided copies of two are faster than one of six.
    pairs = eight.astype("<u8", copy=False).view(np.uint16).reshape(len(states), draws, 4)
    six = np.empty((len(states), draws, 3), dtype=np.uint16)
    for pair in range(3):
        six[:, :, pair] = pairs[:, :, pair]
    return six.view(np.uint8).reshape(len(states), draws * _PER_DRAW)


def _beginnings(letters: Bytes, sizes: I64) -> pa.StringArray:
    """Give so many characters from the beginning of each row."""
    count, width = letters.shape
    # Beginnings and ends are strings of one array; Arrow is quick at copying every other string.
    ends = np.empty((count, 2), dtype=np.int32)
    ends[:, 0] = np.arange(count) * width + sizes
    ends[:, 1] = np.arange(1, count + 1) * width
    offsets = pa.py_buffer(np.concatenate([[0], ends.ravel()]).astype(np.int32))
    both = pa.StringArray.from_buffers(2 * count, offsets, pa.py_buffer(letters))
    return both.take(pa.array(np.arange(0, 2 * count, 2)))


def spaced_strings(randoms: JavaRandoms, most: int) -> pa.StringArray:
    """Make strings of 3 to `most - 1` letters and spaces, then cut the spaces around them off.

    A draw decides between space and letter, one in 13; the letter is drawn after that. So which
    draw means what depends on those before it: a draw decides if the one before it did not, or
    chose a space. Each draw but a decision for a letter gives a character.
    """
    lengths = 3 + randoms.below(most - 3)
    rows = max(_BLOCK * 4 // (2 * most), 1)
    data: list[Bytes] = []
    used = np.empty(len(lengths), dtype=np.int64)
    repaired: list[tuple[int, int]] = []
    for at in range(0, len(lengths), rows):
        some = slice(at, at + rows)
        characters, used[some], unfair = _spaced(randoms.states[some], lengths[some])
        for row in unfair:
            made, state = _spaced_slowly(int(randoms.states[at + row]), int(lengths[at + row]))
            begin = int(lengths[at : at + row].sum())
            characters[begin : begin + len(made)] = np.frombuffer(made, dtype=np.uint8)
            repaired.append((at + int(row), state))
        data.append(characters)
    randoms.skip(used)
    for row, state in repaired:
        randoms.states[row] = state
    made_texts = texts(lengths, np.concatenate(data) if data else np.zeros(0, np.uint8))
    return pc.ascii_trim(made_texts, characters=" ")


def _spaced(states: U64, lengths: I64) -> tuple[Bytes, I64, I64]:
    """Give the characters of all rows, how often each drew, and the rows that must be repaired."""
    factors, addends = jumps(2 * int(lengths.max()))
    drawn = factors[:, None] * states + addends[:, None]  # a row per draw: steps are then quick
    bits = (drawn >> np.uint64(16)).astype(np.uint32) >> np.uint32(1)
    letters = remainder(bits, _LETTERS).astype(np.uint8)
    is_space = (letters == 0) | (letters == 13)
    decides = np.empty((len(bits) + 1, len(states)), dtype=bool)
    count = np.zeros((len(bits) + 1, len(states)), dtype=np.uint8)
    decides[0] = True
    for draw in range(len(bits)):
        following = decides[draw + 1]
        np.logical_not(decides[draw], out=following)
        np.logical_or(following, is_space[draw], out=following)
        np.add(count[draw], following, out=count[draw + 1], casting="unsafe")
    gives = decides[1:]  # who gave a character, or found none to give, decides next
    wanted = count[:-1] < lengths.astype(np.uint8)
    used = wanted.sum(axis=0)
    characters = np.where(decides[:-1], np.uint8(_SPACE), letters + np.uint8(97))
    kept = gives & wanted
    unfair = np.flatnonzero((bits >= np.uint32(_UNFAIR)).any(axis=0))
    return characters.T[kept.T], used, unfair


def _spaced_slowly(state: int, length: int) -> tuple[bytes, int]:
    """Give one string and the state after it; for the rows in which a draw may be refused."""
    random, made = JavaRandom.at(state), bytearray()
    for _ in range(length):
        made.append(97 + random.below(_LETTERS) if random.below(13) else _SPACE)
    return bytes(made), random.state


# --- arrays of strings


def texts(lengths: I64, data: Bytes) -> pa.StringArray:
    """Make an array of strings that stand back to back."""
    if len(data) >= 2**31:
        msg = f"{len(lengths):,} events with {len(data):,} characters are too many for one batch"
        raise ValueError(msg)
    offsets = np.zeros(len(lengths) + 1, dtype=np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return pa.StringArray.from_buffers(len(lengths), pa.py_buffer(offsets), pa.py_buffer(data))


def offsets_of(array: pa.StringArray) -> npt.NDArray[np.int32]:
    """Give where the strings of an array begin in its characters, and where the last one ends."""
    offsets = np.frombuffer(array.buffers()[1], dtype=np.int32)
    return offsets[array.offset : array.offset + len(array) + 1]


def lengths_of(array: pa.StringArray) -> I64:
    """Give the lengths of strings, all of them of one byte a character."""
    return np.diff(offsets_of(array)).astype(np.int64)


def strings_of(array: pa.StringArray) -> list[str]:
    """Give the strings themselves; cutting one decoded text is faster than decoding each."""
    whole = bytes(array.buffers()[2] or b"").decode("ascii")
    ends = offsets_of(array).tolist()
    return [whole[begin:end] for begin, end in zip(ends, ends[1:], strict=False)]


def spread(array: pa.StringArray, rows: I64, count: int) -> pa.StringArray:
    """Give an array of `count` strings, those of `rows` from the array, the others empty."""
    lengths = np.zeros(count, dtype=np.int64)
    lengths[rows] = lengths_of(array)
    offsets = np.zeros(count + 1, dtype=np.int32)
    np.cumsum(lengths, out=offsets[1:])
    offsets += offsets_of(array)[0]
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), array.buffers()[2])
