"""`bayplan global`: place stacks over regions and zones."""

import os
from importlib.resources import files as packaged
from pathlib import Path

import click

DIRECTORY = click.Path(file_okay=False, path_type=Path)


@click.group()
def command() -> None:
    """Place whole stacks over thousands of sites.

    The configuration and the inventory are files in the directory that CONFIG_BASE names
    (./conf if it is not set); `bayplan global init conf` writes a complete sample.
    """


def _base(directory: Path | None) -> Path:
    return directory or Path(os.environ.get("CONFIG_BASE") or "conf")


@command.command()
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


@command.command()
@click.argument("directory", type=DIRECTORY, required=False)
@click.pass_context
def validate(ctx: click.Context, directory: Path | None) -> None:
    """Report every problem of the files in DIRECTORY with file and path; exit 1 if any."""
    from bayplan.errors import ConfigError
    from bayplan.global_scheduler import files
    from bayplan.global_scheduler.members import read_members
    from bayplan.global_scheduler.placer import Placer
    from bayplan.global_scheduler.plugins import in_tree_registry

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
        f"valid: {len(found.sites)} sites, {len(found.flavors)} flavors, "
        f"{len(found.eip_pools)} EIP pools, {len(found.volume_pools)} volume pools"
    )


@command.command()
def crds() -> None:
    """Print the custom resource definitions, for `kubectl apply -f -`."""
    click.echo((packaged("bayplan.global_scheduler") / "crds.yaml").read_text(encoding="utf-8"))


@command.command()
@click.option("--config-base", type=DIRECTORY, help="Directory of the files; CONFIG_BASE if unset.")
@click.option("--bind", default="", help="HOST:PORT to listen on, instead of conf.yaml's.")
@click.option("--store", type=click.Choice(["sqlite", "memory", "etcd"]), default="sqlite")
@click.option("--data", type=DIRECTORY, help="Where allocations are kept (sqlite).")
@click.option("--etcd-servers", default="", help="Comma-separated URLs, with --store etcd.")
@click.option("--kubeconfig", default="", help="Also place VM pods and resources of this API "
              "server; conf.yaml's kubeconfig if unset.")  # fmt: skip
@click.option("--token-file", type=click.Path(exists=True, dir_okay=False, path_type=Path),
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
    import asyncio
    import socket

    from bayplan.extender.serve import parse_address
    from bayplan.global_scheduler import files
    from bayplan.global_scheduler.run import Options
    from bayplan.observe import logs

    logs.configure()
    directory = _base(config_base)
    host, port = parse_address(bind) if bind else ("", -1)
    options = Options(
        directory=directory,
        host=host,
        port=port,
        store=store,
        data=data,
        etcd_servers=tuple(url for url in etcd_servers.split(",") if url),
        token=token_file.read_text(encoding="utf-8").strip() if token_file else "",
        name=name or f"{socket.gethostname()}-{os.getpid()}",
        share=share,
    )
    conf = files.must_load(directory).conf
    asyncio.run(_serve(options, kubeconfig or conf.kubeconfig, conf.master))


async def _serve(options: "Options", kubeconfig: str, master: str) -> None:  # type: ignore[name-defined] # noqa: F821
    import asyncio
    import signal

    from bayplan.client import connect, load_kubeconfig
    from bayplan.global_scheduler.run import running

    client = None
    if kubeconfig or master:
        client = connect(load_kubeconfig(kubeconfig or None, master=master), qps=500, burst=1000)
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with running(options, client) as scheduler:
        host = options.host or scheduler.base.conf.address
        click.echo(f"allocations API on http://{host}:{scheduler.port}/v1/allocations", err=True)
        if client is not None:
            click.echo("placing VM pods, VirtualMachines, Stacks and Allocations", err=True)
        if not options.token and not host.startswith("127."):
            click.echo("warning: no --token-file: anyone who reaches this may allocate", err=True)
        await stop.wait()


@command.command()
@click.argument("what")
@click.option("--server", default="", help="URL of the scheduler; from CONFIG_BASE if unset.")
@click.option("--config-base", type=DIRECTORY, help="Directory of the files; CONFIG_BASE if unset.")
@click.option("--token-file", type=click.Path(exists=True, dir_okay=False, path_type=Path),
              help="The bearer token of the HTTP API.")  # fmt: skip
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text")
@click.pass_context
def why(
    ctx: click.Context,
    what: str,
    server: str,
    config_base: Path | None,
    token_file: Path | None,
    output: str,
) -> None:
    """Tell why WHAT fits or does not: the id of an allocation, or a file with a request.

    Shows how many sites each filter left, how many replicas fit together, and the nearest site
    with what it misses. Nothing is reserved. Exits with 1 when not all replicas fit.
    """
    import json

    import msgspec

    from bayplan.global_scheduler import files
    from bayplan.global_scheduler.ask import ask_why
    from bayplan.global_scheduler.why import lines

    if not server:
        server = f"http://127.0.0.1:{files.must_load(_base(config_base)).conf.port}"
    token = token_file.read_text(encoding="utf-8").strip() if token_file else ""
    found = ask_why(server, what, token)
    if output == "json":
        click.echo(json.dumps(msgspec.to_builtins(found), indent=2))
    else:
        click.echo("\n".join(lines(found)))
    ctx.exit(0 if found.fits >= found.replicas else 1)


@command.command()
def demo() -> None:
    """Run the two demos: an allocation over HTTP, and a VM pod through the API server."""
    import asyncio

    from bayplan.global_scheduler.demo import run
    from bayplan.observe import logs

    logs.configure()
    asyncio.run(run(click.echo))
