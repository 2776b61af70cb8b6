"""Measured figures in the documentation are those that a command wrote.

A table under `<!-- figures: FILE -->` shows texts of FILE's `figures`, and no others; the benchmark
that FILE names writes it (`--json FILE`). A page that shows measured figures otherwise stands in
`UNTIED` with the command that was run by hand; such an entry goes when the page is tied to a file.
"""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MARKED = re.compile(r"<!-- figures: (\S+) -->\n+((?:\|.*\n)+)")
FIGURE = re.compile(r"\d[\d,.]* ?(?:ms|µs|MB|pods/s|calls/s|s of CPU|% of a core)(?!\w)")
CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
UNTIED = {
    "README.md": "make bench-e2e: its API server's cost and first bindings, below the table",
    "docs/design/apiserver.md": "bounds, and what parts cost when they were chosen",
    "docs/design/cel.md": "the size of a package, not measured here",
    "docs/design/conformance.md": "make oracle: what one case takes, about",
    "docs/design/engine.md": "profiles of single parts, beside the table of bench/decide.py",
    "docs/design/inspect.md": "what parts of an answer take, tried once",
    "docs/design/store.md": "bare SQLite, tried once to choose the layout of a table",
    "docs/how-to/page.md": "python bench/page.py",
    "docs/reference/apiserver.md": "python bench/apiserver.py",
    "docs/reference/extenders.md": "python bench/extender.py",
    "docs/reference/global-scheduler.md": "python bench/global.py",
    "docs/reference/packing.md": "python bench/pack.py",
    "docs/reference/traces.md": "bayplan trace reproduce fgd",
}
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
TABLES = [
    pytest.param(source, table, id=f"{page.relative_to(ROOT)} {source}")
    for page in PAGES
    for source, table in MARKED.findall(page.read_text("utf-8"))
]


def cells(table: str) -> list[str]:
    """What the rows show behind their titles, one text a figure."""
    rows = [line.strip("|\n ").split("|")[1:] for line in table.splitlines()[2:]]
    texts = [text.strip() for row in rows for cell in row for text in cell.split(", ")]
    return [text for text in texts if text]


@pytest.mark.parametrize(("source", "table"), TABLES)
def test_a_table_shows_what_was_measured(source, table):
    results = json.loads((ROOT / source).read_text("utf-8"))

    assert sorted(cells(table)) == sorted(results["figures"].values())
    assert (ROOT / results["command"]).is_file()


def test_figures_that_no_file_proves_are_known():
    found = {}
    for page in PAGES:
        text = CODE.sub("", MARKED.sub("", page.read_text("utf-8")))
        if shown := FIGURE.findall(text):
            found[page.relative_to(ROOT).as_posix()] = shown

    assert {} == {page: shown for page, shown in found.items() if page not in UNTIED}
    assert [] == [page for page in UNTIED if page not in found], "no longer needed"
