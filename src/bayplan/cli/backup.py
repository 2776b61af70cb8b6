"""`bayplan backup`: copy the data directory of an API server, also while it runs."""

from __future__ import annotations

from pathlib import Path

import click

DIRECTORY = click.Path(path_type=Path, file_okay=False)


@click.command()
@click.argument("data", type=DIRECTORY)
@click.argument("target", type=DIRECTORY)
def command(data: Path, target: Path) -> None:
    """Copy the store in DATA into the new directory TARGET, with its tokens and keys.

    To restore, start a server with --data TARGET.
    """
    from bayplan import private
    from bayplan.apiserver.serving import KEY_NAME, TOKEN_NAME
    from bayplan.store.sqlite_backup import backup

    count = backup(data, target)
    for name in (TOKEN_NAME, KEY_NAME):
        if (data / name).is_file():
            private.write(target / name, (data / name).read_bytes())
    click.echo(f"{count} objects copied; start with: bayplan apiserver --data {target}")
