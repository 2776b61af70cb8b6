"""`bayplan diff`: what another configuration, plugin file or version would decide differently."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from bayplan.cli import values
from bayplan.cli._source import FORMATS, load_cluster, settings_of, show, source_options

if TYPE_CHECKING:
    from bayplan.inspect.diff import Diff


class To(NamedTuple):
    """The scheduler to compare with; what is empty stays as it is."""

    config: str
    plugins: tuple[str, ...]
    version: str


@click.command()
@source_options
@click.option("--to-config", default="", type=values.FILE,
              help="The other configuration.")  # fmt: skip
@click.option("--to-plugins", multiple=True, type=values.PLUGIN,
              help="The other plugins.")  # fmt: skip
@click.option("--to-emulated-version", "to_version", default="",
              type=values.VERSION, help="The other version.")  # fmt: skip
@click.option("--scenario", default="", type=values.SCENARIO,
              help="Two runs of a scenario instead of a cluster.")  # fmt: skip
@click.option("-o", "--output", type=click.Choice([*FORMATS, "markdown"]), default="text",
              show_default=True, help="markdown is for a merge request.")  # fmt: skip
def command(
    to_config: str, to_plugins: tuple[str, ...], to_version: str, scenario: str, output: str,
    **source: Any,
) -> None:  # fmt: skip
    """Place all pods of a cluster twice and compare: `bayplan diff --config a --to-config b`.

    Exit code 0: all pods go where they went; 1: some go elsewhere.
    """
    from bayplan.inspect.diff.text import markdown

    if not (to_config or to_plugins or to_version):
        raise click.UsageError(
            "nothing to compare with; give --to-config, --to-plugins or --to-emulated-version"
        )
    to = To(to_config, to_plugins, to_version)
    found = _runs(scenario, source, to) if scenario else _cluster(source, to)
    if output == "markdown":
        click.echo(markdown(found))
    else:
        show(found, output, lambda: str(found))
    sys.exit(0 if found.same else 1)


def _cluster(source: dict[str, Any], to: To) -> Diff:
    from bayplan.inspect.diff import diff

    cluster = load_cluster(**source)
    version = to.version or cluster.settings.gates.version
    other = settings_of(
        to.config or source["config"],
        to.plugins or source["plugins"],
        version,
        source["feature_gates"],
    )
    return diff(cluster, cluster.settings, other)


def _runs(scenario: str, source: dict[str, Any], to: To) -> Diff:
    """Compare runs; what is not given for the first is the scenario's own."""
    import msgspec

    from bayplan.cli.scenario import find
    from bayplan.config import default_config
    from bayplan.observe import logs
    from bayplan.sim.comparing import compare

    if source["sources"]:
        raise click.UsageError("--scenario and --from are two sources; give one")
    logs.configure(0)
    script = find(scenario)
    own = script.settings
    first = settings_of(
        source["config"],
        source["plugins"],
        source["emulated_version"] or own.gates.version,
        source["feature_gates"],
    )
    if not any(source[name] for name in ("config", "emulated_version", "feature_gates")):
        chosen = own.config or default_config(own.gates)
        first = msgspec.structs.replace(
            first, config=chosen, gates=own.gates, source=f"the scenario {script.name}"
        )
    if own.registry is not None and not source["plugins"]:
        first = msgspec.structs.replace(first, registry=own.registry)
    version = to.version or first.gates.version
    second = settings_of(
        to.config or source["config"], to.plugins, version, source["feature_gates"]
    )
    if not to.config and not source["config"]:
        second = msgspec.structs.replace(second, config=first.config, source=first.source)
    if not to.plugins:
        second = msgspec.structs.replace(second, registry=first.registry)
    return compare(script, first, second)
