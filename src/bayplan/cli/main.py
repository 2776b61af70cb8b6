"""The root of the command line: finds a sub-command's module only when it is asked for.

Heavy imports stay out of start-up: a command's module is imported when the command runs or its
help is shown, and by name from the table below. Each module defines `command`, a click command.
"""

import difflib
import errno
import gc
import importlib
import os
import re
import sys
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from bayplan import __version__
from bayplan.errors import BayplanError, reason

COMMANDS = {
    "apiserver": "serve the Kubernetes API from an embedded store",
    "backup": "copy an API server's data, also while it runs",
    "bench": "measure the engine",
    "capacity": "tell how many more pods fit, and what ends it",
    "completion": "print what makes a shell complete bayplan's words",
    "config": "print, validate and convert scheduler configuration",
    "conformance": "replay recorded answers of the real parts and compare",
    "demo": "place a small workload and tell why",
    "diff": "compare two scheduler configurations on one cluster",
    "envtest-assets": "write programs that controller-runtime's envtest starts",
    "extender": "serve, check or start a scheduler extender",
    "global": "place stacks over regions and zones",
    "inspect": "answer questions about a cluster over HTTP",
    "learn": "eight lessons that grow a scheduler",
    "nodes": "add simulated nodes to a cluster",
    "pack": "tell how few nodes would do, with a proof, and the moves",
    "restore": "write what backup copied into an etcd",
    "scenario": "run a cluster's life in virtual time",
    "scheduler": "schedule pods; takes kube-scheduler's place",
    "snapshot": "save a cluster as one file without secrets",
    "sweep": "run many configurations, traces and seeds, and compare",
    "tune": "search for a better configuration",
    "ui": "look at a cluster: map, queue, why, what-if, time",
    "trace": "bring, make and play traces of clusters",
    "up": "start a whole cluster on this machine",
    "whatif": "tell what a drain, a growth or a loss would do to a cluster",
    "why": "tell why a pod is pending, or where it is, in any cluster",
}

ANSWERING = ("capacity", "diff", "extender check", "extender replay", "global drain",
             "global whatif", "global why", "pack", "whatif")  # fmt: skip
"""Commands whose exit code 1 is an answer."""

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EIO)
MAY_NOT = (errno.EACCES, errno.EPERM, errno.EROFS)

click.IntRange.name = "whole number"  # "two" is no valid "integer range", it said
click.INT.name = "whole number"
click.FloatRange.name = click.FLOAT.name = "number"


def _number(kind: object, param: click.Parameter, ctx: click.Context | None = None) -> str | None:
    return "NUMBER" if isinstance(param, click.Option) else None  # an argument has a name


click.types.IntParamType.get_metavar = _number  # type: ignore[assignment,method-assign]

GC_THRESHOLDS = (20_000, 20, 50)
"""What is imported stays: to look through it 400 times is a tenth of a server's start."""

MODULES = {"envtest-assets": "envtest_assets", "global": "global_"}


