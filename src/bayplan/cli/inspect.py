"""`bayplan inspect serve`: questions about a cluster over HTTP, for pages and programs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import click

from bayplan.cli import values
from bayplan.cli._source import load_cluster, source_options

if TYPE_CHECKING:
    from bayplan.inspect import Cluster


@click.group()
def command() -> None:
    """Serve questions about a cluster."""


@command.command(short_help="Answer questions over HTTP.")
@source_options
@click.option("--bind", "address", default="127.0.0.1:0", show_default=True,
              type=values.ADDRESS, help="Where to listen; port 0 takes a free one.")  # fmt: skip
@click.option("--token", default="", envvar="BAYPLAN_TOKEN", help="Made up and printed if unset.")
def serve(address: str, token: str, **source: Any) -> None:
    """Answer `/inspect/v1/why?pod=ns/name`, `whatif`, `capacity`, `diff`, `pending`, `cluster`.

    `/inspect/v1/openapi.json` describes questions and answers.
    """
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
    from bayplan.inspect import PREFIX
    from bayplan.inspect.http import Questions
    from bayplan.inspect.serving import InspectServer
    from bayplan.stopping import stop_on_signals

    async def load() -> Cluster:
        if known is not None:
            return known
        return await asyncio.to_thread(load_cluster, **source)

    age = 5.0 if known is None else float("inf")
    stopped = asyncio.Event()
    stop_on_signals(stopped)
    server = InspectServer(Questions(load, max_age=age), token)
    await server.start(host, port)
    click.echo(f"http://{host}:{server.port}{PREFIX}cluster?token={server.token}")
    click.echo("Ctrl-C stops it.", err=True)
    try:
        await stopped.wait()
    finally:
        await server.stop()
