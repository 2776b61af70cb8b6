"""`bayplan conformance`: replay recorded answers of the real parts and compare ours with them.

Each kind of recording is a sub-command in its own module, imported when it is asked for. A module
defines `command`, prints differences readably, ends with a line `agreement: X/Y` and exits 0 only
when all agree.
"""

import importlib
import importlib.util

import click

SUBCOMMANDS = {
    "api": ("bayplan.cli.conformance_api", "answers of kube-apiserver to HTTP requests"),
    "decisions": ("bayplan.cli.conformance_decisions", "decisions of kube-scheduler"),
    "fuzz": ("bayplan.cli.conformance_fuzz", "random cases, asked of the real scheduler too"),
    "kept": ("bayplan.cli.conformance_kept", "kept answers, against engines that keep nothing"),
    "record": ("bayplan.cli.conformance_record", "random cases with the real scheduler's answers"),
    "kubectl": ("bayplan.cli.conformance_kubectl", "a session of kubectl"),
    "live": ("bayplan.cli.conformance_live", "what kube-scheduler does on a live API server"),
}


class Recordings(click.Group):
    """Imports the module of a recording when it is needed; leaves out those not built in."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for name in sorted(SUBCOMMANDS) if self.get_command(ctx, name)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in SUBCOMMANDS:
            return None
        module, _ = SUBCOMMANDS[cmd_name]
        if importlib.util.find_spec(module) is None:
            return None
        command: click.Command = importlib.import_module(module).command
        return command


@click.group(cls=Recordings)
def command() -> None:
    """Replay recorded answers of the real parts and compare."""
