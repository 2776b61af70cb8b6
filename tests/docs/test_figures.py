"""Measured figures in the documentation are those that a command wrote.

A table under `<!-- figures: FILE -->` shows texts of FILE's `figures`, and no others; the benchmark
that FILE names writes it (`--json FILE`). No page shows others.
"""

import argparse
import json
import re
from pathlib import Path
from runpy import run_path

import pytest

ROOT = Path(__file__).parents[2]
MARKED = re.compile(r"<!-- figures: (\S+) -->\n+((?:\|.*\n)+)")
UNITS = "ms|µs|[MG]B|[a-z]*/s|a second|s (?:of )?CPU|% of (?:a core|the time)|×|times (?:as|faster)"
FIGURE = re.compile(rf"\d[\d,.]* ?(?:{UNITS})(?!\w)|\d\.\d+ %")
CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
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


def test_a_page_is_filled_in_from_its_file(tmp_path):
    bench = run_path(str(ROOT / "bench" / "figures.py"))
    page = "<!-- figures: r.json -->\n\n| | a | b |\n| --- | --- | --- |\n| x, y | 1, 2 | 3 |\n"
    assert page == bench["filled"](page, tmp_path)

    bench["write"](tmp_path / "r.json", "bench/store.py", {"a": "4 s", "b": "1/5", "c": "6,7"})

    done = bench["filled"](page, tmp_path)
    assert done.endswith("| x, y | 4 s, 1/5 | 6,7 |\n")
    assert [("r.json", ["4 s", "1/5", "6,7"])] == [(f, cells(t)) for f, t in MARKED.findall(done)]
    assert done == bench["filled"](done, tmp_path)


def test_every_table_can_be_filled_in_from_its_file():
    """The order of a file's figures is that of the cells."""
    filled = run_path(str(ROOT / "bench" / "figures.py"))["filled"]
    texts = {page.name: page.read_text("utf-8") for page in PAGES}

    assert [] == [name for name, text in texts.items() if filled(text) != text]


def test_figures_that_no_file_proves_are_known():
    found = {}
    for page in PAGES:
        text = CODE.sub("", page.read_text("utf-8"))
        if shown := FIGURE.findall(MARKED.sub("", text)):
            found[page.relative_to(ROOT).as_posix()] = shown

    assert {} == found


MEASURED = {
    "pack": {"gap": 0.01, "inUse": 5, "wouldDo": 3, "provenLeast": 3, "megabytes": 100}
    | {"seconds": 1.0, "cpuSeconds": 2.0},
    "page": {"first_picture_ms": [900, 700], "sent_mb": 1.5, "tab_mb": 64.0}
    | {"pan_far": {"p95": 17.0}, "pan_near": {"p95": 16.0}}
    | {"churn": {"server_percent_of_core": 1.9}},
}


@pytest.mark.parametrize(("name", "page"), [("pack", "reference/packing"), ("page", "how-to/page")])
def test_what_a_long_benchmark_will_write_fits_its_table(tmp_path, monkeypatch, name, page):
    """They run on a quiet machine, by `make figures`; nothing may be left to do by hand."""
    monkeypatch.syspath_prepend(ROOT / "bench")
    bench, figures = (run_path(str(ROOT / "bench" / f"{part}.py")) for part in (name, "figures"))
    sizes = bench.get("SIZES", ("",))
    shown = [bench["shown"](MEASURED[name] | {"size": size}) for size in sizes]
    (tmp_path / "docs" / "results").mkdir(parents=True)
    together = {title: text for each in shown for title, text in each.items()}
    figures["write"](tmp_path / f"docs/results/{name}.json", f"bench/{name}.py", together)

    done = figures["filled"]((ROOT / "docs" / f"{page}.md").read_text("utf-8"), tmp_path)

    found = dict(MARKED.findall(done))
    assert list(together.values()) == cells(found[f"docs/results/{name}.json"])


