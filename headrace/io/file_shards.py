"""Sees to it that `fileio.WriteToFiles(shards=n)` writes n files per destination, as it promises.

Beam counts shards only of the records that it spills, those of destinations beyond the twentieth in
a bundle; all others go to a file per bundle and destination. That is one file where a pipeline is
one bundle, as on Beam's local runner, and one per shard here. Where the number is asked for, all
records take the way that keeps it.
"""

from __future__ import annotations

from typing import Any

from apache_beam.io import fileio


def keep_shards(transform: Any) -> None:
    """Let a write that names its number of shards write no other number of files.

    The default, which cannot be told from the same number given, leaves it to the runner.
    """
    if type(transform) is not fileio.WriteToFiles:
        return
    if transform.shards != fileio.WriteToFiles.DEFAULT_SHARDING:
        transform._max_num_writers_per_bundle = 0  # noqa: SLF001 (as dataframes' writes give it)
