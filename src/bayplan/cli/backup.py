"""`bayplan backup`: copy the data directory of an API server, also while it runs."""

from __future__ import annotations

from pathlib import Path

import click

from bayplan.cli import values
from bayplan.words import plural


@click.command()
@click.argument("data", type=values.ReadFile(folder=True, path=True))
@click.argument("target", type=click.Path(path_type=Path, file_okay=False))
@click.option("--salvage", is_flag=True, help="DATA is damaged: copy what can still be read.")
@click.option(
    "--etcd-servers",
    default="",
    type=values.URLS,
    help="Comma-separated URLs: copy the objects that servers keep there.",
)
@values.etcd_files
def command(
    data: Path,
    target: Path,
    salvage: bool,
    etcd_servers: str,
    etcd_cafile: Path | None,
    etcd_certfile: Path | None,
    etcd_keyfile: Path | None,
) -> None:
    """Copy the store in DATA into the new directory TARGET, with its tokens, keys and certificates.

    To restore, start a server with --data TARGET; into an etcd: bayplan restore.
    """
    from bayplan import private
    from bayplan.apiserver.serving import KEY_NAME, TOKEN_NAME

    if salvage and etcd_servers:
        raise click.UsageError("--salvage is for a store in DATA, not for --etcd-servers")
    if etcd_servers:
        from bayplan.store import etcd_backup
        from bayplan.store.etcd_client import tls_context

        endpoints = [each.strip() for each in etcd_servers.split(",")]
        tls = tls_context(etcd_cafile, etcd_certfile, etcd_keyfile)
        count = etcd_backup.backup(endpoints, target, tls=tls)
    elif salvage:
        from bayplan.store.sqlite_salvage import salvage as save

        count, lost = save(data, target)
        click.echo(f"{plural(lost, 'object')} could not be read", err=True)
    else:
        from bayplan.store.sqlite_backup import backup

        count = backup(data, target)
    certificates = [path.relative_to(data) for path in sorted((data / "tls").glob("*"))]
    for name in (Path(TOKEN_NAME), Path(KEY_NAME), *certificates):
        if (data / name).is_file():
            private.make_directory((target / name).parent)
            private.write(target / name, (data / name).read_bytes())
    start = f"bayplan up --data {target}, or bayplan apiserver --data {target}"
    click.echo(f"{plural(count, 'object')} copied; start with: {start}")
