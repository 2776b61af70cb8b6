"""`bayplan scheduler`: takes kube-scheduler's place and understands its command line.

The flags are parsed by `scheduler.flags` and not by click, because kube-scheduler's (pflag's) forms
differ: `-v=2`, `--leader-elect=false`, unknown-here flags with a warning.
"""

from __future__ import annotations

import sys

import click

from bayplan import __version__
from bayplan.errors import ConfigError


@click.command(
    "scheduler",
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    add_help_option=False,
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def command(arguments: tuple[str, ...]) -> None:
    """Schedule pods; takes kube-scheduler's place."""
    from bayplan.config import VERSIONS
    from bayplan.scheduler.flags import check_files, parse, usage

    try:
        values = parse(arguments)
        if not (values.help or values.boolean("version")):
            check_files(values)
    except ConfigError as problem:
        raise click.UsageError(str(problem)) from problem
    if values.help:
        click.echo(usage())
        return
    if values.boolean("version"):
        click.echo(f"bayplan, version {__version__}; decides as Kubernetes {' or '.join(VERSIONS)}")
        return
    from bayplan.observe import logs
    from bayplan.scheduler.options import load_options

    options = load_options(values)
    if target := values.text("write-config-to"):
        _write_config(target, options.config)
        return
    logs.configure(
        values.integer("v"), "json" if values.text("logging-format") == "json" else "text"
    )
    from bayplan.scheduler.process import run

    sys.exit(run(options))


def _write_config(target: str, config: object) -> None:
    from pathlib import Path

    from bayplan.api import yaml
    from bayplan.config import KubeSchedulerConfiguration, to_data

    assert isinstance(config, KubeSchedulerConfiguration)
    try:
        Path(target).write_text(yaml.dump(to_data(config)))
    except OSError as problem:
        raise ConfigError(
            f'--write-config-to "{target}": {problem.strerror}; choose a writable path'
        ) from problem
