"""`bayplan trace`: bring, make and play traces; reproduce a published table."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from statistics import mean, stdev
from typing import TYPE_CHECKING

import click

from bayplan.cli import values
from bayplan.words import plural

if TYPE_CHECKING:
    from bayplan.sim.traces.fgd import Allocation

FILE = values.WrittenFile()
READABLE = values.ReadFile(path=True)


@click.group("trace")
def command() -> None:
    """Bring, make and play traces of clusters."""


@command.command("import", short_help="Turn a public trace into Bayplan's format.")
@click.argument("kind", type=click.Choice(("openb", "alibaba2025", "gavel")))
@click.argument("source", type=READABLE)
@click.argument("target", type=FILE)
@click.option("--throughputs", type=READABLE, help="Gavel's simulation_throughputs.json.")
@click.option("--accelerator", default="v100", show_default=True, help="On which Gavel's jobs run.")
def import_(
    kind: str, source: Path, target: Path, throughputs: Path | None, accelerator: str
) -> None:
    """Turn a public trace that you have downloaded into Bayplan's format.

    \b
    openb        openb_pod_list_*.csv of hkust-adsl/kubernetes-scheduler-simulator
    alibaba2025  disaggregated_DLRM_trace.csv of alibaba/clusterdata
    gavel        a .trace of stanford-futuredata/gavel, with its --throughputs
    """
    from bayplan.sim.traces.alibaba2025 import read_instances
    from bayplan.sim.traces.format import write_trace
    from bayplan.sim.traces.gavel import read_jobs, read_speeds
    from bayplan.sim.traces.openb import trace_of

    if kind == "openb":
        pods = trace_of(source)
    elif kind == "alibaba2025":
        pods = read_instances(source)
    elif throughputs is None:
        raise click.UsageError("Gavel's jobs say steps, not seconds; give --throughputs")
    else:
        pods = read_jobs(source, read_speeds(throughputs, accelerator))
    click.echo(f"wrote {target}: {plural(write_trace(target, pods), 'pod')}")


@command.command("generate")
@click.argument("target", type=FILE)
@click.option(
    "--like",
    type=click.Choice(("dlrm", "gpu", "msr", "web")),
    default="web",
    show_default=True,
    help="What its pods and their times are fitted to.",
)
@click.option("--pods", type=click.IntRange(1), default=1000, show_default=True, help="How many.")
@click.option("--rate", type=values.POSITIVE, default=1.0, show_default=True, help="Pods a second.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of all chance.")
def generate_(target: Path, like: str, pods: int, rate: float, seed: int) -> None:
    """Write a trace drawn from chance."""
    from bayplan.sim.traces.format import write_trace
    from bayplan.sim.traces.generate import MODELS, generate

    number = write_trace(target, generate(MODELS[like], pods, rate, seed))
    click.echo(f"wrote {target}: {plural(number, 'pod')}")


@command.command("run")
@click.argument("trace", type=READABLE)
@click.option("--nodes", type=click.IntRange(1), required=True, help="How many.")
@click.option("--cpu", default="32", type=values.QUANTITY, show_default=True, help="Of each node.")
@click.option("--memory", default="128Gi", type=values.QUANTITY, show_default=True,
              help="Of each node.")  # fmt: skip
@click.option("--gpus", type=click.IntRange(0), default=0, help="nvidia.com/gpu of each node.")
@click.option("--config", type=READABLE, help="A KubeSchedulerConfiguration.")
@click.option("--plugins", multiple=True, type=values.PLUGIN,
              help="A file or module with plugins.")  # fmt: skip
@click.option("--seed", type=int, default=0, show_default=True, help="Of all chance.")
@click.option("--faithful", is_flag=True, help="With the whole API server; slower.")
def run_(
    trace: Path,
    nodes: int,
    cpu: str,
    memory: str,
    gpus: int,
    config: Path | None,
    plugins: tuple[str, ...],
    seed: int,
    faithful: bool,
) -> None:
    """Play a trace on equal nodes and tell how long pods waited."""
    from bayplan.config import load_file
    from bayplan.observe import logs
    from bayplan.scheduler.extensions import load_registry
    from bayplan.sim.traces.play import play_trace
    from bayplan.sim.world import Settings

    logs.configure(0)
    settings = Settings(
        seed=seed,
        config=load_file(config).config if config else None,
        registry=load_registry(list(plugins)) if plugins else None,
        faithful=faithful,
    )
    shape = {"cpu": cpu, "memory": memory, "extra": {"nvidia.com/gpu": gpus}}
    for line in play_trace(trace, nodes, shape, settings):
        click.echo(line)


def _policies() -> Iterable[str]:
    from bayplan.sim.traces.fgd import PAPER

    return PAPER


@command.command("reproduce")
@click.argument("table", type=click.Choice(("fgd",)))
@click.option(
    "--data",
    type=values.ReadFile(path=True, folder=True),
    required=True,
    help="Where the trace's CSV files are.",
)
@click.option("--policy", multiple=True, type=values.one_of("POLICY", _policies),
              help="Only this one; may be repeated.")  # fmt: skip
@click.option("--seeds", type=click.IntRange(1), default=10, show_default=True,
              help="Runs of each policy.")  # fmt: skip
@click.option("--policies", type=READABLE, help="The plugins; default: examples/policies/gpu.py.")
@click.option(
    "--order",
    type=READABLE,
    multiple=True,
    help="Pods and nodes in this order, as hack/fgd-order writes it; one file for each seed.",
)
@click.option("--results", type=FILE, help="Write every run and the table to this file, as JSON.")
def reproduce_(
    table: str,
    data: Path,
    policy: tuple[str, ...],
    seeds: int,
    policies: Path | None,
    order: tuple[Path, ...],
    results: Path | None,
) -> None:
    """Run what a paper ran and print its table beside ours."""
    from bayplan.observe import logs
    from bayplan.sim.traces import fgd

    logs.configure(0)
    chosen = policy or tuple(fgd.PAPER)
    plugins = fgd.policies_file(policies)
    orders = [fgd.read_order(path) for path in order]
    numbers = range(fgd.FIRST_SEED, fgd.FIRST_SEED + (len(orders) or seeds))
    runs = fgd.reproduce(data, numbers, chosen, plugins, _progress, orders)
    if results is not None:
        results.write_text(fgd.report(runs), encoding="utf-8")
    click.echo(f"{'policy':16}{'GPUs allocated':>16}{'deviation':>12}{'paper':>8}")
    for name in chosen:
        values = [run.percent for run in runs if run.policy == name]
        spread = stdev(values) if len(values) > 1 else 0.0
        paper = fgd.PAPER[name]
        click.echo(f"{name:16}{mean(values):>14.2f} %{spread:>12.2f}{paper:>8.2f}")


def _progress(run: Allocation) -> None:
    click.echo(f"{run.policy} seed {run.seed}: {run.percent:.2f} %", err=True)
