"""`bayplan pack`: how few nodes would do, with proof; what pending pods need; the moves."""

from __future__ import annotations

import signal
import sys
import threading
from typing import TYPE_CHECKING, Any

import click

from bayplan.cli import values
from bayplan.cli._source import FORMATS, load_cluster, show, source_options

if TYPE_CHECKING:
    from bayplan.inspect.pack import Packing
    from bayplan.inspect.pack.ask import Asking
    from bayplan.pack.search import Progress


def _price(text: str) -> None:
    from bayplan.inspect.pack.pricing import Prices

    Prices((text,))


PRICE = values.Checked("KEY=VALUE=COST", _price)


@click.command()
@source_options
@click.option("--seconds", type=click.FloatRange(min=0.1), default=10.0, show_default=True,
              help="Search so long; Ctrl-C ends it sooner and keeps the best.")  # fmt: skip
@click.option("--price", "prices", multiple=True, type=PRICE,
              help="Least cost, not fewest nodes; COST alone is for all other nodes.")  # fmt: skip
@click.option(
    "--keep",
    default="",
    type=values.SELECTOR,
    help="Pods with these labels stay.",
)
@click.option("--force", is_flag=True, help="Also move pods without an owner.")
@click.option("--plan", "plan", is_flag=True, help="Also give the moves, in an order that works.")
@click.option("--max-moves", type=click.IntRange(min=0), help="Move at most so many pods.")
@click.option("-o", "--output", type=click.Choice([*FORMATS, "commands"]), default="text",
              show_default=True, help="commands: the plan for a shell.")  # fmt: skip
def command(
    seconds: float, prices: tuple[str, ...], keep: str, force: bool, plan: bool,
    max_moves: int | None, output: str, **source: Any,
) -> None:  # fmt: skip
    """Tell how few nodes would do, with a proof: `bayplan pack --plan`.

    Reads only; the plan is a list, JSON or commands, which nobody carries out but you. Exit code 1:
    some pending pod or gang is proven to have no place.
    """
    from bayplan.inspect.pack import Wishes
    from bayplan.inspect.pack.ask import Asking
    from bayplan.pack.solver import solver

    solver("sat.python.cp_model")  # told before a cluster is read
    cluster = load_cluster(**source)
    wishes = Wishes(
        seconds=seconds, prices=prices, keep=keep, force=force,
        max_moves=-1 if max_moves is None else max_moves,
        plan=plan or max_moves is not None or output == "commands",
    )  # fmt: skip
    found = _ask(Asking(cluster, wishes, _progress if sys.stderr.isatty() else None))
    if output == "commands":
        assert found.plan is not None
        click.echo("\n".join(found.plan.commands()))
    else:
        show(found, output, lambda: str(found))
    sys.exit(1 if any(item.answer == "impossible" for item in found.pending) else 0)


def _ask(asking: Asking) -> Packing:
    """Ask in a thread, so that Ctrl-C reaches the search and not the solver."""
    answers: list[Packing] = []
    problems: list[BaseException] = []
    done = threading.Event()

    def work() -> None:
        try:
            answers.append(asking.run())
        except BaseException as problem:  # told in the thread that waits
            problems.append(problem)
        finally:
            done.set()

    def pressed(*_: object) -> None:
        if asking.stopped:
            raise KeyboardInterrupt
        asking.stop()

    before = signal.signal(signal.SIGINT, pressed)
    try:
        threading.Thread(target=work, name="pack", daemon=True).start()
        while not done.wait(0.2):
            pass
    finally:
        signal.signal(signal.SIGINT, before)
    if sys.stderr.isatty():
        click.echo("\r\x1b[K", nl=False, err=True)
    if problems:
        raise problems[0]
    return answers[0]


def _progress(told: Progress) -> None:
    best = "-" if told.best < 0 else f"{told.best:,}"
    line = f"{told.seconds:6.1f} s  proven least {told.bound:,}  best {best}  ({told.doing})"
    click.echo(f"\r\x1b[K{line}", nl=False, err=True)
