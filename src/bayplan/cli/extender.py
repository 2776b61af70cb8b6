"""`bayplan extender`: serve, check or start an extender; record its calls and replay them."""

from pathlib import Path

import click

from bayplan.cli import values
from bayplan.words import plural

EXAMPLES = """
\b
Examples:
  bayplan extender new ./my-extender                    start from an example
  bayplan extender my_module:app --bind 127.0.0.1:8888  serve your own
  bayplan extender --profile ksc.yaml                   serve plugins
  bayplan extender check http://127.0.0.1:8888          check any extender
  bayplan extender record http://127.0.0.1:8888 calls.jsonl.gz
                                                        write its calls down
  bayplan extender replay calls.jsonl.gz my_module:app  try a new version
"""


class DefaultsToServe(click.Group):
    """`bayplan extender TARGET` means `bayplan extender serve TARGET`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ("-h", "--help"):
            self._refuse_typo(ctx, args[0])
            args = ["serve", *args]
        return super().parse_args(ctx, args)

    def _refuse_typo(self, ctx: click.Context, word: str) -> None:
        """Raise for a word that is near a command and names no module here or installed."""
        from importlib.util import find_spec

        from bayplan.words import did_you_mean

        here = Path(f"{word}.py").exists() or Path(word).is_dir()
        hint = did_you_mean(word, self.commands) if word.isidentifier() and not here else ""
        if hint and find_spec(word) is None:
            raise click.UsageError(f'"{word}" is no command and no module{hint}', ctx)


@click.group(cls=DefaultsToServe, epilog=EXAMPLES)
def command() -> None:
    """Serve, check or start a scheduler extender.

    An extender is an HTTP service that kube-scheduler or Bayplan asks which nodes fit a pod,
    which are best, who may be preempted, and (if you wish) to bind.
    """


@command.command(short_help="Serve an extender of your own, or a profile.")
@click.argument("target", required=False)
@click.option("--profile", type=values.FILE, help="Serve the filter and score "
              "plugins of a KubeSchedulerConfiguration instead of your own code.")  # fmt: skip
@click.option(
    "--scheduler-name", default="", help="Which profile of that file; the first if unset."
)
@click.option("--plugins", multiple=True, type=values.PLUGIN,
              help="Python module or file with outside plugins (repeatable).")  # fmt: skip
@click.option("--bind", default="127.0.0.1:8888", show_default=True,
              type=values.ADDRESS, help="Address to listen on.")  # fmt: skip
@click.option("--prefix", default="", help="Path in front of the verbs, for example /scheduler.")
@click.option("--kubeconfig", default="", type=values.FILE,
              help="Watch nodes of this cluster, so that calls that "
              "carry only names (nodeCacheCapable) work.")  # fmt: skip
@click.option("--token-file", type=values.FILE,
              help="Require this bearer token.")  # fmt: skip
@click.option("--gzip", is_flag=True, help="Pack large answers, for schedulers far away.")
@click.option(
    "--tls-cert-file", default="", type=values.FILE, help="Serve HTTPS with this certificate."
)
@click.option("--tls-private-key-file", default="", type=values.FILE, help="Its key.")
@click.option("--client-ca-file", default="", type=values.FILE,
              help="Require client certificates signed by this CA.")  # fmt: skip
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
    from bayplan.listening import parse_address
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
        app.token = values.token_in(token_file)
    app.prefix = prefix.rstrip("/")
    app.gzip = gzip
    host, port = parse_address(bind, "--bind")
    listen = server.Listen(host, port, tls_cert_file, tls_private_key_file, client_ca_file)
    scheme = "https" if tls_cert_file else "http"

    def started(real_port: int) -> None:
        verbs = ", ".join(f"/{verb}" for verb in app.functions)
        click.echo(f"{app.name}: {verbs} on {scheme}://{host}:{real_port}{app.prefix}", err=True)

    if kubeconfig:
        from bayplan.cli._watching import Watching

        watching = Watching(kubeconfig, served.changed if profile else None, app.nodes)
        app.nodes = watching.nodes
        app.background.append(watching.run)
    server.serve(app, listen, started)


@command.command(short_help="Check the extender at URL with many calls.")
@click.argument("url", type=values.URL)
@click.option("--filter-verb", default="filter", show_default=True, help="Empty: do not check.")
@click.option("--prioritize-verb", default="prioritize", show_default=True,
              help="Empty: do not check.")  # fmt: skip
@click.option("--preempt-verb", default="", help="Check preempt under this path.")
@click.option("--bind-verb", default="", help="Check bind with a pod that does not exist.")
@click.option("--node-cache-capable", is_flag=True, help="Send names instead of whole nodes.")
@click.option("--token-file", type=values.FILE, help="Bearer token.")
@click.option("--timeout", default=5.0, show_default=True, type=values.POSITIVE,
              help="Seconds to wait for an answer.")  # fmt: skip
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text",
              show_default=True, help="json is for programs.")  # fmt: skip
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
    token = values.token_in(token_file)
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


@command.command(short_help="Pass calls on and write them to FILE.")
@click.argument("url", type=values.URL)
@click.argument("file", type=values.WrittenFile())
@click.option("--bind", default="127.0.0.1:8889", show_default=True,
              type=values.ADDRESS, help="Address to listen on; "
              "the scheduler's urlPrefix names it.")  # fmt: skip
@click.option("--timeout", default=30.0, show_default=True, type=values.POSITIVE,
              help="Seconds to wait for an answer.")  # fmt: skip
def record(url: str, file: Path, bind: str, timeout: float) -> None:
    """Pass calls on to the extender at URL and write them to FILE (.jsonl or .jsonl.gz).

    Calls carry whole pods: keep the file as you keep your manifests.
    """
    from bayplan.extender import serve as server
    from bayplan.extender.recording import Recorder
    from bayplan.listening import parse_address
    from bayplan.observe import logs

    logs.configure()
    host, port = parse_address(bind, "--bind")
    recorder = Recorder(url, file, timeout=timeout)

    def started(real_port: int) -> None:
        click.echo(f"recording calls to {url} on http://{host}:{real_port}", err=True)

    server.serve(recorder, server.Listen(host, port), started)
    click.echo(f"{plural(recorder.count, 'call')} in {file}", err=True)


@command.command(short_help="Make the calls of FILE again and compare.")
@click.argument("file", type=values.ReadFile(path=True))
@click.argument("target")
@click.option("--with-bind", is_flag=True, help="Make bind calls too; they really bind.")
@click.option("--token-file", type=values.FILE, help="Bearer token.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text",
              show_default=True, help="json is for programs.")  # fmt: skip
@click.pass_context
def replay(
    ctx: click.Context,
    file: Path,
    target: str,
    with_bind: bool,
    token_file: str | None,
    output: str,
) -> None:
    """Make the calls of FILE again and compare the answers; exit 1 if any differs.

    TARGET is a URL, or an extender of the kit as module:name, which is asked in this process.
    """
    import asyncio

    import msgspec

    from bayplan.extender import recording, serve
    from bayplan.extender.check import reach
    from bayplan.observe import logs

    logs.configure()
    token = values.token_in(token_file)
    if "://" in target:
        reach(target)
        ask = recording.by_url(target, token)
    else:
        ask = recording.by_kit(serve.load(target))
    found = asyncio.run(recording.replay(file, ask, bind=with_bind))
    different = [one for one in found if one.difference]
    if output == "json":
        click.echo(msgspec.json.encode(found).decode())
    else:
        for one in different:
            click.echo(f"call {one.number} {one.path}: {one.difference}")
        took, before = sum(one.seconds for one in found), sum(one.before for one in found)
        click.echo(f"{plural(len(found), 'call')}, {len(different)} differ; "
                   f"{took:.2f}s, {before:.2f}s when recorded")  # fmt: skip
    ctx.exit(1 if different else 0)


@command.command(short_help="Write a working extender with tests.")
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
def new(directory: Path) -> None:
    """Write a working extender with tests and scheduler configuration into DIRECTORY."""
    from bayplan.extender.scaffold import write

    for path in write(directory):
        click.echo(f"created {path}")
    click.echo(f"next: cd {directory} && bayplan extender extender:app")
