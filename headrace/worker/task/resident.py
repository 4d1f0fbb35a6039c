"""A task that stays: it answers one request after another, for a driver on its own machine.

Takes the path of the driver's socket and what answers a request; decides when it has stayed long
enough to make room for others. A request is answered whole or not begun: what fails in the middle
is raised, so that Spark hears of it as of any task.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable

#: A task to which nothing came for so long leaves.
IDLE_SECONDS = 0.5
#: So long it holds a core that others may wait for.
STAY_SECONDS = 2.0

_LENGTH = struct.Struct(">Q")
#: Before an answer: whether the task stays for another request.
STAYS, LEAVES = b"s", b"l"


def serve(path: str, answer: Callable[[bytes], bytes]) -> None:
    """Answer what the driver asks, until it asks no more or there is time to leave.

    Args:
        path: of the socket where the driver listens; a task that it does not listen to leaves.
        answer: does what a request asks; may raise.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
        try:
            link.connect(path)
        except OSError:
            return  # the driver is gone, or has had a task already, or is another user's
        until = time.monotonic() + STAY_SECONDS
        stays = True
        while stays:
            link.settimeout(IDLE_SECONDS)
            try:
                request = _received(link)
            except OSError:
                return
            if request is None:
                return
            reply = answer(request)
            stays = time.monotonic() < until
            link.settimeout(None)  # the epoch is done, and its driver may be slow to hear of it
            link.sendall(framed((STAYS if stays else LEAVES) + reply))


def framed(message: bytes) -> bytes:
    """Give a message with its length before it."""
    return _LENGTH.pack(len(message)) + message


def unframed(data: bytes | bytearray) -> bytes | None:
    """Give a message of which no byte lacks; None: there is more to come.

    >>> unframed(framed(b"whole")), unframed(framed(b"part")[:-1])
    (b'whole', None)
    """
    if len(data) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack_from(data)
    end = _LENGTH.size + length
    return bytes(data[_LENGTH.size : end]) if len(data) >= end else None


def _received(link: socket.socket) -> bytes | None:
    """Wait for a request; None: there will be none."""
    data = bytearray()
    while (message := unframed(data)) is None:
        part = link.recv(1 << 16)
        if not part:
            return None
        data += part
    return message
