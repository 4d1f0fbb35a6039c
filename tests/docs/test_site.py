"""The site as `make docs` builds it: no warning, no dead link, nothing from a foreign host."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parents[2]
#: What a browser fetches by itself, and where the address stands.
FETCHED = {"script": "src", "img": "src", "link": "href", "iframe": "src"}


class Page(HTMLParser):
    """The links and the anchors of a page, and what it fetches."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = {"", "top"}
        self.fetched: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors.update(given[name] for name in ("id", "name") if name in given)
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag in FETCHED and FETCHED[tag] in given:
            self.fetched.append(given[FETCHED[tag]])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("furo", reason="the extra docs is not installed")
    folder = tmp_path_factory.mktemp("site")
    sphinx = [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--keep-going"]
    built = subprocess.run(
        [*sphinx, "--doctree-dir", str(folder / "cache"), str(ROOT / "docs"), str(folder / "html")],
        capture_output=True, text=True, cwd=ROOT,
    )
    assert built.returncode == 0, built.stderr
    return folder / "html"


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {path: Page(path) for path in sorted(site.rglob("*.html"))}


def test_every_page_of_the_docs_is_on_the_site(site: Path) -> None:
    missing = [
        str(page)
        for page in (path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md"))
        if not (site / page).with_suffix(".html").exists()
    ]
    assert not missing


def test_every_link_inside_the_site_leads_to_a_page_and_a_place_on_it(
    site: Path, pages: dict[Path, Page]
) -> None:
    dead = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchors = pages[target].anchors if target in pages else {unquote(parts.fragment)}
            if not target.exists() or unquote(parts.fragment) not in anchors:
                dead.append(f"{path.relative_to(site)} -> {link}")
    assert not dead


def test_no_page_fetches_anything_from_elsewhere(
    site: Path, pages: dict[Path, Page]
) -> None:
    foreign = [f"{path.name}: {address}" for path, page in pages.items()
               for address in page.fetched if urlsplit(address).netloc]
    assert not foreign
    styles = "".join(path.read_text(encoding="utf-8") for path in site.rglob("*.css"))
    assert not re.findall(r"(?:@import|url\()\s*['\"]?(?:https?:)?//[^)'\"]*", styles)


def test_the_search_knows_the_api_and_the_guides(site: Path) -> None:
    index = (site / "searchindex.js").read_text(encoding="utf-8")
    for word in ("WriteToSpark", "ContinuousWindow", "CheckpointError", "StreamResult.drain"):
        assert re.search(rf"\b{re.escape(word.rpartition('.')[2])}\b", index), word
    assert '"guide/tuning"' in index


def test_the_first_page_is_the_readme_with_links_that_hold(site: Path) -> None:
    page = Page(site / "index.html")
    assert {"guide/cluster.html", "gallery/README.html", "changes.html"} <= set(page.links)
