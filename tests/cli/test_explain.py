"""`headrace explain` from end to end, on scripts; nothing runs and no Spark session is made."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import apache_beam as beam
import pytest

from headrace.cli.main import main

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
AUCTION = ROOT / "examples" / "auction.py"

SCRIPT = """
import sys
import apache_beam as beam

class Pair:
    def __init__(self, x): self.x = x

for n in range(int(sys.argv[1])):
    with beam.Pipeline() as p:
        p | beam.Create([Pair(1)]) | "Step" >> beam.Map(lambda pair: pair.x)
    print("metrics", p.result.metrics().query()["counters"])
"""


def stable(text: str) -> str:
    """Without what depends on the Python that pickled the code."""
    text = re.sub(r"^fingerprint [0-9a-f]+$", "fingerprint X", text, flags=re.MULTILINE)
    return re.sub(r"#[0-9a-f]{8}", "#X", text)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "steps.py"
    path.write_text(SCRIPT)
    return path


def explained(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert main(["explain", *map(str, arguments)]) == 0
    return capsys.readouterr().out


def test_the_auction_example_is_explained_as_recorded(capsys: pytest.CaptureFixture[str]) -> None:
    """The record was read line by line against the example when it was made."""
    text, _, operators = explained(capsys, AUCTION, "--regions").partition("\noperators:")
    assert stable(text) == (HERE / "auction.txt").read_text()
    # Decisions that the example was written for, told apart from the record:
    assert "groups in place: History" in text
    assert "because writes self.total in line" in text
    assert "RunningTotal" in operators


def test_the_page_about_explain_shows_what_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (ROOT / "docs" / "explain.md").read_text()
    before, _, columns = page.partition("\n## Columns\n")
    recorded = (HERE / "auction.txt").read_text()
    shown = _blocks(before)
    assert len(shown) >= 2
    for block in shown:
        assert block in recorded
    script = tmp_path / "bids.py"
    script.write_text(BIDS)
    printed = explained(capsys, script, "--columns")
    shown = _blocks(columns)
    assert shown
    for block in shown:
        assert block in printed


def _blocks(text: str) -> list[str]:
    return re.findall(r"```text\n(.*?)```", text, flags=re.DOTALL)


#: The steps that the page shows under "Columns".
BIDS = """
from typing import NamedTuple

import apache_beam as beam


class Bid(NamedTuple):
    auction: int
    price: int


def dear(x: Bid) -> bool:
    return x.price > 25


