"""`bayplan ui`: the web page of a cluster, a dump, a scenario or a recording, until Ctrl-C."""

from __future__ import annotations

import asyncio
import shlex
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import click

from bayplan.cli import values
from bayplan.cli._source import load_cluster, settings_of, source_options

if TYPE_CHECKING:
    from bayplan.page.sources import Source

DEFAULT = "127.0.0.1:0"


@click.command("ui")
@click.argument("story", required=False, metavar="[SCENARIO|RECORDING]", type=values.SCENARIO)
@source_options
@click.option("--seed", type=int, help="Of the scenario; default: the file's.")
@click.option("--compare-seed", type=int, multiple=True, help="Run again with this seed, too.")
@click.option("--compare-config", multiple=True, type=values.FILE,
              help="Run again with this configuration, too.")  # fmt: skip
@click.option("--compare-version", multiple=True, type=values.VERSION,
              help="Run again deciding as this version of Kubernetes, too, e.g. 1.36.")  # fmt: skip
@click.option("--bind", "address", default=DEFAULT, show_default=True,
              type=values.PAGE,
              help="Where to serve; loopback only, port 0 takes a free one.")  # fmt: skip
@click.option("--open/--no-open", "browse", default=False, help="Open a browser.")
def command(
    story: str | None,
    sources: tuple[str, ...],
    kubeconfig: str,
    context: str,
    namespace: str,
    config: str,
    plugins: tuple[str, ...],
    emulated_version: str,
    feature_gates: str,
    seed: int | None,
    compare_seed: tuple[int, ...],
    compare_config: tuple[str, ...],
    compare_version: tuple[str, ...],
    address: str,
    browse: bool,
) -> None:
    """Look at a cluster: map, queue, why, what-if and time.

    Without arguments it shows the cluster of the kubeconfig, live; nothing is changed there.
    """
    from bayplan.listening import parse_address
    from bayplan.observe import logs
    from bayplan.page.sources import Picture

    logs.configure(0)
    host, port = parse_address(address, "--bind")
    source: Source | None = None
    if not story and (seed is not None or compare_seed or compare_config or compare_version):
        raise click.UsageError("--seed and --compare-… are of a scenario; name one")
    if story:
        first = (config, seed, emulated_version)
        source = _story(story, first, compare_seed, compare_config, compare_version)
    elif sources:
        where = (sources, kubeconfig, context, namespace)
        source = Picture(load_cluster(*where, config, plugins, emulated_version, feature_gates))
    settings = settings_of(config, plugins, emulated_version, feature_gates)
    flags = [
        *(("--from", name) for name in sources),
        ("--kubeconfig", kubeconfig),
        ("--context", context),
        ("--namespace", namespace),
        ("--config", config),
        *(("--plugins", name) for name in plugins),
        ("--emulated-version", emulated_version),
        ("--feature-gates", feature_gates),
    ]
    words = " ".join(f"{flag} {shlex.quote(value)}" for flag, value in flags if value)
    told = None if story else words  # a moment of a scenario has no command
    asyncio.run(_serve(source, kubeconfig, context, settings, host, port, browse, told))


def _story(
    name: str,
    first: tuple[str, int | None, str],
    seeds: tuple[int, ...],
    configs: tuple[str, ...],
    versions: tuple[str, ...],
) -> Source:
    from bayplan.config import load_file
    from bayplan.errors import ConfigError
    from bayplan.page.runs import Variant, find, played, recorded

    path = find(name)
    if path is None:
        raise ConfigError(
            f'"{name}" is no scenario or recording; see `bayplan scenario list`, or give '
            "--from for a snapshot or dump"
        )
    if path.suffix == ".jsonl":
        return recorded(path)
    config, seed, version = first
    given = load_file(config).config if config else None
    variants = [Variant("", "", seed, given, version)]
    variants += [Variant(f"seed {n}", f"seed {n}", n, given, version) for n in seeds]
    variants += [
        Variant(file, f"with {file}", seed, load_file(file).config, version) for file in configs
    ]
    variants += [Variant(f"as {v}", f"as {v}", seed, given, v) for v in versions]
    return played(path, variants)


async def _serve(
    source: Source | None,
    kubeconfig: str,
    context: str,
    settings: object,
    host: str,
    port: int,
    browse: bool,
    where: str | None,
) -> None:
    from bayplan.client import connect, load_kubeconfig
    from bayplan.inspect import Settings
    from bayplan.listening import listen_for_page
    from bayplan.page.serving import serving
    from bayplan.page.watching import watching
    from bayplan.stopping import stop_on_signals

    stopped = asyncio.Event()
    assert isinstance(settings, Settings)
    async with AsyncExitStack() as stack:
        if source is None:
            connection = load_kubeconfig(kubeconfig or None, context=context)
            client = connect(connection)
            stack.push_async_callback(client.close)
            source = await stack.enter_async_context(watching(client, connection.server, settings))
        listener = listen_for_page(host, port)
        url = await stack.enter_async_context(serving(source, listener=listener, where=where))
        stop_on_signals(stopped)
        click.echo(f"the page is at {url}")
        click.echo("Ctrl-C stops it.", err=True)
        if browse:
            click.launch(url)
        await stopped.wait()
