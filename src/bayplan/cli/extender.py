"""`bayplan extender`: serve an extender, check any extender, start a new one."""

from pathlib import Path

import click

EXAMPLES = """
\b
Examples:
  bayplan extender my_module:app --bind 127.0.0.1:8888    serve your own
  bayplan extender --profile ksc.yaml                     serve a profile's plugins
  bayplan extender check http://127.0.0.1:8888            check any extender
  bayplan extender new ./my-extender                      write a working example
"""


class DefaultsToServe(click.Group):
    """`bayplan extender TARGET` means `bayplan extender serve TARGET`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ("-h", "--help"):
            args = ["serve", *args]
        return super().parse_args(ctx, args)


@click.group(cls=DefaultsToServe, epilog=EXAMPLES)
def command() -> None:
    """Serve, check or start a scheduler extender.

    An extender is an HTTP service that kube-scheduler or Bayplan asks which nodes fit a pod,
    which are best, who may be preempted, and (if you wish) to bind.
    """


@command.command()
@click.argument("target", required=False)
@click.option("--profile", type=click.Path(dir_okay=False), help="Serve the filter and score "
              "plugins of a KubeSchedulerConfiguration instead of your own code.")  # fmt: skip
@click.option(
    "--scheduler-name", default="", help="Which profile of that file; the first if unset."
)
@click.option("--plugins", multiple=True, help="Python module with outside plugins (repeatable).")
@click.option("--bind", default="127.0.0.1:8888", show_default=True, help="Address to listen on.")
@click.option("--prefix", default="", help="Path in front of the verbs, for example /scheduler.")
@click.option("--kubeconfig", default="", help="Watch nodes of this cluster, so that calls that "
              "carry only names (nodeCacheCapable) work.")  # fmt: skip
@click.option("--token-file", type=click.Path(exists=True, dir_okay=False),
              help="Require this bearer token.")  # fmt: skip
@click.option("--gzip", is_flag=True, help="Pack large answers, for schedulers far away.")
@click.option("--tls-cert-file", default="", help="Serve HTTPS with this certificate.")
@click.option("--tls-private-key-file", default="", help="Its key.")
@click.option("--client-ca-file", default="", help="Require client certificates signed by this CA.")
def serve(
    target: str | None,
    profile: str | None,
    scheduler_name: str,
    plugins: tuple[str, ...],
    bind: str,
    prefix: str,
    kubeconfig: str,
    token_file: str | None,
    gzip: bool,
    tls_cert_file: str,
    tls_private_key_file: str,
    client_ca_file: str,
) -> None:
    """Serve the extender TARGET (module:name or file.py:name; name is `app` if left out)."""
    from bayplan.extender import Extender
    from bayplan.extender import serve as server
    from bayplan.observe import logs

    logs.configure()
    if bool(target) == bool(profile):
        raise click.UsageError("give either a TARGET such as my_module:app, or --profile FILE")
    if target:
        app = server.load(target)
    else:
        from bayplan.extender.from_profile import ProfileExtender
        from bayplan.scheduler.extensions import load_registry

        served = ProfileExtender.load(Path(str(profile)), scheduler_name, load_registry(plugins))
        app = Extender(served, name=served.name)
    if token_file:
        app.token = Path(token_file).read_text(encoding="utf-8").strip()
    app.prefix = prefix.rstrip("/")
    app.gzip = gzip
    host, port = server.parse_address(bind)
    listen = server.Listen(host, port, tls_cert_file, tls_private_key_file, client_ca_file)
    scheme = "https" if tls_cert_file else "http"

    def started(real_port: int) -> None:
        verbs = ", ".join(f"/{verb}" for verb in app.functions)
        click.echo(f"{app.name}: {verbs} on {scheme}://{host}:{real_port}{app.prefix}", err=True)

    if kubeconfig:
        from bayplan.cli._watching import Watching

        watching = Watching(kubeconfig, served.changed if profile else None)
        app.nodes = watching
        app.background.append(watching.run)
    server.serve(app, listen, started)


@command.command()
@click.argument("url")
@click.option("--filter-verb", default="filter", show_default=True, help="Empty: do not check.")
@click.option("--prioritize-verb", default="prioritize", show_default=True)
@click.option("--preempt-verb", default="", help="Check preempt under this path.")
@click.option("--bind-verb", default="", help="Check bind with a pod that does not exist.")
@click.option("--node-cache-capable", is_flag=True, help="Send names instead of whole nodes.")
@click.option("--token-file", type=click.Path(exists=True, dir_okay=False), help="Bearer token.")
@click.option("--timeout", default=5.0, show_default=True, help="Seconds to wait for an answer.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text")
@click.pass_context
def check(
    ctx: click.Context,
    url: str,
    filter_verb: str,
    prioritize_verb: str,
    preempt_verb: str,
    bind_verb: str,
    node_cache_capable: bool,
    token_file: str | None,
    timeout: float,
    output: str,
) -> None:
    """Play calls against the extender at URL and say what is wrong; exit 1 if anything is."""
    import msgspec

    from bayplan.extender.check import Finding, Verbs, run

    verbs = Verbs(filter_verb, prioritize_verb, preempt_verb, bind_verb)
    token = Path(token_file).read_text(encoding="utf-8").strip() if token_file else ""
    findings: list[Finding] = []
    for finding in run(url, verbs, names=node_cache_capable, token=token, timeout=timeout):
        findings.append(finding)
        if output == "text":
            mark = "FAIL" if finding.problem else "ok"
            click.echo(f"{mark:5}{finding.check}  ({finding.seconds * 1000:.0f} ms)")
            if finding.problem:
                click.echo(f"     {finding.problem}")
    wrong = sum(1 for finding in findings if finding.problem)
    if output == "json":
        click.echo(msgspec.json.encode(findings).decode())
    else:
        click.echo(f"{len(findings) - wrong} passed, {wrong} failed")
    ctx.exit(1 if wrong else 0)


@command.command()
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
def new(directory: Path) -> None:
    """Write a working extender with tests and scheduler configuration into DIRECTORY."""
    from bayplan.extender.scaffold import write

    for path in write(directory):
        click.echo(f"created {path}")
    click.echo(f"next: cd {directory} && pytest && bayplan extender extender:app")
