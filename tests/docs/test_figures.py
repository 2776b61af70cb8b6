"""Measured figures in the documentation are those that a command wrote.

A table under `<!-- figures: FILE -->` shows texts of FILE's `figures`, and no others; the benchmark
that FILE names writes it (`--json FILE`).
"""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MARKED = re.compile(r"<!-- figures: (\S+) -->\n+((?:\|.*\n)+)")
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
