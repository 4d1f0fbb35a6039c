"""How Sphinx makes a site of these pages: `make docs`.

The pages are Markdown that reads the same in the repository. Two of them lie outside this folder
and are brought in; links are turned so that they hold from their new places. Nothing is fetched.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
ROOT = DOCS.parent
sys.path.insert(0, str(ROOT))

from headrace import __version__  # noqa: E402 (the tree's own, whatever is installed)

project = "headrace"
author = "the authors of headrace"
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_heading_anchors = 4
#: A docstring's `word` is code, as it is in Markdown.
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_class_signature = "mixed"
napoleon_numpy_docstring = False

html_theme = "furo"
html_title = f"headrace {__version__}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_show_copyright = False
html_show_sphinx = False
html_theme_options = {
    "top_of_page_buttons": [],
    "light_css_variables": {"color-brand-primary": "#0b5c8a", "color-brand-content": "#0b5c8a"},
    "dark_css_variables": {"color-brand-primary": "#63b8e8", "color-brand-content": "#63b8e8"},
}

#: Pages of the site that are written elsewhere: name on the site -> file, from the root.
BROUGHT_IN = {
    "index": "README.md", "changes": "CHANGELOG.md", "contributing": "CONTRIBUTING.md",
}
#: The four facts at the end of an operator's docstring, a line or two each.
FACT = re.compile(r"(State|Order|Late|Shard): +(?=\S)")
LINK = re.compile(r"(?<=\]\()([^)\s#:]+)(?=[)#])")


def turned(text: str, old: str, new: str) -> str:
    """Turn the links of a page that moves from one folder to another, both from the root.

    Links to files that are pages of the site under another name go to those pages.
    """
    pages = {file: f"docs/{name}.md" for name, file in BROUGHT_IN.items()}

    def turn(link: re.Match[str]) -> str:
        target = os.path.normpath(os.path.join(old, link.group()))
        if not (ROOT / target).exists():
            return link.group()  # code that only looks like a link, or a fault for Sphinx to name
        return os.path.relpath(pages.get(target, target), new)

    return LINK.sub(turn, text)


def bring_in(app: Any, name: str, source: list[str]) -> None:
    """Give the text of a page, before it is parsed."""
    folder = os.path.dirname(f"docs/{name}")
    if name in BROUGHT_IN:
        file = BROUGHT_IN[name]
        text = (ROOT / file).read_text(encoding="utf-8")
        app.env.note_dependency(str(ROOT / file))  # a change there makes the page anew
        source[0] = turned(text, os.path.dirname(file), folder) + "\n" + source[0]
    else:
        source[0] = turned(source[0], folder, folder)
    if os.path.basename(name) == "README":  # a folder's first page; the others stand below it
        source[0] += "\n```{toctree}\n:hidden:\n:glob:\n\n*\n```\n"


def list_facts(  # Sphinx gives all of it, by position
    _app: Any, _what: str, _name: str, _thing: Any, _options: Any, lines: list[str]
) -> None:
    """Make a list of an operator's four facts, which would else run into one another."""
    inside = False
    for number, line in enumerate(lines):
        if FACT.match(line):
            lines[number] = FACT.sub(r"* **\1:** ", line, count=1)
            inside = True
        elif inside:
            inside = bool(line)
            lines[number] = f"  {line}" if line else line


def setup(app: Any) -> None:
    """Let Sphinx ask for texts."""
    app.connect("source-read", bring_in)
    app.connect("autodoc-process-docstring", list_facts)
