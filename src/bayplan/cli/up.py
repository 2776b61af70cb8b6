"""`bayplan up`: a whole cluster on this machine, until Ctrl-C.

The API server (durable, in the data directory), its controllers with simulated kubelets and the
scheduler run in this one process. The first start makes nodes; later ones find everything as
it was left. In a terminal a status line follows what happens; elsewhere start and end are told.
Changed configuration and plugin files are taken over while it runs.
"""

from __future__ import annotations

import asyncio
import shlex
import socket
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bayplan import eventloop
from bayplan.cli import values
from bayplan.errors import BayplanError
from bayplan.listening import parse_address

if TYPE_CHECKING:
    from bayplan.apiserver.serving import Settings
    from bayplan.scheduler.cluster import LocalCluster
    from bayplan.scheduler.options import Options

DEFAULT_DATA = Path("bayplan-data")
REFRESH = 0.5
NEW_NODES = 3


@click.command("up")
@click.option(
    "--nodes",
    type=click.IntRange(0, 10_000),
    help=f"Nodes of a new cluster (default: {NEW_NODES}); one that is found keeps its own.",
)
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    default=DEFAULT_DATA,
    show_default=True,
    help="Directory that keeps the cluster's state.",
)
@click.option("--config", default="", type=values.FILE, help="Scheduler configuration file.")
@click.option(
    "--bind",
    "address",
    default="127.0.0.1:8080",
    show_default=True,
    type=values.ADDRESS,
    help="Where to serve; port 0 takes a free one.",
)
@click.option(
    "--ui-bind",
    default="127.0.0.1:0",
    show_default=True,
    type=values.PAGE_OR_NONE,
    help='Where to serve the web page; "" serves none.',
)
@click.option(
    "--kubeconfig-out",
    type=values.WrittenFile(),
    help="Where to write the kubeconfig (default: in the data directory).",
)
@click.option(
    "--plugins",
    multiple=True,
    type=values.PLUGINS,
    help="Modules or files with further plugins.",
)
@click.option(
    "--controllers",
    default="*",
    show_default=True,
    type=values.CONTROLLERS,
    help="Which controllers to run.",
)
@values.authorization_mode
@values.admission_plugins
@values.emulated_version("Decide and serve as this version does; the newest by default.")
@values.feature_gates("As kube-scheduler's, such as GenericWorkload=true for pod groups.")
@click.option("-v", "--verbose", count=True, help="Tell more; twice for every detail.")
def command(
    nodes: int | None,
    data: Path,
    config: str,
    address: str,
    ui_bind: str,
    kubeconfig_out: Path | None,
    plugins: tuple[str, ...],
    controllers: str,
    authorization_mode: str | None,
    enable_admission_plugins: str,
    emulated_version: str,
    feature_gates: str,
    verbose: int,
) -> None:
    """Start a whole cluster on this machine: API server, scheduler, simulated nodes."""
    from bayplan.observe import logs

    logs.configure(2 * verbose)
    from bayplan.apiserver.serving import Settings

    host, port = parse_address(address, "--bind")
    settings = Settings(
        data=data,
        host=host,
        port=port,
        kubeconfig_out=kubeconfig_out or data / "kubeconfig",
        authorization_mode=authorization_mode or "",
        enable_admission_plugins=values.listed(enable_admission_plugins),
    )
    words = [f"--plugins={item}" for item in plugins]
    for flag, value in (
        ("config", config),
        ("emulated-version", emulated_version),
        ("feature-gates", feature_gates),
    ):
        words += [f"--{flag}={value}"] if value else []
    eventloop.run(_up(nodes, settings, words, controllers, ui_bind))


async def _up(
    nodes: int | None,
    settings: Settings,
    words: list[str],
    controllers: str,
    ui_bind: str,
) -> None:
    from bayplan.cli.fresh import FreshDirectory
    from bayplan.listening import listen_for_page
    from bayplan.scheduler.cluster import local_cluster
    from bayplan.scheduler.extensions import load_registry
    from bayplan.scheduler.flags import parse
    from bayplan.scheduler.options import load_options
    from bayplan.stopping import STORE_GRACE, stop_on_signals

    options = load_options(parse(words))
    stopped = asyncio.Event()
    with FreshDirectory(settings.data) as data:
        new = data.new
        async with local_cluster(
            settings,
            config=options.config,
            gates=options.gates,
            registry=load_registry(options.values.items("plugins")),
            controllers=controllers,
        ) as cluster:
            stop_on_signals(stopped, STORE_GRACE)
            remark = await _nodes(cluster, nodes)
            click.echo(f"{'new' if new else 'found the'} cluster in {settings.data}: {remark}")
            listener = listen_for_page(*parse_address(ui_bind, "--ui-bind")) if ui_bind else None
            click.echo(f"cluster is ready at {cluster.running.url}")
            async with _page(cluster, listener) as page:
                data.keep()
                _greet(cluster, page)
                from bayplan.supervised import end, supervised

                reload = partial(_reload_on_change, cluster, options)
                reloading = supervised("reload", reload, Counter())
                await _follow(cluster, stopped)
                await end(reloading)
            again = (
                ""
                if settings.data == DEFAULT_DATA
                else f" --data {shlex.quote(str(settings.data))}"
            )
            click.echo(f"stopping; `bayplan up{again}` finds the cluster again as it is now")


