"""`bayplan config`: print, check and convert the scheduler's configuration file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from bayplan.cli import values

if TYPE_CHECKING:
    from bayplan.config import FeatureGates, KubeSchedulerConfiguration


@click.group("config")
def command() -> None:
    """Print, validate and convert scheduler configuration."""


_feature_gates = values.feature_gates("Feature gates to assume.")
_emulated_version = values.emulated_version("Defaults of this version.")


@command.command("print-default")
@_feature_gates
@_emulated_version
def print_default(feature_gates: str, emulated_version: str) -> None:
    """Print the configuration that an empty file means."""
    from bayplan.api import yaml
    from bayplan.config import default_config, parse_gates, parse_version, to_data

    click.echo(
        yaml.dump(
            to_data(default_config(parse_gates(feature_gates, parse_version(emulated_version))))
        ),
        nl=False,
    )


@command.command("validate", short_help="Check a file and tell every problem of it.")
@click.argument("file", type=values.ReadFile(path=True))
@_feature_gates
@_emulated_version
@click.option(
    "--plugins",
    "modules",
    multiple=True,
    type=values.PLUGIN,
    help="A module or file with more plugins; may be given several times.",
)
@click.pass_context
def validate(
    ctx: click.Context,
    file: Path,
    feature_gates: str,
    emulated_version: str,
    modules: tuple[str, ...],
) -> None:
    """Check FILE and tell every problem of it; exit 1 if there is one.

    Beyond the values, every profile is put together: plugins must exist and fit where they are
    enabled.
    """
    from bayplan.config import InvalidConfig, load_file, parse_gates, parse_version

    gates = parse_gates(feature_gates, parse_version(emulated_version))
    try:
        loaded = load_file(file, gates)
        config, warnings = loaded.config, loaded.warnings
        problems: list[str] = []
    except InvalidConfig as invalid:
        if invalid.config is None:
            raise
        config, warnings, problems = invalid.config, invalid.warnings, list(invalid.problems)
    problems += [text for text in _build(config, gates, modules) if text not in problems]
    for text in warnings:
        click.echo(f"warning: {text}", err=True)
    if problems:
        for text in problems:
            click.echo(f"{file}: {text}", err=True)
        number = len(problems)
        click.echo(f"error: {file} has {number} problem{'s' if number > 1 else ''}", err=True)
        ctx.exit(1)
    names = ", ".join(profile.scheduler_name for profile in config.profiles)
    extenders = len(config.extenders)
    click.echo(f"{file}: valid; profiles: {names}; extenders: {extenders}")


def _build(
    config: KubeSchedulerConfiguration, gates: FeatureGates, modules: tuple[str, ...]
) -> list[str]:
    """Put every profile together, as the scheduler would; return what is wrong with each."""
    import msgspec

    from bayplan.engine.cache import Cache
    from bayplan.engine.engine import Engine
    from bayplan.errors import ConfigError
    from bayplan.scheduler.extensions import load_registry

    registry = load_registry(modules)
    problems = []
    for profile in config.profiles:
        alone = msgspec.structs.replace(config, profiles=(profile,))
        try:
            Engine.build(alone, registry, Cache(gates=gates), gates=gates)
        except ConfigError as problem:
            problems.append(str(problem))
    return problems


@command.command("convert", short_help="Print a file of any age as v1.")
@click.argument("file", type=values.ReadFile(path=True))
@_feature_gates
@_emulated_version
@click.option("--complete", is_flag=True, help="Also write every default.")
def convert(file: Path, feature_gates: str, emulated_version: str, complete: bool) -> None:
    """Print FILE, of whatever age, as kubescheduler.config.k8s.io/v1."""
    from bayplan.api import yaml
    from bayplan.config import load_file, parse_gates, parse_version, to_data
    from bayplan.config.load import read_document

    loaded = load_file(file, parse_gates(feature_gates, parse_version(emulated_version)))
    for text in loaded.warnings:
        click.echo(f"warning: {text}", err=True)
    data = to_data(loaded.config) if complete else read_document(file)
    click.echo(yaml.dump(data), nl=False)
