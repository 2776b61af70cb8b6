"""Lists of pods as client-go reads them: protobuf beside JSON, client and server together.

    python bench/lists.py [--pods 10000] [--rounds 3] [--kube] [--json docs/results/lists.json]

Builds `bench/lists/main.go` with Go against the published client-go (kept outside the checkout) and
lets it list all pods in both forms by turns. CPU is that of the client (its own count) and of the
server (from /proc); time is what the client waits. The first protobuf list is shown apart: the
server writes the messages then, and keeps them. `--kube` asks kube-apiserver instead.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import statistics
import subprocess
from pathlib import Path

from figures import write

from apiserver import PODS, cpu_seconds, pod, run_all
from bayplan.testing.servers import ServedCluster, start_embedded, start_kube

CLIENT_GO = "v0.36.4"
SOURCE = Path(__file__).parent / "lists" / "main.go"
FORMS = ("json", "protobuf")


def build() -> Path:
    """Build the client, unless it is there as the source is now."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "bayplan" / "bench-lists" / CLIENT_GO
    folder.mkdir(parents=True, exist_ok=True)
    program, source = folder / "lists", folder / "main.go"
    if program.exists() and source.read_bytes() == SOURCE.read_bytes():
        return program
    shutil.copy(SOURCE, source)
    names = ("api", "apimachinery", "client-go")
    needs = "".join(f"require k8s.io/{name} {CLIENT_GO}\n" for name in names)
    (folder / "go.mod").write_text(f"module bayplan.dev/lists\n\ngo 1.26\n\n{needs}")
    setting = {**os.environ, "GOFLAGS": "-mod=mod", "CGO_ENABLED": "0"}
    command = ["go", "build", "-trimpath", "-o", str(program), "."]
    subprocess.run(command, cwd=folder, env=setting, check=True)
    return program


def turn(program: Path, cluster: ServedCluster, form: str) -> dict[str, float]:
    """List once in a new process; return milliseconds."""
    command = [str(program), "-kubeconfig", str(cluster.kubeconfig), "-form", form]
    before = cpu_seconds(cluster)
    done = subprocess.run(command, check=True, capture_output=True)
    server = cpu_seconds(cluster) - before
    told = json.loads(done.stdout)
    seconds, client = told["seconds"], told["cpu"]
    return {"time": seconds * 1e3, "client": client * 1e3, "server": server * 1e3}


def show(name: str, rows: list[dict[str, float]]) -> dict[str, float]:
    middle = {key: statistics.median(row[key] for row in rows) for key in rows[0]}
    middle["cpu"] = middle["client"] + middle["server"]
    print(f"{name:16}" + "".join(f"{key:>8} {value:7.0f} ms" for key, value in middle.items()))
    return middle


def main() -> None:
    parser = argparse.ArgumentParser(description="lists by client-go: protobuf beside JSON")
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--kube", action="store_true", help="ask kube-apiserver instead")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    program = build()
    with start_kube() if options.kube else start_embedded() as cluster:
        asyncio.run(run_all(cluster, (("POST", PODS, pod(f"p{n}")) for n in range(options.pods))))
        first = show("protobuf, first", [turn(program, cluster, "protobuf")])
        rounds = [[turn(program, cluster, form) for form in FORMS] for _ in range(options.rounds)]
    plain, packed = (show(form, [row[at] for row in rounds]) for at, form in enumerate(FORMS))
    figures = {
        f"{name} {key}": f"{row[key] / plain[key]:.2f}"
        for name, row in (("protobuf", packed), ("first", first))
        for key in ("time", "cpu")
    }
    print("protobuf / JSON:", ", ".join(f"{name} {text}" for name, text in figures.items()))
    if options.json:
        write(options.json, "bench/lists.py", figures, pods=options.pods, rounds=options.rounds)


if __name__ == "__main__":
    main()
