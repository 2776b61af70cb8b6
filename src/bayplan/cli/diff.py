"""`bayplan diff`: what another configuration, plugin file or version would decide differently."""

from __future__ import annotations

import sys
from typing import Any

import click

from bayplan.cli._source import FORMATS, load_cluster, settings_of, show, source_options


@click.command()
@source_options
@click.option("--to-config", default="", metavar="FILE", help="The other configuration.")
@click.option("--to-plugins", multiple=True, metavar="MODULE|FILE.py", help="The other plugins.")
@click.option("--to-emulated-version", "to_version", default="", metavar="1.36|1.37",
              help="The other version.")  # fmt: skip
@click.option("-o", "--output", type=click.Choice([*FORMATS, "markdown"]), default="text",
              show_default=True, help="markdown is for a merge request.")  # fmt: skip
def command(
    to_config: str, to_plugins: tuple[str, ...], to_version: str, output: str, **source: Any
) -> None:
    """Place all pods of a cluster twice and compare: `bayplan diff --config a --to-config b`.

    Exit code 0: all pods go where they went; 1: some go elsewhere.
    """
    from bayplan.inspect.diff import diff
    from bayplan.inspect.diff.text import markdown

    if not (to_config or to_plugins or to_version):
        raise click.UsageError(
            "nothing to compare with; give --to-config, --to-plugins or --to-emulated-version"
        )
    cluster = load_cluster(**source)
    version = to_version or cluster.settings.gates.version
    plugins = to_plugins or source["plugins"]
    other = settings_of(to_config or source["config"], plugins, version)
    found = diff(cluster, cluster.settings, other)
    if output == "markdown":
        click.echo(markdown(found))
    else:
        show(found, output, lambda: str(found))
    sys.exit(0 if found.same else 1)
