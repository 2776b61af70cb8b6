"""`bayplan conformance kept`: what the engine keeps, against engines that keep nothing."""

from __future__ import annotations

import logging
import sys
import time

import click
import structlog

from bayplan.cli.progress import Progress
from bayplan.cluster.limits import Limits
from bayplan.conformance.kept import FEW, Run


@click.command(short_help="Compare an engine that keeps answers with one that does not.")
@click.option("--decisions", default=20_000, show_default=True, type=click.IntRange(min=1),
              help="How many, over all clusters.")  # fmt: skip
@click.option("--steps", default=50, type=click.IntRange(1), show_default=True,
              help="Decisions of one cluster.")  # fmt: skip
@click.option("--seed", default=1, show_default=True, help="Where events come from.")
@click.option("--roomy", is_flag=True, help="With the usual limits instead of single digits.")
def command(decisions: int, steps: int, seed: int, roomy: bool) -> None:
    """Send random events to two engines, of which one forgets everything before each decision.

    The other keeps what it can, with every limit in single digits (on every fourth cluster with the
    usual ones) and a plugin that raises now and then. Exits 0 only when they decided alike and all
    that was kept was right.
    """
    # That a plugin raised is no news here.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    asked = differing = number = 0
    progress, begun = Progress(decisions, "decisions"), time.process_time()
    while asked < decisions:
        run = Run(f"{seed}-{number}", Limits() if roomy or number % 4 == 3 else FEW)
        number += 1
        for _ in range(min(steps, decisions - asked)):
            asked += 1
            told = run.step()
            progress.step(differing)
            if told:
                differing += 1
                click.echo(f"seed {run.seed}, decision {run.decisions}: {told[:2000]}")
                break
    seconds = time.process_time() - begun
    click.echo(f"{number} clusters, {differing} differ, {asked / seconds:.0f} decisions/s CPU")
    click.echo(f"agreement: {asked - differing}/{asked}")
    sys.exit(1 if differing else 0)
