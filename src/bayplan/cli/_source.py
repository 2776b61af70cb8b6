"""Options of every command that asks a cluster: where it is read from, and how it schedules."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from bayplan.cli import values

if TYPE_CHECKING:
    from bayplan.inspect import Cluster, Settings

FORMATS = ("text", "json", "yaml")


def source_options(
    command: Callable[..., Any],
    config_help: str = "The scheduler's configuration; the defaults if not given.",
    version_help: str = "Decide as this version; the cluster's own if not given.",
) -> Callable[..., Any]:
    """Add `--from`, kubectl's own flags and `--config` to a command."""
    options = (
        click.option("--from", "sources", multiple=True, metavar="FILE", type=values.FILE_OR_FOLDER,
                     help="A snapshot, dump, manifest or folder instead of a running cluster."),
        click.option("--kubeconfig", default="", type=values.FILE, help="As kubectl's."),
        click.option("--context", default="", help="As kubectl's."),
        click.option("-n", "--namespace", default="", help="Where names are looked for."),
        click.option("--config", default="", type=values.FILE,
                     help=config_help),
        click.option("--plugins", multiple=True, type=values.PLUGIN,
                     help="Plugins from outside that the configuration names."),
        values.feature_gates("As kube-scheduler's, such as GenericWorkload=true for pod groups."),
        values.emulated_version(version_help),
    )  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


def load_cluster(
    sources: tuple[str, ...],
    kubeconfig: str,
    context: str,
    namespace: str,
    config: str,
    plugins: tuple[str, ...],
    emulated_version: str = "",
    feature_gates: str = "",
) -> Cluster:
    """The cluster that the options mean."""
    import msgspec

    from bayplan.inspect import Cluster
    from bayplan.inspect.settings import version_for

    if emulated_version or not feature_gates:  # gates hang on the version, which is to be read
        settings_of(config, plugins, emulated_version, feature_gates)  # tells what is wrong first
    if sources:
        found = Cluster.from_files(*sources)
    else:
        found = Cluster.from_kubeconfig(kubeconfig or None, context=context)
    origin = found.origin
    if namespace:
        found.check_namespace(namespace)
        origin = msgspec.structs.replace(origin, namespace=namespace)
    version = emulated_version or version_for(origin.version)
    settings = settings_of(config, plugins, version, feature_gates)
    settings = msgspec.structs.replace(settings, told=bool(emulated_version))
    return Cluster(found.objects, origin=origin, settings=settings)


def settings_of(
    config: str, plugins: tuple[str, ...], emulated_version: str = "", feature_gates: str = ""
) -> Settings:
    """A configuration file with its outside plugins."""
    import msgspec

    from bayplan.inspect import load_settings
    from bayplan.scheduler.extensions import load_registry

    registry = load_registry(plugins) if plugins else None
    found = load_settings(
        config, feature_gates=feature_gates, emulated_version=emulated_version, registry=registry
    )
    if not plugins:
        return found
    return msgspec.structs.replace(found, source=f"{found.source} with {', '.join(plugins)}")


def show(answer: Any, output: str, text: Callable[[], str]) -> None:
    """Print an answer in the form that was asked for."""
    import msgspec

    from bayplan.api import yaml

    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(answer), indent=2).decode())
    elif output == "yaml":
        click.echo(yaml.dump(msgspec.json.decode(msgspec.json.encode(answer))), nl=False)
    else:
        click.echo(text())
