"""`bayplan global`: place stacks over regions and zones."""

import os
from collections.abc import Callable, Iterable
from functools import wraps
from importlib.resources import files as packaged
from pathlib import Path

import click

from bayplan.cli import values
from bayplan.words import plural

FILE = values.ReadFile(path=True)
DIRECTORY = click.Path(file_okay=False, path_type=Path)


@click.group()
def command() -> None:
    """Place whole stacks over thousands of sites.

    The configuration and the inventory are files in the directory that CONFIG_BASE names
    (./conf if it is not set); `bayplan global init conf` writes a complete sample.
    """


def _base(directory: Path | None) -> Path:
    return directory or Path(os.environ.get("CONFIG_BASE") or "conf")


@command.command(short_help="Write a sample configuration and inventory.")
@click.argument("directory", type=DIRECTORY)
def init(directory: Path) -> None:
    """Write a complete sample configuration and inventory into DIRECTORY."""
    from bayplan.errors import ConfigError

    sample = packaged("bayplan.global_scheduler") / "sample"
    sources = sorted((s for s in sample.iterdir() if s.is_file()), key=lambda s: s.name)
    if taken := [source.name for source in sources if (directory / source.name).exists()]:
        raise ConfigError(f"{directory} has {', '.join(taken)} already; choose an empty directory")
    directory.mkdir(parents=True, exist_ok=True)
    for source in sources:
        text = source.read_text(encoding="utf-8")
        text = text.replace("${PWD}/conf/", f"${{PWD}}/{directory.resolve().name}/")
        (directory / source.name).write_text(text, encoding="utf-8")
        click.echo(f"created {directory / source.name}")
    click.echo(f"next: CONFIG_BASE={directory} bayplan global serve")


@command.command(short_help="Report every problem of the files.")
@click.argument("directory", type=DIRECTORY, required=False)
@click.pass_context
def validate(ctx: click.Context, directory: Path | None) -> None:
    """Report every problem of the files in DIRECTORY with file and path; exit 1 if any."""
    from bayplan.errors import ConfigError
    from bayplan.global_scheduler import files
    from bayplan.global_scheduler.members import read_members
    from bayplan.global_scheduler.placer import Placer
    from bayplan.global_scheduler.plugins import in_tree_registry

    if directory is not None and not directory.is_dir():
        raise click.BadParameter(f"{directory} is not a directory", param_hint="DIRECTORY")
    base, problems = files.load(_base(directory))
    problems += read_members(_base(directory))[1]
    lines = [str(problem) for problem in problems]
    try:
        Placer(base.policy, in_tree_registry())
    except ConfigError as problem:
        lines.append(str(problem))
    for line in lines:
        click.echo(line)
    if lines:
        ctx.exit(1)
    found = base.inventory
    click.echo(
        f"valid: {plural(len(found.sites), 'site')}, {plural(len(found.flavors), 'flavor')}, "
        f"{plural(len(found.eip_pools), 'EIP pool')}, "
        f"{plural(len(found.volume_pools), 'volume pool')}"
    )


@command.command(short_help="Print the custom resource definitions.")
def crds() -> None:
    """Print the custom resource definitions, for `kubectl apply -f -`."""
    click.echo((packaged("bayplan.global_scheduler") / "crds.yaml").read_text(encoding="utf-8"))


@command.command(short_help="Serve the allocations API; place VM pods.")
@click.option("--config-base", type=DIRECTORY, help="Directory of the files; CONFIG_BASE if unset.")
@click.option("--bind", default="", type=values.ADDRESS_OR_NONE,
              help="Where to listen, instead of conf.yaml's.")  # fmt: skip
@click.option("--store", type=click.Choice(["sqlite", "memory", "etcd"]), default="sqlite",
              show_default=True, help="Where allocations are kept.")  # fmt: skip
@click.option("--data", type=DIRECTORY,
              help="Directory of the SQLite store; default: data in CONFIG_BASE.")  # fmt: skip
