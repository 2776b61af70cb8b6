"""Every command of the command line, for tests that ask the same of all."""

import click

from bayplan.cli.main import bayplan

CONFIG = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def commands(command=bayplan, path=()):
    """Yield the words and the click command of each, groups not."""
    if not isinstance(command, click.Group):
        yield path, command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        yield from commands(command.get_command(context, name), (*path, name))
