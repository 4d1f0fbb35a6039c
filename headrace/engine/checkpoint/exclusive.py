"""Creating a file that only one driver may create, and being sure of who did.

Takes files and data that is nobody else's; gives whether the file is there and ours. Knows nothing
of what is claimed.
"""

from __future__ import annotations

from headrace.errors import CheckpointError
from headrace.state.files import Files, shown

#: How often a file is asked for that is said to be there and is not.
TRIES = 5


def created(files: Files, name: str, data: bytes) -> bool:
    """Create a file unless there is one; say whether it is there now and ours.

    Where the answer does not tell (creation is not exclusive, or an answer was lost on the way and
    the client asked again) the file does, since the data is nobody else's.
    """
    for _ in range(TRIES):
        try:
            if files.create(name, data) and files.exclusive:
                return True
        except OSError:
            if not _holds(files, name, data):
                raise
            return True
        found = _holds(files, name, data)
        if found is not None:
            return found
        # Refused, and yet not there: a store may say so of two requests that meet.
    msg = f"{files.path(name)} could be neither created nor read, {TRIES} times"
    raise OSError(msg)


def see_that_it_refuses(files: Files, name: str, data: bytes) -> None:
    """Ask a store for what it must refuse: there are some that take a condition and pass over it.

    Args:
        files: where they are; a local disk is not asked.
        name: a file that is there.
        data: what is in it, so that nothing is lost if it is replaced.
    """
    if files.exclusive and not files.is_local and files.create(name, data):
        msg = (
            f"the store of checkpoint {shown(files.location)} replaces an object where it was told "
            "to create one only if there is none, so two drivers could not be kept apart there; "
            "use a store that knows conditional writes (If-None-Match), or a newer version of it"
        )
        raise CheckpointError(msg)


def _holds(files: Files, name: str, data: bytes) -> bool | None:
    """Whether a file holds just this; None if there is no such file."""
    try:
        return files.read(name) == data
    except FileNotFoundError:
        return None
