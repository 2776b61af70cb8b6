"""`bayplan snapshot`: a cluster in one file, without secrets, to ask later or elsewhere."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from bayplan.cli import values
from bayplan.cli._source import load_cluster, source_options
from bayplan.words import plural


@click.group()
def command() -> None:
    """Save a cluster as one file without secrets, and look at such files."""


@command.command(short_help="Read a cluster (or dump) and save it.")
@click.argument("file", type=values.WrittenFile())
@source_options
@click.option("--scrub", is_flag=True, help="Replace all names, consistently.")
def save(file: Path, scrub: bool, **source: Any) -> None:
    """Read a cluster (or dump) and save it: `bayplan snapshot save cluster.bayplan`."""
    from bayplan.inspect.sources.scrub import scrubbed
    from bayplan.inspect.sources.snapshot import write_snapshot

    cluster = load_cluster(**source)
    header = write_snapshot(scrubbed(cluster) if scrub else cluster, file, scrubbed=scrub)
    counts = header.counts
    click.echo(
        f"{file}: {plural(counts.get('Node', 0), 'node')}, {plural(counts.get('Pod', 0), 'pod')}, "
        f"{file.stat().st_size:,} bytes"
    )
    for item in header.unread:
        click.echo(f"not in it: {item.what}: {item.why}", err=True)


@command.command("show")
@click.argument("file", type=values.ReadFile(path=True, folder=True))
def show_(file: Path) -> None:
    """Tell what is in a snapshot."""
    from bayplan.inspect import Cluster
    from bayplan.inspect.kinds import STRUCTS
    from bayplan.inspect.sources.snapshot import header_of

    cluster = Cluster.from_files(file)
    header = header_of(cluster)
    taken = datetime.fromtimestamp(header.taken, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    click.echo(f"taken    {taken}")
    click.echo(f"version  {header.version or 'unknown'}")
    click.echo(f"pending  {plural(sum(1 for _ in cluster.pending()), 'pod')}")
    # some kinds are kept as two structs: what scheduling reads, and what questions need
    counts = {STRUCTS[name].KIND: count for name, count in header.counts.items()}
    for kind, count in sorted(counts.items()):
        click.echo(f"{count:8,}  {kind}")
    for item in header.unread:
        click.echo(f"not in it: {item.what}: {item.why}")


@command.command(short_help="Copy a snapshot with all names replaced.")
@click.argument("file", type=values.ReadFile(path=True, folder=True))
@click.argument("target", type=values.WrittenFile())
def scrub(file: Path, target: Path) -> None:
    """Copy a snapshot with all names replaced, so that it can be given to others."""
    from bayplan.inspect import Cluster
    from bayplan.inspect.sources.scrub import scrubbed
    from bayplan.inspect.sources.snapshot import write_snapshot

    write_snapshot(scrubbed(Cluster.from_files(file)), target, scrubbed=True)
    click.echo(f"{target}: names of objects, namespaces, images and labels replaced")


@command.command()
def role() -> None:
    """Print the least that reading a cluster needs: a ClusterRole."""
    from bayplan.inspect.role import cluster_role

    click.echo(cluster_role(), nl=False)
