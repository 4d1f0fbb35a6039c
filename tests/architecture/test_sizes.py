"""No module grows so long that nobody reads it whole."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
MOST_LINES = 400


def test_no_module_is_longer_than_can_be_read_in_one_go() -> None:
    sizes = {
        str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines())
        for path in (ROOT / "headrace").rglob("*.py")
    }
    assert len(sizes) > 100  # else it is not the package that was measured
    assert {name: lines for name, lines in sizes.items() if lines > MOST_LINES} == {}
