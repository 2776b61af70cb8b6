"""How fast a simulated cluster runs: pods that arrive and leave over a day.

    python bench/sim.py                      # 5,000 nodes, 100,000 pods, one day, fast lane
    python bench/sim.py --nodes 100 --pods 1000 --hours 1 --lane both
    python bench/sim.py --profile            # and where the time goes

In the faithful lane everything is real but the clock: API server, controllers, kubelets' writes,
scheduler, events. The fast lane keeps pods and nodes in memory. With `both`, each runs in a process
of its own, one after the other, and the ratio is that of one machine at one time. One core is used.
CPU time is what counts: the wall time is that of a machine with other work.
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

import structlog

from bayplan.sim import ScenarioClient, Settings, run_scenario
from bayplan.sim.workload import Lifetime, Workload, run_workload


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
    args = parser.parse_args()
    if args.lane != "both":
        print(f"CPU seconds: {measure(args, args.lane):.2f}")
        return
    words = [word for word in sys.argv[1:] if word not in ("--lane", "both")]
    cpu = {}
    for lane in ("faithful", "fast"):
        command = [sys.executable, __file__, *words, "--lane", lane]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        print(said, end="")
        cpu[lane] = float(said.rpartition("CPU seconds: ")[2])
    print(f"fast lane {cpu['faithful'] / cpu['fast']:.1f} x as fast")


def measure(args: argparse.Namespace, lane: str) -> float:
    """Run one lane, print what it did, and return the CPU seconds it took."""
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
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    tracker = result.tracker
    print(
        f"{lane}: {args.nodes} nodes, {tracker.created} pods created, {tracker.bound} bound, "
        f"{tracker.ended} gone; {result.seconds / 3600:.1f} h simulated"
    )
    print(
        f"CPU {cpu:.1f} s ({1e3 * cpu / max(tracker.created, 1):.2f} ms a pod), wall {wall:.1f} s, "
        f"memory {memory:.0f} MiB"
    )
    print(f"hash {result.hash}")
    for failure in result.failures:
        print(f"FAIL {failure}")
    if args.profile:
        pstats.Stats(profile).sort_stats("tottime").print_stats(45)
    return cpu


if __name__ == "__main__":
    main()
