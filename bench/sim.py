"""How fast a simulated cluster runs: pods that arrive and leave over a day.

    python bench/sim.py                      # 5,000 nodes, 100,000 pods, one day, fast lane
    python bench/sim.py --nodes 100 --pods 1000 --hours 1 --lane both
    python bench/sim.py --profile            # and where the time goes
    python bench/sim.py --json docs/results/sim.json     # both lanes at all sizes of the table
    python bench/sim.py --json FILE --sizes small,backlog    # the others are told as not run
    python bench/sim.py --json FILE --fast-only day          # the faithful lane not at this size
    python bench/sim.py --json FILE --first db40141          # beside the first version's only lane

In the faithful lane everything is real but the clock: API server, controllers, kubelets' writes,
scheduler, events. The fast lane keeps pods and nodes in memory. With `both`, each runs in a process
of its own, one after the other, and the ratio is that of one machine at one time. One core is used.
Both lanes become faster, so their ratio alone tells little: `--first` runs the benchmark of another
revision, in turn with today's; db40141 is the first that could simulate, by one lane like faithful.
CPU time is what counts: the wall time is that of a machine with other work. With `--json` the
figures of `docs/reference/scenarios.md` are written, after each size anew; the day, which comes
last, takes most of its ten minutes (twenty with `--first`), nearly all outside the fast lane.
"""

import argparse
import cProfile
import gc
import io
import logging
import os
import pstats
import re
import resource
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import NamedTuple

import structlog
from figures import ROOT, write

from bayplan.sim import ScenarioClient, Settings, run_scenario
from bayplan.sim.workload import Lifetime, Workload, run_workload

SIZES = {
    "small": (3, ["--nodes", "100", "--pods", "1000", "--hours", "1"]),
    "backlog": (1, ["--nodes", "30", "--pods", "1200", "--hours", "1"]),
    "tenth": (1, ["--nodes", "500", "--pods", "10000", "--hours", "24"]),
    "day": (1, ["--nodes", "5000", "--pods", "100000", "--hours", "24"]),
}
"""What `--json` measures: how often, and with which words."""
LANES = ("first", "faithful", "fast")
SAID = re.compile(r" (\d+) pods created.*\(([\d.]+) ms a pod\).*memory (\d+)", re.DOTALL)


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
    parser.add_argument("--fast-only", default="", help="not the faithful lane of these sizes")
    parser.add_argument("--first", metavar="REV", help="a revision whose benchmark runs as well")
    args = parser.parse_args()
    if args.json:
        chosen, alone = args.sizes.split(","), args.fast_only.split(",")
        if unknown := {*chosen, *filter(None, alone)} - SIZES.keys():
            parser.error(f"no such size: {', '.join(sorted(unknown))}")
        figures = {name: text for size in SIZES for name, text in compare(size, []).items()}
        with unpacked(args.first) as first:
            for size in chosen:
                times, words = SIZES[size]
                lanes = ("first", "fast") if size in alone else LANES
                figures |= compare(size, [runs(words, first, lanes) for _ in range(times)])
                write(args.json, "bench/sim.py", figures, first=args.first)
    elif args.lane == "both":
        words = [f"--{name}={getattr(args, name)}" for name in ("nodes", "pods", "hours")]
        words += [f"--{name}={getattr(args, name)}" for name in ("lifetime", "seed", "controllers")]
        with unpacked(args.first) as first:
            runs(words + ["--profile"] * args.profile, first)
    else:
        print("took", *measure(args, args.lane))


@contextmanager
def unpacked(revision: str | None) -> Iterator[Path | None]:
    """The files of a revision in a folder of their own, if one is named."""
    if revision is None:
        yield None
        return
    command = ["git", "-C", str(ROOT), "archive", revision, "src", "bench"]
    files = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
    with TemporaryDirectory() as folder:
        with tarfile.open(fileobj=io.BytesIO(files)) as archive:
            archive.extractall(folder, filter="data")
        yield Path(folder)


def runs(
    words: list[str], first: Path | None = None, lanes: Sequence[str] = LANES
) -> dict[str, Measured]:
    """Run the lanes one after the other, each in a process of its own."""
    found = {}
    for lane in lanes:
        if lane != "first":
            said = _said([__file__, *words, "--lane", lane])
            text, _, numbers = said.rpartition("took ")
            cpu, pods, memory = numbers.split()
            found[lane] = Measured(float(cpu), int(pods), float(memory))
        elif first is not None:
            text = "first: " + _said([str(first / "bench" / "sim.py"), *words], first / "src")
            if (told := SAID.search(text)) is None:
                raise SystemExit(f"the other revision does not say what it took: {text}")
            count = int(told[1])
            found[lane] = Measured(float(told[2]) * count / 1e3, count, float(told[3]))
        else:
            continue
        print(text, end="", flush=True)
    for lane in [lane for lane in found if lane != "fast"]:
        ratio = found[lane].cpu / found["fast"].cpu
        print(f"fast lane {ratio:.1f} x as fast as {lane}", flush=True)
    return found


def _said(words: list[str], source: Path | None = None) -> str:
    """What a Python program prints; its modules come from a folder, if one is given."""
    env = os.environ if source is None else {**os.environ, "PYTHONPATH": str(source)}
    command = [sys.executable, *words]
    return subprocess.run(command, capture_output=True, text=True, check=True, env=env).stdout


def compare(size: str, runs: list[dict[str, Measured]]) -> dict[str, str]:
    """The figures of one size, medians of its runs."""
    names = (*LANES, *(f"times {lane}" for lane in LANES[:-1]), "memory")
    figures = {f"{size} {name}": "not run" for name in names}
    for lane in runs[0] if runs else ():
        cost = median(run[lane].cpu / run[lane].pods for run in runs)
        figures[f"{size} {lane}"] = f"{1e3 * cost:.2f} ms"
        if lane != "fast":
            ratio = median(run[lane].cpu / run["fast"].cpu for run in runs)
            figures[f"{size} times {lane}"] = f"{ratio:.1f}"
    if runs:
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
