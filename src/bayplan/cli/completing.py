"""Names for shell completion, from the cluster that the options mean; silent if there is none.

kubectl completes a plugin `kubectl why` by running `kubectl_complete-why` with the words so far,
the last one unfinished; it prints one proposal a line, then `:` and a directive.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import ShellComplete

from bayplan.errors import BayplanError

if TYPE_CHECKING:
    from bayplan.inspect import Cluster

Names = Callable[[click.Context, click.Parameter, str], list[str]]
NO_FILES, FILES = 4, 0
"""kubectl's directives: propose nothing else, or files where there are no proposals."""


def _completer(names: Callable[[Cluster], list[str]]) -> Names:
    def complete(ctx: click.Context, param: click.Parameter, start: str) -> list[str]:
        cluster = _cluster(ctx.params)
        found = [] if cluster is None else names(cluster)
        return sorted(name for name in found if name.startswith(start))

    return complete


def _cluster(params: dict[str, Any]) -> Cluster | None:
    from bayplan.cli._source import load_cluster

    try:
        return load_cluster(
            tuple(params.get("sources") or ()),
            params.get("kubeconfig") or "",
            params.get("context") or "",
            params.get("namespace") or "",
            "",
            (),
        )
    except BayplanError:
        return None


def _pods(cluster: Cluster) -> list[str]:
    where = cluster.origin.namespace
    return [pod.name for pod in cluster.pods.values() if pod.namespace == where]


def _owners(cluster: Cluster) -> list[str]:
    where = cluster.origin.namespace
    return [owner.title for owner in cluster.owners() if owner.namespace == where]


pods_and_owners = _completer(lambda cluster: _pods(cluster) + _owners(cluster))
owner_names = _completer(_owners)
node_names = _completer(lambda cluster: list(cluster.nodes))


def complete_plugin(command: str) -> None:
    """Answer kubectl's question about the words of a plugin."""
    from bayplan.cli.main import bayplan

    *words, last = sys.argv[1:] or [""]
    shell = ShellComplete(bayplan, {}, "bayplan", "")
    found = shell.get_completions([command, *words], last)
    files = any(item.type in ("file", "dir") for item in found)
    for item in found:
        if item.type == "plain":
            click.echo(f"{item.value}\t{item.help}" if item.help else item.value)
    click.echo(f":{FILES if files else NO_FILES}")
