"""How long a person or a cluster waits for Bayplan to start.

    python bench/start.py [--runs 9] [--write]

    help, version   `bayplan --help` and `--version`, from start to end
    up              `bayplan up --nodes 3` on a new directory, until it says that it is ready
    connecting      a process that loads the API client and lists the nodes of a cluster
    scheduler       `bayplan scheduler` on a cluster with a waiting pod, until the pod is bound

Each figure is the best of the runs: what the programs need, without what else the machine did,
and with bytecode at hand, as after the first start.
CPU is the program's own, read from /proc at the moment told. `--write` keeps the figures in
docs/results/start.json, where a test compares them with what pages say.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path

from figures import write

from bayplan.cli.nodes import add_nodes, default_nodes
from bayplan.client import connect, load_kubeconfig
from bayplan.client.resources import PODS
from bayplan.testing.servers import ServedCluster, bayplan_command, start_embedded

RESULTS = Path(__file__).parents[1] / "docs" / "results" / "start.json"
TICKS = os.sysconf("SC_CLK_TCK")
ANY = float("inf")
GOALS = defaultdict(lambda: (ANY, ANY)) | {  # seconds: wall clock, CPU
    "help": (0.12, ANY),
    "version": (0.12, ANY),
    "up": (1.0, ANY),
    "scheduler beyond connecting": (ANY, 0.6),
}
CONNECT = """
import asyncio, sys
from bayplan.client import connect, load_kubeconfig
from bayplan.client.resources import NODES
async def main():
    client = connect(load_kubeconfig(sys.argv[1]))
    await client.list(NODES)
    await client.close()
asyncio.run(main())
"""
Times = tuple[float, float]  # wall clock, CPU


def cpu_of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def until_end(command: list[str]) -> Times:
    """Run a command to its end; its CPU is what the system counted for it."""
    began = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.monotonic() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{command} failed")
    return wall, usage.ru_utime + usage.ru_stime


def until_up() -> Times:
    """Start a whole cluster; stop the clock when it says that it is ready."""
    with tempfile.TemporaryDirectory(prefix="bayplan-start-") as folder:
        command = bayplan_command("up", "--nodes", "3", "--bind", "127.0.0.1:0", "--data")
        began = time.monotonic()
        process = subprocess.Popen([*command, f"{folder}/data"], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        for line in process.stdout:
            if "ready" in line:
                times = time.monotonic() - began, cpu_of(process.pid)
                break
        else:
            raise SystemExit("bayplan up ended before it was ready")
        process.terminate()
        process.communicate(timeout=30)
        return times


async def until_bound(cluster: ServedCluster, name: str) -> Times:
    """Let a pod wait, start the scheduler, and stop the clock when the pod is bound."""
    client = connect(load_kubeconfig(cluster.kubeconfig))
    container = {"name": "app", "image": "registry.example/app"}
    pod = {"metadata": {"name": name}, "spec": {"containers": [container]}}
    made = await client.create(PODS, pod, namespace="default")
    version = json.loads(made)["metadata"]["resourceVersion"]
    began = time.monotonic()
    process = cluster.bayplan_scheduler(None, "--leader-elect=false")
    try:
        async for lines in client.watch(PODS, namespace="default", resource_version=version):
            if any(b'"nodeName"' in line for line in lines):
                return time.monotonic() - began, cpu_of(process.popen.pid)
        raise SystemExit("the watch ended before the pod was bound")
    finally:
        process.stop()
        await client.close()


async def make_nodes(cluster: ServedCluster) -> None:
    client = connect(load_kubeconfig(cluster.kubeconfig))
    await add_nodes(client, default_nodes(3))
    await client.close()


def best(runs: int, measure: Callable[[], Times]) -> Times:
    found = [measure() for _ in range(runs)]
    return min(wall for wall, _ in found), min(cpu for _, cpu in found)


def measure(runs: int) -> dict[str, Times]:
    times = {}
    for name in ("help", "version"):
        command = bayplan_command(f"--{name}")
        times[name] = best(3 * runs, partial(until_end, command))
    times["up"] = best(runs, until_up)
    with start_embedded() as cluster:
        asyncio.run(make_nodes(cluster))
        program = [sys.executable, "-c", CONNECT, str(cluster.kubeconfig)]
        times["connecting"] = best(runs, lambda: until_end(program))
        names = iter(range(runs))
        times["scheduler"] = best(
            runs, lambda: asyncio.run(until_bound(cluster, f"first-{next(names)}"))
        )
    (wall, cpu), (less_wall, less_cpu) = times["scheduler"], times["connecting"]
    times["scheduler beyond connecting"] = wall - less_wall, cpu - less_cpu
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS.name}")
    options = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed program is compiled once
    load = round(os.getloadavg()[0], 1)
    figures: dict[str, str] = {}
    for name, (wall, cpu) in measure(options.runs).items():
        figures |= {f"{name} wall": f"{wall:.2f} s", f"{name} cpu": f"{cpu:.2f} s"}
        missed = [
            f"{got:.2f} s {what} is above {goal} s"
            for got, goal, what in zip((wall, cpu), GOALS[name], ("wall", "CPU"), strict=True)
            if got > goal
        ]
        print(f"{name:28} {wall:5.2f} s {cpu:5.2f} s CPU  {'; '.join(missed)}")
    if options.write:
        write(RESULTS, "bench/start.py", figures, runs=options.runs, load=load)


if __name__ == "__main__":
    main()
