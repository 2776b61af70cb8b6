"""How fast a simulated cluster runs: pods that arrive and leave over a day.

    python bench/sim.py                      # 5,000 nodes, 100,000 pods, one day, fast lane
    python bench/sim.py --nodes 100 --pods 1000 --hours 1 --lane both
    python bench/sim.py --profile            # and where the time goes
    python bench/sim.py --json docs/results/sim.json     # both lanes at all sizes of the table
    python bench/sim.py --json FILE --sizes small,backlog    # the others are told as not run
    python bench/sim.py --json FILE --fast-only day          # the faithful lane not at this size

In the faithful lane everything is real but the clock: API server, controllers, kubelets' writes,
scheduler, events. The fast lane keeps pods and nodes in memory. With `both`, each runs in a process
of its own, one after the other, and the ratio is that of one machine at one time. One core is used.
CPU time is what counts: the wall time is that of a machine with other work. With `--json` the
figures of `docs/reference/scenarios.md` are written, after each size anew; the day, which comes
last, takes most of its ten minutes, nearly all in the faithful lane.
"""

import argparse
import cProfile
import gc
import logging
import pstats
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

import structlog
from figures import write

from bayplan.sim import ScenarioClient, Settings, run_scenario
from bayplan.sim.workload import Lifetime, Workload, run_workload

SIZES = {
    "small": (3, ["--nodes", "100", "--pods", "1000", "--hours", "1"]),
    "backlog": (1, ["--nodes", "30", "--pods", "1200", "--hours", "1"]),
    "tenth": (1, ["--nodes", "500", "--pods", "10000", "--hours", "24"]),
    "day": (1, ["--nodes", "5000", "--pods", "100000", "--hours", "24"]),
}
"""What `--json` measures: how often, and with which words."""
LANES = ("faithful", "fast")


class Measured(NamedTuple):
    """What one run took."""

    cpu: float
    """Seconds."""
    pods: int
    memory: float
    """The most, in MB."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=100_000)
    parser.add_argument("--hours", type=float, default=24.0)
    parser.add_argument("--lifetime", type=float, default=2.0, help="mean, in hours")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--controllers", default="*", help="which run beside the scheduler")
    parser.add_argument("--lane", choices=("fast", "faithful", "both"), default="fast")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--json", type=Path, help="measure all sizes, write them to this file")
    parser.add_argument("--sizes", default=",".join(SIZES), help="which --json measures")
    parser.add_argument("--fast-only", default="", help="of these sizes only the fast lane")
    args = parser.parse_args()
    if args.json:
        chosen, alone = args.sizes.split(","), args.fast_only.split(",")
        if unknown := {*chosen, *filter(None, alone)} - SIZES.keys():
            parser.error(f"no such size: {', '.join(sorted(unknown))}")
        figures = {name: text for size in SIZES for name, text in compare(size, []).items()}
        for size in chosen:
            times, words = SIZES[size]
            lanes = ("fast",) if size in alone else LANES
            figures |= compare(size, [runs(words, lanes) for _ in range(times)])
            write(args.json, "bench/sim.py", figures)
    elif args.lane == "both":
        runs([word for word in sys.argv[1:] if word not in ("--lane", "both")])
    else:
        print("took", *measure(args, args.lane))


def runs(words: list[str], lanes: Sequence[str] = LANES) -> dict[str, Measured]:
    """Run the faithful lane and then the fast one, each in a process of its own."""
    found = {}
    for lane in lanes:
        command = [sys.executable, __file__, *words, "--lane", lane]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        text, _, numbers = said.rpartition("took ")
        print(text, end="", flush=True)
        cpu, pods, memory = numbers.split()
        found[lane] = Measured(float(cpu), int(pods), float(memory))
    if len(found) == len(LANES):
        ratio = found["faithful"].cpu / found["fast"].cpu
        print(f"fast lane {ratio:.1f} x as fast", flush=True)
    return found


def compare(size: str, runs: list[dict[str, Measured]]) -> dict[str, str]:
    """The figures of one size, medians of its runs."""
    names = ("faithful", "fast", "ratio", "memory")
    figures = {f"{size} {name}": "not run" for name in names}
    lanes = [lane for lane in LANES if runs and lane in runs[0]]
    for lane in lanes:
        cost = median(run[lane].cpu / run[lane].pods for run in runs)
        figures[f"{size} {lane}"] = f"{1e3 * cost:.2f} ms"
    if len(lanes) == len(LANES):
        ratio = median(run["faithful"].cpu / run["fast"].cpu for run in runs)
        figures[f"{size} ratio"] = f"{ratio:.1f}"
    if lanes:
        figures[f"{size} memory"] = f"{max(run['fast'].memory for run in runs):.0f} MB"
    return figures


def measure(args: argparse.Namespace, lane: str) -> Measured:
    """Run one lane, print what it did, and return what it took."""
    quiet = structlog.make_filtering_bound_logger(logging.ERROR)
    structlog.configure(wrapper_class=quiet)
    work = Workload(
        name="pod",
        shape={"cpu": "500m", "memory": "1Gi", "labels": {"app": "bench"}},
        rate=args.pods / (args.hours * 3600.0),
        count=args.pods,
        lifetime=Lifetime("exponential", args.lifetime * 3600.0),
    )

    async def scenario(client: ScenarioClient) -> None:
        await client.nodes(args.nodes, zones=["a", "b", "c"], cpu="8", memory="32Gi")
        await run_workload(client, work)
        await client.sleep(60)

    gc.set_threshold(50_000, 50, 100)
    profile = cProfile.Profile()
    wall, cpu = time.perf_counter(), time.process_time()
    if args.profile:
        profile.enable()
    settings = Settings(keep=False, controllers=args.controllers, faithful=lane == "faithful")
    result = run_scenario(scenario, seed=args.seed, settings=settings, limit=30 * 86400.0)
    profile.disable()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    tracker = result.tracker
    print(
        f"{lane}: {args.nodes} nodes, {tracker.created} pods created, {tracker.bound} bound, "
        f"{tracker.ended} gone; {result.seconds / 3600:.1f} h simulated"
    )
    print(
        f"CPU {cpu:.1f} s ({1e3 * cpu / max(tracker.created, 1):.2f} ms a pod), wall {wall:.1f} s, "
        f"memory {memory:.0f} MB"
    )
    print(f"hash {result.hash}")
    for failure in result.failures:
        print(f"FAIL {failure}")
    if args.profile:
        pstats.Stats(profile).sort_stats("tottime").print_stats(45)
    return Measured(cpu, max(tracker.created, 1), memory)


if __name__ == "__main__":
    main()
