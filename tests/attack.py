"""Faults and attacks in volume, part by part: `make attack`.

    python -m tests.attack --kills 1000 --requests 200000 --seed 1 [--only server-kills,fuzz]

Every part prints one line with its time and rate, and the last line is the verdict. What a part
said is in `--log`. A part draws from the seed, so that another run with another seed tries other
things; parts are left out by naming the others, so that a long run is done in several.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

FUZZ_EACH = 20_000  # requests of one seed


class Part(NamedTuple):
    name: str
    count: int
    unit: str
    commands: list[list[str]]
    environment: dict[str, str]


def pytest(*paths: str, mark: str = "") -> list[str]:
    chosen = ["-m", mark] if mark else []
    return [sys.executable, "-m", "pytest", "-q", "--timeout", "36000", *chosen, *paths]


def module(name: str, *words: str) -> list[str]:
    return [sys.executable, "-m", name, *words]


def parts(given: argparse.Namespace) -> Iterator[Part]:
    kills, seed = str(given.kills), {"BAYPLAN_SEED": str(given.seed)}
    server = {"BAYPLAN_KILLS": kills} | seed
    yield Part(
        "server-kills", given.kills, "kills", [pytest("tests/apiserver/test_crash.py")], server
    )
    yield Part("store-kills", given.kills, "kills", [pytest("tests/store/test_crash.py")], server)
    some = given.scheduler_kills
    high = {"BAYPLAN_SCHEDULER_KILLS": str(some)} | seed
    yield Part(
        "scheduler-kills", some, "kills", [pytest("tests/kube/test_ha.py", mark="kube")], high
    )
    fuzz = fuzzing("tests.apiserver.fuzz", given.requests, given.seed)
    yield Part("fuzz", given.requests, "requests", fuzz, {})
    yield Part("schema", 0, "requests", [module("tests.apiserver.fuzz_schema")], {})
    half = given.requests // 2
    extender = {"BAYPLAN_FUZZ_EXTENDER": str(half)} | seed
    yield Part("extender", half, "requests", [pytest("tests/extender/test_fuzz.py")], extender)
    yield Part(
        "global", half, "requests", fuzzing("tests.global_scheduler.fuzz", half, given.seed), {}
    )
    schema = pytest("tests/global_scheduler/test_fuzz.py")
    yield Part("global-schema", 0, "requests", [schema], {"BAYPLAN_FUZZ": "200"})
    load = [sys.executable, "bench/load.py"]
    yield Part("load", given.seconds, "s", [[*load, "--seconds", str(given.seconds)]], {})
    yield Part("idle", 5000, "connections", [[*load, "--idle", "5000"]], {})


def fuzzing(name: str, requests: int, seed: int) -> list[list[str]]:
    """Return commands that send so many requests, each of a seed of its own."""
    sizes = [FUZZ_EACH] * (requests // FUZZ_EACH)
    sizes += [requests % FUZZ_EACH] if requests % FUZZ_EACH else []
    return [
        module(name, "--requests", str(size), "--seed", str(seed + n))
        for n, size in enumerate(sizes)
    ]


def run(part: Part, log: Path) -> bool:
    """Run a part and tell of it; whether it held."""
    begun = time.monotonic()
    with (log / f"{part.name}.log").open("w") as said:
        held = all(
            subprocess.run(
                command, stdout=said, stderr=said, env=os.environ | part.environment, check=False
            ).returncode
            == 0
            for command in part.commands
        )
    took = time.monotonic() - begun
    rate = f", {part.count / took:.1f} a second" if part.count else ""
    verdict = "held" if held else f"BROKE, see {said.name}"
    amount = f"{part.count} {part.unit}" if part.count else "all operations"
    print(f"{part.name}: {amount} in {took:.0f} s{rate}: {verdict}", flush=True)  # noqa: T201
    return held


def main() -> None:
    parser = argparse.ArgumentParser(description="faults and attacks in volume")
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--scheduler-kills", type=int, default=300)
    parser.add_argument("--requests", type=int, default=200_000)
    parser.add_argument("--seconds", type=int, default=1800, help="of watchers and writers")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="names of parts, with commas between")
    parser.add_argument("--log", type=Path, default=Path("attack-logs"))
    given = parser.parse_args()
    known = {part.name: part for part in parts(given)}
    names = given.only.split(",") if given.only else list(known)
    if unknown := set(names) - known.keys():
        parser.error(f"no part {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    chosen = [known[name] for name in names]
    given.log.mkdir(parents=True, exist_ok=True)
    broke = [part.name for part in chosen if not run(part, given.log)]
    words = f"{', '.join(broke)} broke" if broke else "all held"
    print(f"attack, seed {given.seed}: {len(chosen)} parts: {words}")  # noqa: T201
    raise SystemExit(bool(broke))


if __name__ == "__main__":
    main()