async def _nodes(cluster: LocalCluster, wanted: int | None) -> str:
    """Make the nodes of a cluster that has none; say what there is."""
    from bayplan.cli.nodes import add_nodes, count_of, default_nodes

    present = cluster.scheduler.sizes().get("nodes", 0)
    if not present:
        count = NEW_NODES if wanted is None else wanted
        await add_nodes(cluster.client, default_nodes(count))
        await _default_class(cluster)
        return f"{count_of(count)} made"
    remark = f"{count_of(present)} found"
    if wanted is not None and wanted != present:
        remark += f"; --nodes {wanted} is for a new cluster: use `bayplan nodes add` or `remove`"
    return remark


async def _default_class(cluster: LocalCluster) -> None:
    """Make the class of claims that name none, as local clusters have it."""
    from bayplan.client import AlreadyExists
    from bayplan.client.resources import STORAGE_CLASSES

    default = {"storageclass.kubernetes.io/is-default-class": "true"}
    body = {
        "metadata": {"name": "standard", "annotations": default},
        "provisioner": "bayplan.dev/simulated",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    with suppress(AlreadyExists):
        await cluster.client.create(STORAGE_CLASSES, body)


async def _reload_on_change(cluster: LocalCluster, options: Options) -> None:
    """Take over the configuration and plugin files whenever they change; keep the old if bad."""
    from bayplan.scheduler.extensions import load_registry
    from bayplan.scheduler.filewatch import FileWatch
    from bayplan.scheduler.options import load_options

    def reload() -> None:
        try:
            changed = load_options(options.values)
            registry = load_registry(changed.values.items("plugins"), again=True)
            extenders = cluster.extenders.of(changed.config)
            cluster.scheduler.reconfigure(changed.config, registry, extenders)
        except BayplanError as problem:
            _say(f"configuration refused, the old one stays: {problem}")
        else:
            _say("configuration reloaded")

    await FileWatch(options.watched_files(), reload).run()


@asynccontextmanager
async def _page(cluster: LocalCluster, listener: socket.socket | None) -> AsyncIterator[str]:
    """Serve the page of this cluster; its scheduler's queue is at hand."""
    if listener is None:
        yield ""
        return
    await asyncio.to_thread(import_module, "bayplan.page.serving")  # the API server answers already
    from bayplan.inspect import Settings
    from bayplan.page.serving import serving
    from bayplan.page.watching import queue_places, watching

    core = cluster.scheduler.core
    settings = Settings(core.config, core.gates, core.registry)
    async with watching(cluster.client, "bayplan up", settings, asks_scheduler=True) as source:
        refresh = queue_places(source.board, core.place_of)
        async with serving(source, listener=listener, refresh=refresh) as url:
            yield url


def _greet(cluster: LocalCluster, page: str) -> None:
    from bayplan.scheduler.cluster import METRICS

    kubeconfig = cluster.running.kubeconfig
    assert kubeconfig is not None
    if page:
        click.echo(f"its page is at {page}")
    click.echo(f"the scheduler's metrics are at {cluster.running.url}{METRICS}")
    click.echo(f"  export KUBECONFIG={kubeconfig.resolve()}")
    click.echo("  kubectl get nodes")
    click.echo("  kubectl create deployment web --image=nginx --replicas=5")
    click.echo("Ctrl-C stops it.")


def _say(line: str) -> None:
    """Write a line above the status line; click would write to the terminal behind its back."""
    from bayplan.observe import logs

    print(line, file=logs.STDERR, flush=True)


async def _follow(cluster: LocalCluster, stopped: asyncio.Event) -> None:
    """Wait for the end; show a status line when a person is looking."""
    if not sys.stderr.isatty():
        await stopped.wait()
        return
    from rich.console import Console
    from rich.live import Live

    with Live(console=Console(stderr=True), auto_refresh=False, transient=True) as screen:
        while not stopped.is_set():
            screen.update(_status(cluster), refresh=True)
            try:
                async with asyncio.timeout(REFRESH):
                    await stopped.wait()
            except TimeoutError:
                continue


def _status(cluster: LocalCluster) -> str:
    from bayplan.words import plural

    core = cluster.scheduler.core
    waiting = ", ".join(f"{count} {name}" for name, count in core.queue.pending().items() if count)
    return (
        f"{plural(cluster.scheduler.sizes()['nodes'], 'node')} · "
        f"{plural(core.cache.pod_count, 'pod')} placed · "
        f"waiting: {waiting or 'none'}"
    )
