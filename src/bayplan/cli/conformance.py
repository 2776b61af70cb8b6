"""`bayplan conformance`: replay recorded answers of the real parts and compare ours with them.

Each kind of recording is a sub-command in its own module, imported when it is asked for. A module
defines `command`, prints differences readably, ends with a line `agreement: X/Y` and exits 0 only
when all agree.
"""

import importlib

import click

SUBCOMMANDS = {
    "decisions": "bayplan.cli.conformance_decisions",
    "fuzz": "bayplan.cli.conformance_fuzz",
    "kept": "bayplan.cli.conformance_kept",
    "record": "bayplan.cli.conformance_record",
}


class Recordings(click.Group):
    """Imports the module of a recording when it is needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(SUBCOMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in SUBCOMMANDS:
            return None
        command: click.Command = importlib.import_module(SUBCOMMANDS[cmd_name]).command
        return command


@click.group(cls=Recordings)
def command() -> None:
    """Replay recorded answers of the real parts and compare."""
