"""`bayplan-dst`: run the whole system on virtual time, seed after seed, while everything fails."""

from __future__ import annotations

import gc
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import click

from bayplan.words import plural

TOLD_EACH = 100  # seeds, where nobody looks
GC_THRESHOLDS = (50_000, 20, 50)  # a world makes much that lives shortly


@click.command()
@click.option("--seeds", default=50, show_default=True, help="How many seeds to run.")
@click.option("--first", default=0, show_default=True, help="The first seed.")
@click.option("--jobs", default=1, show_default=True, help="How many processes run them.")
@click.option("--seconds", default=0.0, help="Begin no seed after so long; 0: run all.")
@click.option("--shrink/--no-shrink", default=True, help="Find the steps that matter.")
@click.option("--trace", is_flag=True, help="Print what happened in each seed.")
def command(seeds: int, first: int, jobs: int, seconds: float, shrink: bool, trace: bool) -> None:
    """Run seeds FIRST to FIRST+SEEDS; stop at the first that breaks what must always hold.

    Exits with 1 when one does, after printing the seed and the few steps that lead there. The last
    line says how far it came and where to go on, also after SIGINT or SIGTERM.
    """
    _prepare()
    began, changes, done = time.monotonic(), 0, 0
    with _stopped() as stopped:
        for outcome in _outcomes(range(first, first + seeds), jobs, stopped):
            seed = first + done
            changes += outcome.changes
            done += 1
            if trace:
                click.echo(f"seed {seed}: {outcome.changes} changes, {outcome.digest}")
                click.echo("\n".join(outcome.trace))
            if outcome.broken:
                _tell(seed, shrink)
                sys.exit(1)
            _progress(done, seeds)
            if stopped() or (seconds and time.monotonic() - began >= seconds):
                break
    took = time.monotonic() - began
    text = f"{plural(done, 'seed')} from {first}: nothing broke; {changes} changes, {took:.0f} s"
    click.echo(text if done == seeds else f"{text}; go on with --first {first + done}")


@contextmanager
def _stopped() -> Iterator[Callable[[], bool]]:
    """Tell whether somebody asked to stop: once lets the seed end, twice ends at once."""
    asked: list[int] = []

    def ask(number: int, _frame: object) -> None:
        asked.append(number)
        signal.signal(number, before[signal.Signals(number)])

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        signal.signal(number, ask)
    try:
        yield lambda: bool(asked)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _progress(done: int, seeds: int) -> None:
    if sys.stderr.isatty():
        click.echo(f"\r{done} of {seeds} seeds", nl=False, err=True)
    elif done % TOLD_EACH == 0:
        click.echo(f"{done} of {seeds} seeds", err=True)


def _prepare() -> None:
    import bayplan.dst.world  # noqa: F401 - what is loaded is frozen

    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)


class _Outcome(NamedTuple):
    """What can be told of a seed to another process."""

    broken: bool
    changes: int
    digest: str
    trace: list[str]


def _run(seed: int) -> _Outcome:
    from bayplan.dst.world import run

    ending = run(seed)
    return _Outcome(ending.failure is not None, ending.changes, ending.digest, ending.trace)


def _outcomes(seeds: range, jobs: int, stopped: Callable[[], bool]) -> Iterator[_Outcome]:
    """Run the seeds and return how they ended, in order."""
    if jobs <= 1:
        yield from map(_run, seeds)
        return
    from multiprocessing import TimeoutError as NotYet
    from multiprocessing import get_context

    with get_context("spawn").Pool(jobs, initializer=_prepare_worker) as pool:
        running, left = pool.imap(_run, seeds), len(seeds)
        while left and not stopped():
            try:
                yield running.next(timeout=1.0)
            except NotYet:
                continue
            left -= 1


def _prepare_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal asks every process
    _prepare()


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


if __name__ == "__main__":
    main()