with beam.Pipeline() as p:
    bids = p | beam.Create([Bid(1, 30), Bid(2, 20)]) | "Dear" >> beam.Filter(dear)
    pairs = bids | "Pairs" >> beam.Map(lambda x: (x.auction, x.price * 89 // 100))
    pairs | "Shown" >> beam.Map(print)
"""


def test_processes_with_other_hash_seeds_print_the_same() -> None:
    """Beam's fusion walks sets: the order it happens to take must not show."""
    printed = set()
    for seed in ("1", "2", "3"):
        done = subprocess.run(
            [sys.executable, "-m", "headrace.cli.main", "explain", str(AUCTION)],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        printed.add(stable(done.stdout))
    assert len(printed) == 1


def test_every_pipeline_of_a_script_is_explained_in_order(
    capsys: pytest.CaptureFixture[str], script: str
) -> None:
    text = explained(capsys, script, "--", 2)
    assert re.findall(r"^plan (\S+):", text, flags=re.MULTILINE) == ["steps#1", "steps#2"]


def test_the_script_goes_on_after_its_pipeline_was_caught(
    capsys: pytest.CaptureFixture[str], script: str
) -> None:
    assert "metrics []" in explained(capsys, script, "--", 1)


def test_classes_of_the_script_can_be_pickled_and_read(
    capsys: pytest.CaptureFixture[str], script: str
) -> None:
    assert "Step\n    state       none" in explained(capsys, script, "--regions", "--", 1)


def test_without_being_asked_nothing_is_called_bound_to_one_shard(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Map(json.dumps) runs on all shards: only an order that Beam does not promise would not."""
    path = tmp_path / "lines.py"
    path.write_text(
        "import json\nimport apache_beam as beam\n"
        "with beam.Pipeline() as p:\n"
        "    p | beam.Create([1]) | beam.Map(json.dumps) | beam.Map(print)\n"
    )
    text = explained(capsys, path)
    assert "Map(dumps)" in text or "json.dumps" in text
    assert "not parallel" not in text and "one shard" not in text
    assert len(text.splitlines()) < 20
    asked = explained(capsys, path, "--regions")
    assert asked.startswith(text)
    assert "(without that order every step runs on all 4 shards)" in asked


def test_shards_are_taken_from_the_command_line(
    capsys: pytest.CaptureFixture[str], script: str
) -> None:
    assert "plan steps: 7 shards" in explained(capsys, script, "--shards", 7, "--", 1)


def test_a_script_without_a_pipeline_is_told_so(
    capsys: pytest.CaptureFixture[str], script: str
) -> None:
    assert main(["explain", str(script), "--", "0"]) == 1
    assert "runs no pipeline" in capsys.readouterr().err


def test_a_missing_script_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["explain", str(tmp_path / "nowhere.py")]) == 2
    assert "nowhere.py" in capsys.readouterr().err


def test_what_cannot_run_is_refused_by_name(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "stream.py"
    path.write_text(
        "import apache_beam as beam\n"
        "from apache_beam.testing.test_stream import TestStream\n"
        "with beam.Pipeline() as p:\n"
        "    p | TestStream(endpoint='localhost:1')\n"
    )
    assert main(["explain", str(path)]) == 1
    assert "TestStream (beam:transform:teststream:v1)" in capsys.readouterr().err


def test_an_unbounded_collection_makes_the_plan_a_streaming_one(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "stream.py"
    path.write_text(
        "import apache_beam as beam\n"
        "from apache_beam.testing.test_stream import TestStream\n"
        "with beam.Pipeline() as p:\n"
        "    p | TestStream().add_elements([1])\n"
    )
    assert explained(capsys, path).startswith("plan stream: 4 shards, 1 supersteps, streaming\n")


def test_pipelines_run_again_after_explain(capsys: pytest.CaptureFixture[str], script: str) -> None:
    original = beam.Pipeline.run
    explained(capsys, script, "--", 1)
    assert beam.Pipeline.run is original


def test_json_can_be_read_by_a_program(capsys: pytest.CaptureFixture[str]) -> None:
    plan = json.loads(explained(capsys, AUCTION, "--format", "json"))
    (history,) = [c for c in plan["channels"] if c["groups"] and c["kind"] == "local"]
    assert history["label"] == "History"
    (total,) = [o for o in plan["operators"] if o["operator"] == "RunningTotal"]
    assert total["state"][0] == "unknown"
    refused = [r["operators"] for r in plan["regions"] if not r["parallel"]]
    assert ["RunningTotal"] in refused


def test_svg_is_well_formed_and_shows_every_stage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "auction.svg"
    assert explained(capsys, AUCTION, "--format", "svg", "-o", target) == ""
    root = ElementTree.parse(target).getroot()
    texts = [t.text for t in root.iter("{http://www.w3.org/2000/svg}text")]
    recorded = (HERE / "auction.txt").read_text()
    stages = re.findall(r"^  (stage \d+\.\d+)$", recorded, flags=re.MULTILINE)
    assert len(stages) > 5
    assert set(stages) <= set(texts)
    assert "RunningTotal" in texts


def test_svg_boxes_do_not_overlap(capsys: pytest.CaptureFixture[str]) -> None:
    root = ElementTree.fromstring(explained(capsys, AUCTION, "--format", "svg"))
    boxes = [
        tuple(float(r.attrib[a]) for a in ("x", "y", "width", "height"))
        for r in root.iter("{http://www.w3.org/2000/svg}rect")
        if r.attrib.get("rx")
    ]
    assert len(boxes) > 5
    for i, (x, y, w, h) in enumerate(boxes):
        for x2, y2, w2, h2 in boxes[i + 1 :]:
            assert x + w <= x2 or x2 + w2 <= x or y + h <= y2 or y2 + h2 <= y


def test_dot_names_stages_and_exchanges(capsys: pytest.CaptureFixture[str]) -> None:
    text = explained(capsys, AUCTION, "--format", "dot")
    assert text.startswith('digraph "auction" {') and text.endswith("}\n")
    assert re.search(r'"2\.1" -> "2\.2" \[label="groups in place: History"\]', text)
    assert text.count("{") == text.count("}")


def test_help_teaches_by_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["explain", "--help"])
    assert stopped.value.code == 0
    assert "headrace explain examples/auction.py" in capsys.readouterr().out


def test_explain_starts_no_spark(script: str) -> None:
    code = (
        "import sys; from headrace.cli.main import main\n"
        f"main(['explain', {str(script)!r}, '--', '1'])\n"
        "assert 'pyspark' not in sys.modules, 'pyspark was imported'\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-500:]
