"""`headrace ui`: serves the live page of a checkpoint, whose pipeline runs or has run.

Arguments and printing only. Reads the checkpoint and never touches it.
"""

from __future__ import annotations

import argparse
import sys
import threading
from typing import Any

_MORE = """\
example:
  headrace ui /data/checkpoints/auction
  headrace ui s3://bucket/auction --port 8080

Shows what the manifests say: watermarks of steps and sources, state, busy time, and which source
partition or state is the trouble; new epochs appear as they are committed. Reads only, so that it
can be used while the pipeline runs, and from another machine. A run started with --ui shows more:
rates, the parts of each epoch, skew. Ctrl-C ends it.
"""


def add_to(commands: Any) -> None:
    """Add the sub-command to a parser's sub-commands."""
    sub = commands.add_parser(
        "ui",
        help="show a checkpoint as a page in the browser",
        description="Show a checkpoint as a page in the browser.",
        epilog=_MORE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    sub.add_argument("checkpoint", metavar="CHECKPOINT", help="a folder's path or its URI")
    sub.add_argument(
        "--port", type=int, default=None,
        help="0: any that is free; default: the first free one from 4090 on",
    )
    sub.add_argument("--host", default="127.0.0.1", help="where to listen; default: 127.0.0.1")
    sub.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Serve until told to end; status 2 if there is no checkpoint."""
    # Here, as they load Beam, and the help of other commands must come at once.
    from headrace.quiet import quietly

    with quietly():
        from headrace.ui.checkpoint import CheckpointWatch, checkpoint_files
        from headrace.ui.server import PageServer

    files = checkpoint_files(arguments.checkpoint)
    if files is None:
        print(f"headrace: {arguments.checkpoint} is no checkpoint folder", file=sys.stderr)
        return 2
    watch = CheckpointWatch(files)
    server = PageServer(
        watch.history, host=arguments.host, port=arguments.port, look=watch.look
    )
    print(f"headrace: {arguments.checkpoint} at {server.url}; Ctrl-C ends", flush=True)
    try:
        threading.Event().wait()
    finally:
        server.close(linger=0.0)
    return 0