@click.option(
    "--etcd-servers", default="", type=values.URLS, help="Comma-separated URLs, with --store etcd."
)
@click.option("--kubeconfig", default="", type=values.FILE,
              help="Also place VM pods and resources of this API "
              "server; conf.yaml's kubeconfig if unset.")  # fmt: skip
@click.option("--token-file", type=FILE,
              help="Require this bearer token on the HTTP API.")  # fmt: skip
@click.option("--name", default="", help="This scheduler's name among several.")
@click.option("--share/--alone", default=False, help="Share objects with other global schedulers.")
def serve(
    config_base: Path | None,
    bind: str,
    store: str,
    data: Path | None,
    etcd_servers: str,
    kubeconfig: str,
    token_file: Path | None,
    name: str,
    share: bool,
) -> None:
    """Serve the allocations API, and place VM pods when an API server is given."""
    import socket

    from bayplan import eventloop
    from bayplan.cli.apiserver import NO_ETCD
    from bayplan.global_scheduler import files
    from bayplan.global_scheduler.run import Options
    from bayplan.listening import parse_address
    from bayplan.observe import logs

    if store == "etcd" and not etcd_servers:
        raise click.UsageError(NO_ETCD)
    logs.configure()
    directory = _base(config_base)
    host, port = parse_address(bind, "--bind") if bind else ("", -1)
    options = Options(
        directory=directory,
        host=host,
        port=port,
        store=store,
        data=data,
        etcd_servers=tuple(values.listed(etcd_servers)),
        token=values.token_in(token_file),
        name=name or f"{socket.gethostname()}-{os.getpid()}",
        share=share,
    )
    conf = files.must_load(directory).conf
    eventloop.run(_serve(options, kubeconfig or conf.kubeconfig, conf.master))


async def _serve(options: "Options", kubeconfig: str, master: str) -> None:  # type: ignore[name-defined] # noqa: F821
    import asyncio

    from bayplan.client import connect, load_kubeconfig
    from bayplan.global_scheduler.run import running
    from bayplan.stopping import STORE_GRACE, stop_on_signals

    client = None
    if kubeconfig or master:
        client = connect(load_kubeconfig(kubeconfig or None, master=master), qps=500, burst=1000)
    stop = asyncio.Event()
    stop_on_signals(stop, STORE_GRACE)
    async with running(options, client) as scheduler:
        host = options.host or scheduler.base.conf.address
        click.echo(f"allocations API on http://{host}:{scheduler.port}/v1/allocations", err=True)
        if client is not None:
            click.echo("placing VM pods, VirtualMachines, Stacks and Allocations", err=True)
        if not options.token and not host.startswith("127."):
            click.echo("warning: no --token-file: anyone who reaches this may allocate", err=True)
        await stop.wait()


def asks(function: Callable[..., None]) -> Callable[..., None]:
    """The options of a command that asks a running scheduler; it gets `server` and `token`."""

    @click.option("--server", default="", type=values.URL,
                  help="URL of the scheduler; from CONFIG_BASE if unset.")  # fmt: skip
    @click.option("--config-base", type=DIRECTORY, help="The files; CONFIG_BASE if unset.")
    @click.option("--token-file", type=FILE,
                  help="The bearer token of the HTTP API.")  # fmt: skip
    @click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text",
                  show_default=True, help="json is for programs.")  # fmt: skip
    @wraps(function)
    def asking(
        server: str, config_base: Path | None, token_file: Path | None, **rest: object
    ) -> None:
        from bayplan.global_scheduler import files

        if not server:
            server = f"http://127.0.0.1:{files.must_load(_base(config_base)).conf.port}"
        token = values.token_in(token_file)
        function(server=server, token=token, **rest)

    return asking


def _show(found: object, lines: Iterable[str], output: str) -> None:
    import json

    import msgspec

    shown = json.dumps(msgspec.to_builtins(found), indent=2) if output == "json" else None
    click.echo(shown or "\n".join(lines))


