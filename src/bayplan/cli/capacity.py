"""`bayplan capacity`: how many more pods fit, what ends it, what is stranded."""

from __future__ import annotations

import sys
from typing import Any

import click

from bayplan.cli._source import FORMATS, load_cluster, show, source_options
from bayplan.cli.completing import owner_names


@click.command()
@click.argument("templates", nargs=-1, metavar="TEMPLATES...", shell_complete=owner_names)
@source_options
@click.option("--keep-free", type=click.Choice(["node", "zone"]),
              help="Keep the room to lose any one node or zone.")  # fmt: skip
@click.option("--need", type=click.IntRange(min=0), default=0,
              help="Exit with 1 if fewer whole sets fit.")  # fmt: skip
@click.option("--limit", type=click.IntRange(min=1), default=100_000, show_default=True,
              help="Stop counting at so many pods.")  # fmt: skip
@click.option("-o", "--output", type=click.Choice(FORMATS), default="text", show_default=True,
              help="json and yaml are for programs.")  # fmt: skip
def command(
    templates: tuple[str, ...], keep_free: str | None, need: int, limit: int, output: str,
    **source: Any,
) -> None:  # fmt: skip
    """Tell how many more of TEMPLATES fit: `bayplan capacity 3xdeployment/web 1xdb.yaml`.

    A template is deployment/web (or another owner), pod/web-0, FILE.yaml or cpu=1,memory=2Gi;
    3x before it gives its share of the mix.
    """
    if not templates:
        raise click.UsageError(
            "name what should fit: deployment/web, pod/web-0, FILE.yaml or cpu=1,memory=2Gi"
        )
    from bayplan.inspect.capacity import capacity
    from bayplan.inspect.capacity.templates import parse_template

    cluster = load_cluster(**source)
    parsed = [parse_template(cluster, text) for text in templates]
    found = capacity(cluster, parsed, keep_free=keep_free or "", limit=limit)
    show(found, output, lambda: str(found))
    if found.sets < need:
        click.echo(f"not enough: {need} needed, {found.sets} fit", err=True)
        sys.exit(1)
