"""`bayplan bench`: benchmarks that need nothing but this package."""

import click

from bayplan.cli import bench_decide


@click.group()
def command() -> None:
    """Measure the engine."""


command.add_command(bench_decide.command, "decide")
