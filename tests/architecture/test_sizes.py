"""No module grows so long that nobody reads it whole."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
MOST_LINES = 400
#: Modules that are still too long, with the lines they may have: a number here only ever goes down,
#: and the row goes when the module fits.
TOO_LONG = {
    "headrace/worker/grouping/trigger_state.py": 412,
    "headrace/worker/sideinputs/views.py": 553,
}


def lines_of(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def sizes() -> dict[str, int]:
    return {
        str(path.relative_to(ROOT)): lines_of(path) for path in (ROOT / "headrace").rglob("*.py")
    }


def test_no_module_is_longer_than_can_be_read_in_one_go() -> None:
    limits = {name: TOO_LONG.get(name, MOST_LINES) for name in sizes()}
    assert [f"{name}: {n}" for name, n in sizes().items() if n > limits[name]] == []


def test_every_exception_is_still_one() -> None:
    found = sizes()
    assert [name for name in TOO_LONG if found.get(name, 0) <= MOST_LINES] == []
