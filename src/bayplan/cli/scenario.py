"""`bayplan scenario`: run scenarios and recordings, record a cluster, list the ones that teach."""

from __future__ import annotations

import asyncio
import signal
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bayplan.cli import values
from bayplan.cli.ticking import ticking
from bayplan.errors import BayplanError
from bayplan.words import plural, wrapped

if TYPE_CHECKING:
    from bayplan.sim.run import Result
    from bayplan.sim.script import Script

FORMATS = ("text", "json", "junit", "html")


@click.group("scenario")
def command() -> None:
    """Run a cluster's life in virtual time."""


@command.command("run")
@click.argument("files", nargs=-1, required=True, type=values.SCENARIO)
@click.option("--seed", type=int, help="Of all chance; default: the file's, else 0.")
@click.option("--config", type=values.ReadFile(path=True), help="A KubeSchedulerConfiguration.")
@click.option("--plugins", multiple=True, type=values.PLUGIN,
              help="Modules or files with further plugins.")  # fmt: skip
@click.option("--faithful", is_flag=True, help="With the whole API server; slower.")
@click.option("--real-time", is_flag=True, help="Do not skip the time in which nothing happens.")
@click.option(
    "--against", metavar="KUBECONFIG", type=values.FILE, help="Run on this cluster instead."
)
@click.option("--limit", type=values.DURATION,
              help="Stop after this much (simulated) time, e.g. 10m.")  # fmt: skip
@click.option("-o", "--output", type=click.Choice(FORMATS), default="text", show_default=True,
              help="The form of the report; html is a page with map and time.")  # fmt: skip
@click.option("--out", type=values.WrittenFile(),
              help="Write the report to this file, not to the terminal.")  # fmt: skip
@click.option("--timeline", type=click.Choice(("none", "short", "all")), default="short",
              help="How much of what happened to print; short: 200 lines.")  # fmt: skip
def run(
    files: tuple[str, ...],
    seed: int | None,
    config: Path | None,
    plugins: tuple[str, ...],
    faithful: bool,
    real_time: bool,
    against: str | None,
    limit: str | None,
    output: str,
    out: Path | None,
    timeline: str,
) -> None:
    """Run scenarios (YAML, Python or recordings); exit 1 if one fails.

    FILE may be the name of a built-in scenario; see `bayplan scenario list`.
    """
    from bayplan.config import load_file
    from bayplan.observe import logs
    from bayplan.scheduler.extensions import load_registry
    from bayplan.sim.objects import seconds

    logs.configure(0)
    if against is not None:
        _refuse({"seed": seed, "config": config, "plugins": plugins, "real-time": real_time})
    given = load_file(config).config if config else None
    registry = load_registry(plugins) if plugins else None
    most = seconds(limit) if limit else None
    scripts = [find(name) for name in files]
    if against is not None:
        _refuse_faults(scripts)
    results = []
    for script in scripts:
        if output == "text" and out is None:
            click.echo(f"=== {script.name} ({script.path})")
        with ticking(_say) if real_time or against is not None else nullcontext():
            if against is not None:
                results.append(_against(script, against, most))
            else:
                result = script.run(
                    seed=seed,
                    config=given,
                    registry=registry,
                    faithful=faithful,
                    real_time=real_time,
                    limit=most,
                    echo=_say if real_time else _progress,
                )
                results.append(result)
        if output == "text" and out is None:
            click.echo(_text(results[-1], timeline))
    if output != "text" or out is not None:
        _write(scripts, results, output, out, timeline)
    failed = [result.name for result in results if not result.ok]
    if len(results) > 1 and output == "text":
        click.echo(f"{len(results) - len(failed)} of {len(results)} scenarios passed")
    if failed:
        raise SystemExit(1)


def _refuse(flags: dict[str, object]) -> None:
    """Raise for a flag of our own scheduler."""
    for name, value in flags.items():
        if value not in (None, False, ()):
            raise click.UsageError(
                f"--{name} means nothing with --against: that cluster has its own scheduler"
            )


