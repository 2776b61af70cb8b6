"""`bayplan-dst`: run the whole system on virtual time, seed after seed, while everything fails."""

from __future__ import annotations

import sys
import time

import click


@click.command()
@click.option("--seeds", default=50, show_default=True, help="How many seeds to run.")
@click.option("--first", default=0, show_default=True, help="The first seed.")
@click.option("--shrink/--no-shrink", default=True, help="Find the steps that matter.")
@click.option("--trace", is_flag=True, help="Print what happened in each seed.")
def command(seeds: int, first: int, shrink: bool, trace: bool) -> None:
    """Run seeds FIRST to FIRST+SEEDS; stop at the first that breaks what must always hold.

    Exits with 1 when one does, after printing the seed and the few steps that lead there.
    """
    import logging

    import structlog

    from bayplan.dst.world import run

    quiet = structlog.make_filtering_bound_logger(logging.CRITICAL)
    structlog.configure(wrapper_class=quiet)
    began, changes = time.process_time(), 0
    for seed in range(first, first + seeds):
        outcome = run(seed)
        changes += outcome.changes
        if trace:
            click.echo(f"seed {seed}: {outcome.changes} changes, {outcome.digest}")
            click.echo("\n".join(outcome.trace))
        if outcome.failure is not None:
            _tell(seed, shrink)
            sys.exit(1)
        if sys.stderr.isatty():
            click.echo(f"\r{seed + 1 - first} of {seeds} seeds", nl=False, err=True)
    took = time.process_time() - began
    click.echo(f"{seeds} seeds from {first}: nothing broke; {changes} changes, {took:.0f} s CPU")


def _tell(seed: int, shrinking: bool) -> None:
    from bayplan.dst.plan import plan
    from bayplan.dst.shrink import shrink
    from bayplan.dst.world import run

    whole = run(seed)
    click.echo(f"\nseed {seed} fails: {whole.failure}")
    steps = plan(seed)
    if shrinking:
        click.echo(f"looking for the steps that matter, of {len(steps)}")
        steps = shrink(steps, lambda fewer: run(seed, fewer).invariant == whole.invariant)
        last = run(seed, steps)
        click.echo("\n".join([*last.trace, f"        {last.failure}"]))
    else:
        click.echo("\n".join(whole.trace))
    click.echo(f"again: bayplan-dst --first {seed} --seeds 1")


def main() -> None:
    """The entry point."""
    command(standalone_mode=True)
