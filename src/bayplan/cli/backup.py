"""`bayplan backup`: copy the data directory of an API server, also while it runs."""

from __future__ import annotations

from pathlib import Path

import click

from bayplan.words import plural

DIRECTORY = click.Path(path_type=Path, file_okay=False)


@click.command()
@click.argument("data", type=DIRECTORY)
@click.argument("target", type=DIRECTORY)
@click.option("--salvage", is_flag=True, help="DATA is damaged: copy what can still be read.")
def command(data: Path, target: Path, salvage: bool) -> None:
    """Copy the store in DATA into the new directory TARGET, with its tokens, keys and certificates.

    To restore, start a server with --data TARGET.
    """
    from bayplan import private
    from bayplan.apiserver.serving import KEY_NAME, TOKEN_NAME

    if salvage:
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
