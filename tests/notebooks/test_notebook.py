"""A real notebook, run by a real kernel: what a PySpark user does first, with Beam and headrace.

One test, since a kernel with a Spark of its own costs most of its time: the cells of
`examples/notebook.ipynb` in their order, and the streaming one a second time.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbclient
import nbformat
import pytest

NOTEBOOK = Path(__file__).parents[2] / "examples" / "notebook.ipynb"


class Kernel:
    """Runs cells by the words that their ids are."""

    def __init__(self, client: Any, cells: dict[str, tuple[int, Any]]) -> None:
        self._client, self._cells = client, cells

    def printed(self, cell: str) -> list[str]:
        """Run a cell, once more if it has run before; give the lines on its standard output."""
        text = "".join(
            output.text for output in self._run(cell)
            if output.output_type == "stream" and output.name == "stdout"
        )
        return [line for line in text.splitlines() if line]

    def displayed(self, cell: str) -> str:
        """Run a cell; give the HTML that it displays."""
        shown = (o.data for o in self._run(cell) if o.output_type == "display_data")
        return "".join(data.get("text/html", "") for data in shown)

    def _run(self, cell: str) -> list[Any]:
        number, code = self._cells[cell]
        outputs: list[Any] = self._client.execute_cell(code, number).outputs
        return outputs


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[Kernel]:
    shutil.copy(NOTEBOOK, tmp_path)
    notebook = nbformat.read(tmp_path / NOTEBOOK.name, as_version=4)  # type: ignore[no-untyped-call]
    nbformat.validate(notebook)
    client = nbclient.NotebookClient(
        notebook, timeout=240, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    )
    path = os.pathsep.join([str(NOTEBOOK.parents[1]), os.environ.get("PYTHONPATH", "")])
    cells = {
        cell.id: (number, cell)
        for number, cell in enumerate(notebook.cells) if cell.cell_type == "code"
    }
    with client.setup_kernel(cwd=str(tmp_path), env={**os.environ, "PYTHONPATH": path}):
        yield Kernel(client, cells)


@pytest.mark.spark
def test_a_notebook_collects_records_streams_and_goes_on_from_its_checkpoint(
    kernel: Kernel,
) -> None:
    assert kernel.printed("session") == []
    # ada 3 + 4, alan 5; `n=` gives no more rows than asked for.
    assert kernel.printed("collect") == ["[('ada', 7), ('alan', 5)]", "1"]
    assert "{1: 'ada', 2: '7'," in kernel.displayed("show")  # a row of the table in the page
    # Two files of the stream were there when the recording was made: b once, a twice and once.
    assert kernel.printed("recorded") == ["[('a', 3), ('b', 1)]"]
    assert kernel.printed("endless")[0].startswith("PeriodicImpulse/")
    first = kernel.printed("stream")
    assert first == ["[('a', 3), ('b', 1)]"]
    # The cell has another number now. Its checkpoint knows all files but the new one, "a c".
    kernel.printed("arrives")
    assert kernel.printed("stream") == ["[('a', 4), ('b', 1), ('c', 1)]"]
    assert kernel.printed("eager") == ["[1, 4, 9]"]
