"""`bayplan sweep`: many runs by a plan, on this machine or on a Dask cluster."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bayplan.cli import values
from bayplan.words import plural, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bayplan.sim.study.plan import Task
    from bayplan.sim.study.results import Row
    from bayplan.sim.study.run import Outcome
    from bayplan.sim.study.sweep import Workers

FILE = values.WrittenFile()
SHOWN = ("pending", "unbound", "evicted", "nodes", "cpu", "fragmentation", "spread")
EVERY = 5.0


@click.command()
@click.argument("plan", type=values.ReadFile(path=True))
@click.option("--out", type=FILE, help="A .csv or .parquet file; default: PLAN.csv.")
@click.option("--jobs", type=click.IntRange(0), default=0, help="Processes; 0: one a core.")
@click.option("--dask", type=values.DASK,
              help="A Dask scheduler, e.g. tcp://host:8786.")  # fmt: skip
@click.option("--ablate", metavar="CONFIG", help="Also run this one without each of its plugins.")
@click.option("--report", type=FILE, help="Write an HTML page to look at.")
@click.option("--dry-run", is_flag=True, help="Only tell what would run.")
def command(
    plan: Path,
    out: Path | None,
    jobs: int,
    dask: str | None,
    ablate: str | None,
    report: Path | None,
    dry_run: bool,
) -> None:
    """Run configurations × workloads × seeds × loads × versions and compare them.

    PLAN is a YAML file:

    \b
        kind: Sweep
        configs: {default: , pack: pack.yaml}
        workloads:
          - {like: gpu, pods: 500, rate: 0.5,
             nodes: {count: 20, cpu: 96, memory: 512Gi}}
        seeds: {count: 10}

    One row a run goes to the results. A sweep that was ended goes on when it is started again:
    finished runs are kept beside the results (OUT.runs.jsonl). Exit 1 if a run failed.
    """
    from bayplan.observe import logs
    from bayplan.sim.study import ablation
    from bayplan.sim.study.plan import load_plan
    from bayplan.sim.study.report import report_page
    from bayplan.sim.study.sweep import sweep

    logs.configure(0)
    chosen = load_plan(plan)
    if chosen.tune is not None:
        click.echo(f"{plan}: its section `tune` is for bayplan tune; not used here", err=True)
    if ablate is not None:
        chosen = ablation.without_each(chosen, ablate)
    target = out or plan.with_suffix(".csv")
    if target.suffix not in (".csv", ".parquet"):
        raise click.UsageError(f"--out {target} must end in .csv or .parquet")
    if dry_run:
        for task in chosen.tasks():
            click.echo(task.title)
        return
    found, outcomes = sweep(chosen, lambda: workers_of(jobs, dask), target, Progress())
    for line in summary(found):
        click.echo(line)
    if ablate is not None:
        for line in ablation.lines(found, ablate):
            click.echo(line)
    if report is not None:
        report.write_text(report_page(chosen, found, outcomes, ablate), encoding="utf-8")
        click.echo(f"wrote {report}")
    failed = [row for row in found if row["error"]]
    click.echo(f"wrote {target}: {plural(len(found), 'run')}, {len(failed)} failed")
    if failed:
        raise SystemExit(1)


def workers_of(jobs: int, dask: str | None) -> Workers:
    """Where runs go."""
    from bayplan.sim.study.workers import Dask, Local

    return Dask(dask) if dask else Local(jobs)


def summary(found: Sequence[Row]) -> list[str]:
    """Means over seeds, with half of their 95 % confidence intervals."""
    from bayplan.sim.study.results import by_point, estimate, values

    head = ["config", "workload", "load", "version", "runs", *SHOWN]
    lines = []
    for point, runs in by_point(found).items():
        good = [row for row in runs if not row["error"]]
        cells = [str(estimate(values(good, name))) if good else "-" for name in SHOWN]
        lines.append([point[0], point[1], f"{point[2]:g}", point[3], str(len(good)), *cells])
    return list(table(head, lines, indent="", gap=2))


class Progress:
    """Says on stderr how far a sweep is, when it will end, and which runs failed."""

    def __init__(self) -> None:
        self._begin = self._said = time.monotonic()
        self._first: int | None = None
        self._failed = 0

    def __call__(self, done: int, of: int, task: Task, outcome: Outcome) -> None:
        if outcome.error:
            self._failed += 1
            click.echo(f"\rfailed: {task.title}: {outcome.error}", err=True)
        if self._first is None:
            self._first = done - 1
        now, live = time.monotonic(), sys.stderr.isatty()
        if now - self._said < (0.2 if live else EVERY) and done < of:
            return
        self._said = now
        each = (now - self._begin) / (done - self._first)
        text = f"{done}/{of} runs, {self._failed} failed, about {each * (of - done):.0f} s left"
        bar = "#" * (20 * done // of)
        click.echo(f"\r[{bar:20}] {text}  " if live else text, nl=not live or done == of, err=True)
