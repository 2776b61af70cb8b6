"""`bayplan inspect serve`: questions about a cluster over HTTP, for pages and programs."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING, Any

import click

from bayplan.cli._source import load_cluster, source_options

if TYPE_CHECKING:
    from bayplan.inspect import Cluster


@click.group()
def command() -> None:
    """Serve questions about a cluster."""


@command.command()
@source_options
@click.option("--bind", "address", default="127.0.0.1:0", show_default=True, metavar="HOST:PORT",
              help="Where to listen; port 0 takes a free one.")  # fmt: skip
@click.option("--token", default="", envvar="BAYPLAN_TOKEN", help="Made up and printed if unset.")
def serve(address: str, token: str, **source: Any) -> None:
    """Answer `/inspect/v1/why?pod=ns/name`, `/pending`, `/cluster`, `/openapi.json`."""
    from bayplan.client import load_kubeconfig
    from bayplan.listening import parse_address

    host, port = parse_address(address, "--bind")
    if source["sources"]:
        asyncio.run(_serve(host, port, token, source, load_cluster(**source)))
    else:
        load_kubeconfig(source["kubeconfig"] or None, context=source["context"])  # tells now
        asyncio.run(_serve(host, port, token, source, None))


async def _serve(
    host: str, port: int, token: str, source: dict[str, Any], known: Cluster | None
) -> None:
    """Serve until told to end; `known` is that of files, which do not change under us."""
    from bayplan.inspect.http import Questions
    from bayplan.inspect.paths import PREFIX
    from bayplan.inspect.serving import InspectServer

    async def load() -> Cluster:
        if known is not None:
            return known
        return await asyncio.to_thread(load_cluster, **source)

    age = 5.0 if known is None else float("inf")
    server = InspectServer(Questions(load, max_age=age), token)
    await server.start(host, port)
    click.echo(f"http://{host}:{server.port}{PREFIX}cluster?token={server.token}")
    click.echo("Ctrl-C stops it.", err=True)
    try:
        await _stopped()
    finally:
        await server.stop()


async def _stopped() -> None:
    """Return at Ctrl-C or SIGTERM."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    await stop.wait()
