"""`bayplan tune`: a search for a better scheduler configuration."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from bayplan.cli import values
from bayplan.errors import BayplanError

if TYPE_CHECKING:
    from bayplan.inspect.diff import Diff
    from bayplan.sim.study.plan import Plan
    from bayplan.sim.study.tune import Search, Trial

FILE = values.WrittenFile()


@click.command()
@click.argument("plan", type=values.ReadFile(path=True))
@click.option("--out", type=FILE, help="The winner's file; default: PLAN.best.yaml.")
@click.option("--trials", type=click.IntRange(1), help="How many; default: the plan's, else 50.")
@click.option("--jobs", type=click.IntRange(0), default=0, help="Processes; 0: one a core.")
@click.option("--dask", type=values.DASK,
              help="A Dask scheduler, e.g. tcp://host:8786.")  # fmt: skip
@click.option("--report", type=FILE, help="Write an HTML page to look at.")
@click.option("--diff/--no-diff", "compared", default=True, help="Compare with the default.")
def command(
    plan: Path,
    out: Path | None,
    trials: int | None,
    jobs: int,
    dask: str | None,
    report: Path | None,
    compared: bool,
) -> None:
    """Search weights, strategies and arguments for the best configuration.

    PLAN is that of `bayplan sweep` with one more section:

    \b
        tune:
          objectives: [pending, nodes]
          weights: {NodeResourcesFit: [0, 10], PodTopologySpread: [0, 10]}
          strategies: [LeastAllocated, MostAllocated]

    Prints the Pareto front, writes the winner as a KubeSchedulerConfiguration, and tells as
    `bayplan diff` does what it places elsewhere than the default.
    """
    import msgspec

    from bayplan.api import yaml
    from bayplan.cli.sweep import workers_of
    from bayplan.observe import logs
    from bayplan.sim.study import tune as study
    from bayplan.sim.study.plan import load_plan
    from bayplan.sim.study.space import check, read_space

    logs.configure(0)
    chosen = load_plan(plan, "Tune")
    if chosen.tune is None:
        raise BayplanError(f"{plan}: a search needs a section `tune`; see bayplan tune --help")
    space = read_space(chosen.tune, chosen.configs)
    base = chosen.configs[space.base or next(iter(chosen.configs))]
    check(space, base, chosen.versions[0], chosen.tune)
    if trials is not None:
        space = msgspec.structs.replace(space, trials=trials)
    target = out or plan.with_suffix(".best.yaml")
    search = study.tune(chosen, space, lambda: workers_of(jobs, dask), target, _told)
    if search.trials[0].error:
        raise BayplanError(f"the base configuration fails: {search.trials[0].error}")
    for line in lines(search):
        click.echo(line)
    winner = search.winner()
    target.write_text(yaml.dump(winner.document), encoding="utf-8")
    click.echo(f"wrote {target}")
    if report is not None:
        from bayplan.sim.study.report import search_page

        report.write_text(search_page(chosen, search), encoding="utf-8")
        click.echo(f"wrote {report}")
    if compared and winner.number:
        click.echo(str(_diff(chosen, base, winner, str(target))))


def _told(trial: Trial) -> None:
    said = trial.error or ", ".join(f"{value:.5g}" for value in trial.values)
    click.echo(f"trial {trial.number}: {said}", err=True)


def lines(search: Search) -> list[str]:
    """The base, and the front with what each of it changes."""
    names = ", ".join(objective.measure for objective in search.space.objectives)
    base, winner = search.trials[0], search.winner()
    found = [f"{len(search.good)} of {len(search.trials)} trials ended; objectives: {names}"]
    found.append(f"  unchanged: {_values(base)}")
    for trial in search.front():
        mark = "winner" if trial is winner else f"trial {trial.number}"
        choice = ", ".join(f"{name} {value}" for name, value in trial.choice.items())
        found.append(f"  {mark}: {_values(trial)}  {choice or 'nothing changed'}")
    return found


def _values(trial: Trial) -> str:
    return ", ".join(f"{value:.5g}" for value in trial.values)


def _diff(plan: Plan, base: dict[str, object], winner: Trial, name: str) -> Diff:
    """The first workload and seed with both configurations."""
    import msgspec

    from bayplan.config import FeatureGates, from_data
    from bayplan.inspect import Settings
    from bayplan.scheduler.extensions import load_registry
    from bayplan.sim.comparing import compare
    from bayplan.sim.study.run import script_of

    source = next(iter(plan.sources.values()))
    script = script_of(source, plan.seeds[0], plan.loads[0])
    script.settings = msgspec.structs.replace(script.settings, keep=True, seed=plan.seeds[0])
    gates = FeatureGates(version=plan.versions[0])
    registry = load_registry(list(plan.plugins))
    first, second = (
        Settings(from_data(document, gates), gates, registry, title)
        for document, title in ((base, "the base"), (winner.document, name))
    )
    return compare(script, first, second)
