#!/usr/bin/env python3
"""Decide-only benchmark of the engine; `bayplan bench decide` is the same program.

Without arguments it runs every workload; with arguments it takes those of the command. With
`--figures FILE [WORKLOAD ...]` it measures what docs/design/engine.md shows, each workload in a
process of its own, and writes FILE; figures of workloads that are not named stay as they are.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from figures import keep

from bayplan.cli.bench_decide import command

Figures = dict[str, str]
RATIOS = (
    "basic",
    "mixed",
    "pod-affinity",
    "anti-affinity",
    "hard-spread",
    "soft-spread",
    "owned",
    "unique-labels",
    "many-terms",
    "node-churn",
    "many-templates",
    "nominated",
    "gang",
)
STEPS = ("basic", "mixed", "owned", "preemption", "preemption-pdb")
FEW = {"gang": "200", "preemption": "20", "preemption-pdb": "20"}
LARGE = ("--nodes", "50000", "--placed", "500000", "--kinds", "2000", "--pods", "200")


def measured(workload: str, *args: str) -> dict[str, Any]:
    """What the command says in a process of its own."""
    program = [sys.executable, "-m", "bayplan", "bench", "decide", "--json"]
    pods = () if "--pods" in args else ("--pods", FEW.get(workload, "1500"))
    done = subprocess.run(
        [*program, "--workload", workload, *pods, *args], check=True, stdout=subprocess.PIPE
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def figures_of(name: str) -> Figures:
    """The figures of one row."""
    if name == "memory":
        return {"memory": f"{measured('basic', *LARGE)['rss_mb']:.0f} MB"}
    if name == "records":
        runs = [measured(w, "--records-cost") for w in ("basic", "mixed", "owned")]
        return {f"records {r['workload']}": f"{r['records_cost_percent']} %" for r in runs}
    found: Figures = {}
    if name in RATIOS:
        result = measured(name)
        found[f"{name} ratio"] = f"{result['ratio_to_bare']:.2f}"
        found[f"{name} speed"] = f"{result['pods_per_s']:,.0f}/s"
    elif name in FEW:
        found[f"{name} pod"] = f"{measured(name)['us_per_pod'] / 1000:.1f} ms"
    if name in STEPS:
        held = measured(name, "--loop", "--pods", FEW.get(name, "1000"))
        found[f"{name} step"] = f"{held['step_p999_ms']:.1f} ms"
    return found


def write_figures(path: Path, names: list[str]) -> None:
    """Measure and write; told on stderr while it goes on."""
    for name in names or [*RATIOS, "preemption", "preemption-pdb", "records", "memory"]:
        found = figures_of(name)
        print(name, found, file=sys.stderr, flush=True)
        keep(path, "bench/decide.py", name, found)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--figures"]:
        write_figures(Path(sys.argv[2]), sys.argv[3:])
    else:
        command(args=sys.argv[1:] or ["--workload", "all"])