def _refuse_faults(scripts: list[Script]) -> None:
    """Raise for a fault before anything is created, not when its time has come."""
    for script in scripts:
        broken = [step.line for step in getattr(script.player, "steps", ()) if step.fault]
        if broken:
            raise BayplanError(
                f"{script.path}:{broken[0]}: a fault needs a simulated cluster; run the scenario "
                "without --against"
            )


def find(name: str) -> Script:
    """A scenario's file, or one of the built-in ones by its name."""
    from bayplan.sim.library import path_of
    from bayplan.sim.load import load_scenario

    path = Path(name)
    if not path.exists() and (built_in := path_of(name)) is not None:
        path = built_in
    return load_scenario(path)


def _against(script: Script, kubeconfig: str, limit: float | None) -> Result:
    from bayplan.client import connect, load_kubeconfig
    from bayplan.sim.against import play_on

    async def work() -> Result:
        client = connect(load_kubeconfig(kubeconfig))
        try:
            return await play_on(
                client,
                script.player,
                limit=limit or script.limit,
                seed=script.settings.seed,
                name=script.name,
                echo=_say,
            )
        finally:
            await client.close()

    return asyncio.run(work())


def _progress(text: str) -> None:
    """Show what a scenario says while it runs, to people only: the timeline has it too."""
    if sys.stderr.isatty():
        _say(text)


def _say(text: str) -> None:
    """Show what goes on to whoever waits in real time."""
    click.echo(f"  … {text}", err=True)


def _text(result: Result, timeline: str) -> str:
    from bayplan.sim.report import text

    lines: list[str] = []
    if timeline != "none":
        lines += text.timeline(result, 0 if timeline == "all" else text.MANY)
    lines += text.summary(result)
    lines.append("passed" if result.ok else "FAILED")
    return "\n".join(lines)


def _write(
    scripts: list[Script], results: list[Result], output: str, out: Path | None, timeline: str
) -> None:
    from bayplan.sim.report import data, junit

    if output == "json":
        statuses = [getattr(script.player, "status", None) for script in scripts]
        extra = [{"status": status} if status else {} for status in statuses]
        body = data.encode(results, extra)
    elif output == "junit":
        body = junit.encode(results)
    elif output == "html":
        from bayplan.page.runs import report_of

        body = report_of(results)
    else:
        body = "\n".join(_text(result, timeline) for result in results) + "\n"
    if out is None:
        click.echo(body)
        return
    try:
        out.write_text(body)
    except OSError as problem:
        raise BayplanError(f"writing {out}: {problem.strerror}") from problem
    click.echo(f"wrote {out}", err=True)


@command.command("list")
def list_() -> None:
    """List the scenarios that come with Bayplan."""
    from bayplan.sim.library import names, path_of
    from bayplan.sim.load import load_scenario

    for name in names():
        path = path_of(name)
        assert path is not None
        first = " ".join(load_scenario(path).description.split()).partition(". ")[0]
        line = f"{name:24}{first.rstrip('.')}."
        click.echo("\n".join(wrapped(line, rest=" " * 24, most=len(line))))


@command.command("record", short_help="Record what happens on a cluster; `run` replays it.")
@click.argument("file")
@click.option(
    "--kubeconfig", type=values.FILE, help="Of the cluster to record; default: as kubectl's."
)
@click.option("--context", default="", help="A context of the kubeconfig.")
@click.option("--duration", type=values.DURATION,
              help="Stop after this long, e.g. 10m; default: until Ctrl-C.")  # fmt: skip
def record_(file: str, kubeconfig: str | None, context: str, duration: str | None) -> None:
    """Record what happens on a cluster into FILE (JSON lines); `run` replays it."""
    from bayplan.observe import logs
    from bayplan.sim.objects import seconds

    logs.configure(0)
    lines = asyncio.run(_record(file, kubeconfig, context, seconds(duration) if duration else None))
    click.echo(f"recorded {plural(lines, 'line')}", err=True)


async def _record(file: str, kubeconfig: str | None, context: str, duration: float | None) -> int:
    from bayplan.client import connect, load_kubeconfig
    from bayplan.sim.recording import open_recording, record

    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    client = connect(load_kubeconfig(kubeconfig, context=context))
    try:
        with open_recording(file) as out:
            return await record(client, out, duration, stopped)
    finally:
        await client.close()