class LazyGroup(click.Group):
    """Imports the module of a sub-command when it is needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        _import_structlog()
        module = importlib.import_module(f"bayplan.cli.{MODULES.get(cmd_name, cmd_name)}")
        command: click.Command = module.command
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        # By the table: the inherited one would import every command for its help.
        found = [
            CompletionItem(name, help=text)
            for name, text in sorted(COMMANDS.items())
            if name.startswith(incomplete)
        ]
        return found + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(sorted(COMMANDS.items()))


def _import_structlog() -> None:
    """Import structlog without rich, which it would load for coloured tracebacks only.

    That is a tenth of what a scheduler does before it talks to the API server.
    """
    if "structlog" in sys.modules or "rich" in sys.modules:
        return
    sys.modules["rich"] = None  # type: ignore[assignment]  # makes `import rich` fail
    try:
        import structlog  # noqa: F401
    finally:
        del sys.modules["rich"]


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="bayplan")
def bayplan() -> None:
    """A Kubernetes scheduler that explains itself."""


def main() -> None:
    """Run the command line.

    Exit codes: 0; 1, what was asked failed; 2, the command line is wrong; 130, Ctrl-C. Where 1 is
    an answer ("no"), every error exits 2, so that CI can tell them apart.
    """
    gc.set_threshold(*GC_THRESHOLDS)
    try:
        sys.exit(bayplan.main(standalone_mode=False))
    except click.exceptions.Abort:
        sys.exit(130)
    except click.ClickException as problem:
        if isinstance(problem, click.UsageError):
            _tell(_with_hint(problem))
        else:
            click.echo(f"error: {problem.format_message()}", err=True)
        sys.exit(problem.exit_code)
    except (BayplanError, OSError) as problem:
        click.echo(f"error: {_in_words(problem)}", err=True)
        words = sys.argv[1:3]
        sys.exit(2 if {" ".join(words), *words[:1]} & {*ANSWERING} else 1)


def _in_words(problem: BayplanError | OSError) -> str:
    """Name the file that the system refuses; without one it is a fault of ours."""
    if isinstance(problem, BayplanError):
        return f"{problem}; {problem.remedy}" if problem.remedy else str(problem)
    if problem.filename is None:
        if problem.errno not in NO_ROOM:
            raise problem
        return f"writing the answer: {reason(problem)}; make room, or send it elsewhere"
    advice = "name a place that you may write to" if problem.errno in MAY_NOT else "name another"
    return f'"{os.fsdecode(problem.filename)}": {reason(problem)}; {advice}'


def _tell(problem: click.UsageError) -> None:
    """One line that says what is wrong, as for any error, and one that says where to read on."""
    if type(problem).__name__ == "NoArgsIsHelpError":  # of click 8.2; the help is all there is
        problem.show()
        return
    said = " ".join(problem.format_message().split())  # choices come one a line
    first = said[:1].lower() if said[1:2].islower() else said[:1]
    click.echo(f"error: {first}{said[1:]}", err=True)
    context = problem.ctx or _context_of(sys.argv[1:])
    click.echo(f"see: {context.command_path} --help", err=True)


def _context_of(words: list[str]) -> click.Context:
    """That of the command which the words name: click forgets it where an option has no value."""
    context = click.Context(bayplan, info_name="bayplan")
    for word in words:
        group = context.command
        found = group.get_command(context, word) if isinstance(group, click.Group) else None
        if found is None:
            break
        context = click.Context(found, info_name=word, parent=context)
    return context


def _with_hint(problem: click.UsageError) -> click.UsageError:
    """Say what a word that is not understood may mean."""
    said, context = problem.message, problem.ctx
    if context is None:
        return problem
    hint = ""
    if found := re.match(r"No such command '(.+)'", said):
        hint = _near_command(found[1], context)
    elif isinstance(problem, click.NoSuchOption):
        # click compares the dashes too, so that half of all options look alike
        word, near = problem.option_name.lstrip("-"), list(problem.possibilities or ())
        names = difflib.get_close_matches(word, [name.lstrip("-") for name in near])
        meant = [f"--{name}" for name in names]
        problem = click.NoSuchOption(problem.option_name, possibilities=meant, ctx=context)
        hint = _as_argument(word.upper(), context)
    elif found := re.match(r"Got unexpected extra arguments? \(([\w-]+)", said):
        # `whatif drain worker-1` means `--drain worker-1`
        options = {name for item in context.command.params for name in item.opts}
        hint = f"Did you mean --{found[1]}?" if f"--{found[1]}" in options else ""
    return click.UsageError(f"{said.rstrip('.')}. {hint}", context) if hint else problem


def _near_command(word: str, context: click.Context) -> str:
    group = context.command
    names = group.list_commands(context) if isinstance(group, click.Group) else []
    near = difflib.get_close_matches(word, names, n=2, cutoff=0.6)
    if near:
        return f"Did you mean {' or '.join(near)}?"
    return "" if group is bayplan else f"There are {', '.join(names)}."


def _as_argument(word: str, context: click.Context) -> str:
    """`ui --scenario first-pod` means `ui first-pod`."""
    shown = [
        item.make_metavar(context) for item in context.command.params if item.opts[0].isalpha()
    ]
    wanted = any(word in re.split(r"\W+", metavar) for metavar in shown)
    return f"It is given without a flag: {context.command_path} {word}" if wanted else ""


def plugin() -> None:
    """`kubectl why` and others: a command as a kubectl plugin, named by the program's own name.

    `kubectl-why` runs it; `kubectl_complete-why` says how its words may go on.
    """
    program, _, name = Path(sys.argv[0]).stem.partition("-")
    if program == "kubectl_complete":
        from bayplan.cli.completing import complete_plugin

        complete_plugin(name)
        return
    sys.argv[:1] = ["kubectl", name]  # as it was typed: usage and errors name it so
    main()


if __name__ == "__main__":
    main()
