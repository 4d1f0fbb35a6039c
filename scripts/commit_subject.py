"""Refuses a commit whose subject is too long to be read in a list of commits.

Takes the file that holds the message, as git hands it to a commit-msg hook. Ends with 0, or with 1
and what is wrong. The subject is the first line that is neither empty nor a comment of git's.
"""

from __future__ import annotations

import sys
from pathlib import Path

MOST_CHARACTERS = 72


def fault(message: str) -> str:
    """Say what is wrong with a message; empty if nothing is.

    >>> fault("Whole numbers stay whole")
    ''
    >>> fault("x" * 73)
    'the subject has 73 characters; 72 are the most: say the effect, and the rest in the body'
    """
    lines = (line.rstrip() for line in message.splitlines() if not line.startswith("#"))
    subject = next((line for line in lines if line), "")
    if len(subject) <= MOST_CHARACTERS:
        return ""
    return (
        f"the subject has {len(subject)} characters; {MOST_CHARACTERS} are the most: "
        "say the effect, and the rest in the body"
    )


if __name__ == "__main__":
    found = fault(Path(sys.argv[1]).read_text(encoding="utf-8"))
    if found:
        print(found, file=sys.stderr)
    sys.exit(1 if found else 0)
