"""`bayplan completion`: what makes bash, zsh or fish complete bayplan's words."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

VARIABLE = "_BAYPLAN_COMPLETE"


@click.command()
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
def command(shell: str) -> None:
    """Print the completion of a shell.

    \b
    bash:  source <(bayplan completion bash)       in ~/.bashrc
    zsh:   source <(bayplan completion zsh)        in ~/.zshrc, after compinit
    fish:  bayplan completion fish | source        in ~/.config/fish/config.fish
    """
    from bayplan.cli.main import bayplan

    kind = get_completion_class(shell)
    assert kind is not None
    made = kind(bayplan, {}, "bayplan", VARIABLE)
    # Not `source()`, which starts the shell to see how old it is.
    click.echo(made.source_template % made.source_vars())
