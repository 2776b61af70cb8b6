"""`bayplan restore`: write what `bayplan backup` copied into an etcd."""

from __future__ import annotations

from pathlib import Path

import click

from bayplan.cli import values
from bayplan.words import plural


@click.command()
@click.argument("copy", type=values.ReadFile(folder=True, path=True))
@click.option(
    "--etcd-servers",
    required=True,
    type=values.URLS,
    help="Comma-separated URLs: write the objects there.",
)
@values.etcd_files
def command(
    copy: Path,
    etcd_servers: str,
    etcd_cafile: Path | None,
    etcd_certfile: Path | None,
    etcd_keyfile: Path | None,
) -> None:
    """Write the objects in COPY, which "bayplan backup" made, into an etcd that has none.

    A copy is restored without etcd by starting a server with --data COPY.
    """
    from bayplan.store import etcd_backup
    from bayplan.store.etcd_client import tls_context

    endpoints = [each.strip() for each in etcd_servers.split(",")]
    tls = tls_context(etcd_cafile, etcd_certfile, etcd_keyfile)
    count, behind = etcd_backup.restore(copy, endpoints, tls=tls)
    if behind:
        text = "this etcd counts from below what clients have seen: start them anew, too"
        click.echo(f"warning: {text}", err=True)
    start = f"bayplan apiserver --store etcd --etcd-servers {etcd_servers} --data {copy}"
    click.echo(f"{plural(count, 'object')} restored; start with: {start}")