@command.command(short_help="Tell what is free and fits no flavor.")
@asks
def stranded(server: str, token: str, output: str) -> None:
    """Tell what is free on listed hosts and fits no flavor, and what fragmentation costs."""
    from bayplan.global_scheduler.ask import ask_stranded
    from bayplan.global_scheduler.stranded import lines

    found = ask_stranded(server, token)
    _show(found, lines(found), output)


@command.command(short_help="Tell what the loss or gain of sites would do.")
@click.option("--lose", multiple=True, metavar="SITE",
              help="Lose a site, region=REGION or zone=REGION/ZONE; repeatable.")  # fmt: skip
@click.option("--add", multiple=True, type=FILE, help="Sites and what they have: JSON with the "
              "keys of the inventory files; repeatable.")  # fmt: skip
@click.option("--place", multiple=True, type=FILE, help="A request to try then; repeatable.")
@asks
@click.pass_context
def whatif(
    ctx: click.Context,
    lose: tuple[str, ...],
    add: tuple[Path, ...],
    place: tuple[Path, ...],
    server: str,
    token: str,
    output: str,
) -> None:
    """Tell what would become of all allocations if sites were lost or added.

    What loses its site is placed anew by priority, then age, then the requests are tried. Nothing
    is changed. Exits with 1 when something has no place.
    """
    from bayplan.global_scheduler.ask import ask_what_if
    from bayplan.global_scheduler.whatif import lines

    found = ask_what_if(server, lose, add, place, token)
    _show(found, lines(found), output)
    ctx.exit(0 if found.ok else 1)


@command.command(short_help="Move everything off a site.")
@click.argument("site")
@click.option("--undo", is_flag=True, help="Take up the site again.")
@asks
@click.pass_context
def drain(ctx: click.Context, site: str, undo: bool, server: str, token: str, output: str) -> None:
    """Take nothing more on SITE and move what is there, by priority, then age.

    Exits with 1 when something found no other place; ask again when there is room.
    """
    from bayplan.global_scheduler.ask import ask_drain
    from bayplan.global_scheduler.draining import lines

    found = ask_drain(server, site, token, undo=undo)
    if found is None:
        click.echo(f"{site} is open again")
        return
    _show(found, lines(found), output)
    ctx.exit(0 if found.empty else 1)


@command.command(short_help="Plan moves from full sites to emptier ones.")
@click.option("--moves", type=click.IntRange(1, 100), default=20, show_default=True,
              help="At most so many.")  # fmt: skip
@click.option("--apply", is_flag=True, help="Carry the moves out.")
@asks
def rebalance(moves: int, apply: bool, server: str, token: str, output: str) -> None:
    """Plan moves from the fullest sites to emptier ones; nothing is changed without --apply."""
    from bayplan.global_scheduler.ask import ask_rebalance
    from bayplan.global_scheduler.rebalance import lines

    found = ask_rebalance(server, moves, token, apply=apply)
    _show(found, lines(found), output)


@command.command(short_help="Tell why an allocation or request (not) fits.")
@click.argument("what")
@asks
@click.pass_context
def why(ctx: click.Context, what: str, server: str, token: str, output: str) -> None:
    """Tell why WHAT fits or does not: the id of an allocation, or a file with a request.

    Shows how many sites each filter left, how many replicas fit together, and the nearest site
    with what it misses. Nothing is reserved. Exits with 1 when not all replicas fit.
    """
    from bayplan.global_scheduler.ask import ask_why
    from bayplan.global_scheduler.why import lines

    found = ask_why(server, what, token)
    _show(found, lines(found), output)
    ctx.exit(0 if found.fits >= found.replicas else 1)


@command.command(short_help="Run two demos: over HTTP and with an API server.")
def demo() -> None:
    """Run the two demos: an allocation over HTTP, and a VM pod through the API server."""
    import asyncio
    import logging

    import structlog

    from bayplan.global_scheduler.demo import run
    from bayplan.observe import logs

    logs.configure()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    asyncio.run(run(click.echo))
