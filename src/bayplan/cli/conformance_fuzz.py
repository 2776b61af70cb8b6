"""`bayplan conformance fuzz`: random cases, asked of the real scheduler and of the engine."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar

import click

from bayplan.cli import values
from bayplan.cli.progress import Progress
from bayplan.config import FeatureGates, parse_version
from bayplan.conformance import fuzz, run
from bayplan.conformance.oracle import Oracle
from bayplan.conformance.sequence import Sequence
from bayplan.errors import BayplanError
from bayplan.testing.cases import FAMILIES, run_case

MOST_SHRUNK = 20
"""Differences that are shrunk and written; more are only counted."""


FAMILY = values.one_of("FAMILY", lambda: sorted(FAMILIES))


def chosen_families(family: tuple[str, ...]) -> list[str]:
    """The families asked for, or all."""
    return sorted(family or FAMILIES)


T = TypeVar("T")


def _limited(cases: Iterable[T], seconds: float) -> Iterator[T]:
    """Cases until the time is over, at least one; 0 means all of them."""
    end = time.monotonic() + seconds
    for number, case in enumerate(cases):
        if seconds and number and time.monotonic() > end:
            return
        yield case


@click.command(short_help="Ask the real scheduler and the engine about random cases.")
@click.option(
    "--oracle",
    "program",
    default="",
    type=values.FILE,
    help="The program that `make oracle` builds.",
)
@click.option(
    "--cases",
    "count",
    default=1000,
    type=values.COUNT,
    show_default=True,
    help="How many cases to compare.",
)
@click.option("--seed", default=1, show_default=True, help="Where the cases come from.")
@click.option(
    "--family", multiple=True, type=FAMILY, help="Only this family of cases; may be repeated."
)
@click.option("--sequences", default=0, type=values.COUNT,
              help="Compare so many sequences of changes instead.")  # fmt: skip
@click.option("--runs", default=0, type=values.COUNT,
              help="Compare so many runs over all waiting pods instead.")  # fmt: skip
@click.option(
    "--live",
    default=0,
    type=values.COUNT,
    help="Play so many lives of a cluster on the real programs (`make kube-assets`) instead.",
)
@click.option("--steps", default=50, type=values.COUNT, show_default=True,
              help="Decisions of a sequence.")  # fmt: skip
@click.option("--first", default=0, type=values.COUNT,
              help="The number of the first sequence or run.")  # fmt: skip
@click.option(
    "--seconds", default=0.0, type=values.SECONDS, help="Begin nothing more after this time."
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("fuzz-differences"),
    show_default=True,
    help="Where differing cases are written.",
)
def command(
    program: str,
    count: int,
    seed: int,
    family: tuple[str, ...],
    sequences: int,
    runs: int,
    live: int,
    steps: int,
    first: int,
    seconds: float,
    out: Path,
) -> None:
    """Draw random cases and ask both the real scheduler and the engine.

    A difference is made small and written as a file that `conformance decisions` replays. Exits 0
    only when no difference was found that is not listed with a reason.
    """
    if live:
        sys.exit(_play_lives(live, seed))
    if not program:
        raise click.UsageError("--oracle is missing; `make oracle` builds one and prints its path")
    families = chosen_families(family)
    with Oracle(program) as oracle:
        version = oracle.describe()["version"]
        click.echo(f"oracle {version}, seed {seed}, {len(families)} families")
        gates = FeatureGates(version=parse_version(fuzz.minor(version)))
        if sequences:
            names = [f"{seed}-{first + number}" for number in range(sequences)]
            sys.exit(_run_sequences(oracle, gates, version, names, steps, seconds, out))
        if runs:
            names = [f"{seed}-{first + number}" for number in range(runs)]
            sys.exit(_run_all(oracle, gates, version, names, seconds, out))
        fuzzer = fuzz.Fuzzer(oracle, gates)
        progress = Progress(count)
        for case in _limited(fuzz.cases(families, seed, count), seconds):
            found = fuzzer.check(case)
            if found is not None:
                _show(fuzzer, found, gates.version, out)
            progress.step(fuzzer.tally.differing.total())
    _verdict(fuzzer.tally, progress, version, seed)
    sys.exit(1 if fuzzer.tally.differing else 0)


def _run_sequences(
    oracle: Oracle,
    gates: FeatureGates,
    version: str,
    names: list[str],
    steps: int,
    seconds: float,
    out: Path,
) -> int:
    """Run sequences to their end or first difference; the exit code."""
    progress, begun, differing = Progress(len(names) * steps), 0, 0
    for name in _limited(names, seconds):
        begun += 1
        kept = Sequence(oracle, gates, name)
        for _ in range(steps):
            found = kept.step()
            progress.step(differing)
            if found is not None:
                differing += 1
                _tell(found, gates.version, out)
                break
    click.echo(
        f"{version} seed {_seed(names)}: {begun - differing}/{begun} sequences agree, "
        f"{progress.count} decisions, {progress.rate:.0f}/s"
    )
    return 1 if differing else 0


def _run_all(
    oracle: Oracle,
    gates: FeatureGates,
    version: str,
    names: list[str],
    seconds: float,
    out: Path,
) -> int:
    """Let both schedulers run over clusters with pod groups; the exit code."""
    progress, differing = Progress(len(names)), 0
    modern = gates.since("1.37")
    for name in _limited(names, seconds):
        found = run.check(oracle, gates, run_case(name, modern=modern))
        if found is not None:
            differing += 1
            _tell(found, gates.version, out)
        progress.step(differing)
    agreeing = f"{progress.count - differing}/{progress.count} runs agree"
    click.echo(f"{version} seed {_seed(names)}: {agreeing}, {progress.rate:.0f}/s")
    return 1 if differing else 0


def _seed(names: list[str]) -> str:
    """The seed of names such as `7-0`, `7-1`; with the first number if that is not 0."""
    seed, _, first = names[0].rpartition("-")
    return seed if first == "0" else f"{seed} from {first}"


def _play_lives(count: int, seed: int) -> int:
    """Play lives on the real API server with both schedulers; the exit code."""
    from bayplan.conformance.live import Stage, compare
    from bayplan.testing.servers import kube_assets, kube_version, start_kube

    if kube_assets() is None:
        raise BayplanError("--live: the real programs are not built; run `make kube-assets`")
    version = kube_version()
    with start_kube() as cluster:
        stage = Stage(cluster, fuzz.minor(version))
        try:
            found = compare(stage, [f"{seed}-{number}" for number in range(count)])
        finally:
            stage.stop()
    differing = {name: each.lines for name, each in found.items() if each.lines and not each.drawn}
    for name, lines in differing.items():
        click.echo(f"life {name} differs:")
        for line in lines[:6]:
            click.echo(f"  {line}")
    drawn = sum(each.drawn for each in found.values())
    told = f", {drawn} of them only as often as the real one with itself" if drawn else ""
    click.echo(f"{version} seed {seed}: {count - len(differing)}/{count} lives agree{told}")
    return 1 if differing else 0


def _tell(found: fuzz.Difference, version: str, out: Path) -> None:
    click.echo(f"{found.case['id']} differs, written to {fuzz.write(found, version, out)}:")
    for line in found.lines[:6]:
        click.echo(f"  {line}")


def _show(fuzzer: fuzz.Fuzzer, found: fuzz.Difference, version: str, out: Path) -> None:
    if fuzzer.tally.differing.total() > MOST_SHRUNK:
        return
    _tell(fuzzer.shrunk(found), version, out)


def _verdict(tally: fuzz.Tally, progress: Progress, version: str, seed: int) -> None:
    for family in sorted(tally.compared):
        differing = tally.differing[family]
        click.echo(f"{family:<16} {tally.compared[family] - differing:>6}/{tally.compared[family]}")
    for reason, times in sorted(tally.known.items()):
        click.echo(f"known: {reason}: {times}")
    if tally.refused:
        click.echo(f"left out, as {version} refuses them: {tally.refused.total()}")
    total, differing = tally.compared.total(), tally.differing.total()
    click.echo(
        f"{version} seed {seed}: {total - differing}/{total} agree, {progress.rate:.0f} cases/s"
    )
