"""Figures of the documentation: kept in files of docs/results, shown in tables of the pages.

    python bench/figures.py docs/reference/apiserver.md      (fill its tables in from their files)

A table stands under `<!-- figures: FILE -->`. Its cells behind the titles show FILE's figures, in
its order. A file may also give the table's `columns`, title by title with the number of figures
in each cell. `tests/docs/test_figures.py` compares them.
"""

import argparse
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TABLE = re.compile(r"<!-- figures: (\S+) -->(\n+(?:\|.*\n){2})((?:\|.*\n)+)")


def write(path: Path, command: str, figures: dict[str, str], **facts: object) -> None:
    """Keep what a command measured, with what is to be known about the run."""
    load = {"cores": os.cpu_count(), "load": round(os.getloadavg()[0], 1)}
    body = {"command": command, **load, **facts, "figures": figures}
    path.write_text(json.dumps(body, indent=1) + "\n", "utf-8")


def texts(
    row: Mapping[str, object], names: Iterable[str], forms: Mapping[str, str]
) -> dict[str, str]:
    """A row of a benchmark as pages show it: of the fields that have a form, the text."""
    name = " ".join(str(row[key]) for key in names if key in row)
    return {f"{name} {key}": form.format(row[key]) for key, form in forms.items() if key in row}


def keep(path: Path, command: str, part: str, figures: dict[str, str]) -> None:
    """Write the figures of a part of a command, with the load after it; other parts stay."""
    known = json.loads(path.read_text("utf-8")) if path.exists() else {"load": {}, "figures": {}}
    before = known["load"] if isinstance(known["load"], dict) else {"others": known["load"]}
    load = before | {part: round(os.getloadavg()[0], 1)}
    write(path, command, known["figures"] | figures, load=load)


def filled(page: str, root: Path = ROOT) -> str:
    """A page with the figures of its files; a table whose file is not there stays as it is."""

    def table(found: re.Match[str]) -> str:
        name, head, rows = found.groups()
        if not (root / name).exists():
            return found.group()
        results = json.loads((root / name).read_text("utf-8"))
        figures = iter(results["figures"].values())
        if "columns" in results:
            head, rows = _laid_out(results["columns"], head, rows)
        text = "".join(_row(row, figures) for row in rows.splitlines())
        if left := list(figures):
            raise ValueError(f"{name} has figures that the table has no place for: {left}")
        return f"<!-- figures: {name} -->{head}{text}"

    return TABLE.sub(table, page)


def _laid_out(columns: Mapping[str, int], head: str, rows: str) -> tuple[str, str]:
    """Head and rows with the columns of a file; cells have a place for each figure."""
    title = head.strip().split("|")[1].strip()
    first = "".join(f" {text} |" for text in [title, *columns])
    cells = " | ".join(", ".join("?" * count) for count in columns.values())
    titles = (row.split("|")[1].strip() for row in rows.splitlines())
    body = "".join(f"| {text} | {cells} |\n" for text in titles)
    return f"\n\n|{first}\n|{' --- |' * (len(columns) + 1)}\n", body


def _row(row: str, figures: Iterator[str]) -> str:
    title, *cells = (cell.strip() for cell in row.strip("|").split("|"))
    shown = [", ".join(next(figures) for _ in cell.split(", ")) if cell else "" for cell in cells]
    return "|" + "|".join(f" {cell} " if cell else " " for cell in [title, *shown]) + "|\n"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pages", nargs="+", type=Path, metavar="PAGE", help="a page to fill in")
    for each in parser.parse_args().pages:
        each.write_text(filled(each.read_text("utf-8")), "utf-8")
