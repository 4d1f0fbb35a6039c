"""When workers may write files where the driver finds them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from headrace.engine.spark.classic_door import ClassicDoor


def spark(master: str, files: str) -> Any:
    conf = SimpleNamespace(get={"fs.defaultFS": files}.get)
    java = SimpleNamespace(hadoopConfiguration=lambda: conf)
    return SimpleNamespace(sparkContext=SimpleNamespace(master=master, _jsc=java))


@pytest.mark.parametrize(
    ("master", "files", "shared"),
    [
        ("local[2]", "file:///", True),
        ("local[2]", "hdfs://there:8020", False),  # a plain path is then no path of this machine
        ("spark://there:7077", "file:///", False),
    ],
)
def test_workers_write_files_only_where_a_plain_path_is_the_drivers_disk(
    master: str, files: str, shared: bool
) -> None:
    assert ClassicDoor(spark(master, files)).shares_disk is shared