def test_a_run_beside_kube_scheduler_fills_readme_in(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "bench")
    bench, figures = (run_path(str(ROOT / "bench" / f"{part}.py")) for part in ("e2e", "figures"))
    kinds = ("pods_per_s", "pods_per_s_with_start", "cpu_ms_per_pod", "cpu_ms_per_pod_with_start")
    rows = [
        {"workload": workload, "scheduler": name} | {kind: 2.0 + i for i, kind in enumerate(kinds)}
        for workload in bench["WORKLOADS"]
        for name in reversed(bench["SCHEDULERS"])
    ]
    rows[1]["pods_per_s_with_start"] = 6.0
    (tmp_path / "docs" / "results").mkdir(parents=True)
    shown = bench["figures"](rows)
    path = tmp_path / "docs/results/e2e.json"
    figures["write"](path, "bench/e2e.py", shown, columns=bench["SHOWN"])

    done = figures["filled"]((ROOT / "README.md").read_text("utf-8"), tmp_path)

    [(_, table)] = MARKED.findall(done)
    assert "| both with start-up |" in table.splitlines()[0]
    assert "| 2 pods/s, 4.00 ms | 2 pods/s, 4.00 ms | 1.0 × | 1/1.0 | 0.5 ×, 1/1.0 |" in table
    assert list(shown.values()) == cells(table)
    assert done == figures["filled"](done, tmp_path)


async def test_each_scheduler_is_first_in_half_of_the_rounds(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "bench")
    bench = run_path(str(ROOT / "bench" / "e2e.py"))
    ran = []

    class Bench:
        def __init__(self, cluster, options):
            self.client = self

        async def nodes(self):
            pass

        async def close(self):
            pass

        async def throughput(self, workload, name):
            ran.append((workload, name))
            return {"workload": workload, "scheduler": name, "pods_per_s": 2 ** len(ran)}

        async def latency(self, name):
            return await self.throughput("latency", name)

    monkeypatch.setitem(bench["measure"].__globals__, "Bench", Bench)
    options = {"rounds": 4, "workloads": ["a", "b"], "schedulers": ["x", "y"], "seconds": 1}
    options |= {"latency_only": False, "json": True}

    rows = await bench["measure"](None, argparse.Namespace(**options))

    firsts = [(workload, name) for workload, name in ran[::2]]
    assert {("x", 2), ("y", 2)} == {
        (name, firsts.count((workload, name)))
        for workload in ("a", "b", "latency")
        for name in ("x", "y")
    }
    middle = bench["medians"](rows)
    assert [2**1, 2**8, 2**13, 2**20] == [row["pods_per_s"] for row in rows if is_a_x(row)]
    assert [(2**8 + 2**13) / 2] == [row["pods_per_s"] for row in middle if is_a_x(row)]


def is_a_x(row):
    return (row["workload"], row["scheduler"]) == ("a", "x")


def test_readme_says_who_ran_first_in_the_run_that_it_shows():
    results = json.loads((ROOT / "docs/results/e2e.json").read_text("utf-8"))

    text = (ROOT / "README.md").read_text("utf-8")
    assert 0 == results["rounds"] % 2
    assert f"Medians of {results['rounds']} rounds of `make bench-e2e" in text
    assert "each first in half of them" in text
    assert (5000, 0) == (results["nodes"], results["pods"]), "the titles tell how many pods"


def test_the_page_was_measured_as_large_as_it_says():
    results = json.loads((ROOT / "docs/results/page.json").read_text("utf-8"))
    wanted = {"nodes": 5000, "pods": 100_000, "rate": 100, "minutes": 10.0, "openings": 5}

    assert wanted == {name: results[name] for name in wanted}
    text = (ROOT / "docs/how-to/page.md").read_text("utf-8")
    assert "With 5,000 nodes\nand 100,000 pods" in text
    assert "| first picture, five openings |" in text
    assert "| the tab after ten minutes of 100 changes a second |" in text
