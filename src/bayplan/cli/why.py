"""`bayplan why`, also `kubectl why`: why a pod waits, or why it is where it is.

Asks any cluster, running or saved, read-only. If the API server there is Bayplan's own, what its
scheduler remembers is added; a scheduler elsewhere is asked only where `--scheduler` says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from bayplan.cli import values
from bayplan.cli._source import FORMATS, load_cluster, show, source_options
from bayplan.cli.completing import node_names, pods_and_owners

if TYPE_CHECKING:
    from bayplan.cli.asking import There
    from bayplan.inspect import Cluster
    from bayplan.inspect.why import Answer, Pending

DATA = ("json", "yaml")
"""Forms for programs, which tell of every node."""
PODS = ("pod", "pods", "po")


@click.command()
@click.argument(
    "what", nargs=-1, metavar="[POD | KIND/NAME | KIND NAME]", shell_complete=pods_and_owners
)
@source_options
@click.option("-f", "--filename", default="", metavar="FILE",
              type=values.ReadFile(dash=True),
              help="A pod or workload that does not exist yet.")  # fmt: skip
@click.option("--pending", is_flag=True, help="All pending pods, by cause.")
@click.option("-A", "--all-namespaces", is_flag=True, help="With --pending: of all namespaces.")
@click.option("--node", default="", help="Why not on this node.", shell_complete=node_names)
@click.option("--every-node", is_flag=True,
              help="With --pending -o json|yaml: every node's verdict, as of one pod.")  # fmt: skip
@click.option("--scheduler", default="", type=values.URL,
              help="Also ask the memory of a Bayplan scheduler there.")  # fmt: skip
@click.option("-o", "--output", type=click.Choice([*FORMATS, "wide"]), default="text",
              show_default=True, help="wide shows more nodes, scores and commands.")  # fmt: skip
def command(
    what: tuple[str, ...],
    filename: str,
    pending: bool,
    all_namespaces: bool,
    node: str,
    every_node: bool,
    scheduler: str,
    output: str,
    **source: Any,
) -> None:
    """Tell why a pod is pending, or why it is where it is: `bayplan why web-0`.

    The answer is proven against what the cluster's own scheduler says, and every change that it
    suggests has been decided again.
    """
    if sum((bool(what), bool(filename), pending)) != 1:
        raise click.UsageError("name a pod or KIND/NAME, or give -f FILE or --pending")
    if every_node and output not in DATA:
        raise click.BadParameter("goes with -o json or -o yaml", param_hint="'--every-node'")
    there = _there(source)
    if there is not None:
        namespace = "" if all_namespaces else source["namespace"]
        if pending:
            _pending_there(there, namespace, every_node, output)
            return
        _ask_there(there, what, filename, node, output, source, scheduler)
        return
    cluster = load_cluster(**source)
    for warning in cluster.settings.warnings:
        click.echo(f"warning: {warning}", err=True)
    if pending:
        namespace = "" if all_namespaces else source["namespace"]
        details = output in DATA
        every = cluster.why_pending(namespace, details=details, every_node=every_node)
        _print_pending(every, output)
    elif filename:
        _from_file(cluster, filename, node, output)
    else:
        _named(cluster, what, node, output, source, scheduler)


def _there(source: dict[str, Any]) -> There | None:
    """The scheduler to ask, if nothing is said about another and only it can tell."""
    from bayplan.cli.asking import scheduler_there

    said = ("sources", "config", "plugins", "feature_gates", "emulated_version")
    if any(source[name] for name in said):
        return None
    return scheduler_there(source["kubeconfig"], source["context"], source["namespace"])


def _ask_there(
    there: There,
    what: tuple[str, ...],
    filename: str,
    node: str,
    output: str,
    source: dict[str, Any],
    scheduler: str,
) -> None:
    from bayplan.inspect.why import Answer, OwnerAnswer
    from bayplan.inspect.why.manifest import read_documents
    from bayplan.inspect.why.render import render_owner

    if filename:
        for body in read_documents(filename):
            meta = {"namespace": there.namespace, **body.get("metadata", {})}
            _print(there.ask("why", Answer, pod={**body, "metadata": meta}, node=node), output)
    else:
        kind, name = _target(what)
        full = name if "/" in name else f"{there.namespace}/{name}"
        if kind not in PODS:
            owner = there.ask("why", OwnerAnswer, owner=f"{kind}/{full}")
            show(owner, output, lambda: "\n".join(render_owner(owner, wide=output == "wide")))
            return
        answer = there.ask("why", Answer, pod=full, node=node)
        _print(_remembered(answer, source, scheduler), output)


def _pending_there(there: There, namespace: str, every_node: bool, output: str) -> None:
    from bayplan.inspect.why import Pending

    _print_pending(there.ask("pending", Pending, namespace=namespace, everyNode=every_node), output)


def _print_pending(found: Pending, output: str) -> None:
    from bayplan.inspect.why.render import render_pending

    show(found, output, lambda: "\n".join(render_pending(found, wide=output == "wide")))


def _from_file(cluster: Cluster, filename: str, node: str, output: str) -> None:
    from bayplan.inspect.why.manifest import read_pods

    for pod in read_pods(cluster, filename):
        _print(_answer(cluster, pod, node, output), output)


def _named(
    cluster: Cluster,
    what: tuple[str, ...],
    node: str,
    output: str,
    source: dict[str, Any],
    scheduler: str,
) -> None:
    from bayplan.inspect.why import why_owner
    from bayplan.inspect.why.render import render_owner

    kind, name = _target(what)
    if kind in cluster.namespaces:  # as answers write pods: NAMESPACE/NAME
        kind, name = "pod", f"{kind}/{name}"
    if kind not in PODS:
        found = why_owner(cluster, cluster.owner(kind, name), every_node=output in DATA)
        show(found, output, lambda: "\n".join(render_owner(found, wide=output == "wide")))
        return
    answer = _answer(cluster, cluster.pod(name), node, output)
    if not source["sources"]:
        answer = _remembered(answer, source, scheduler)
    _print(answer, output)


def _target(what: tuple[str, ...]) -> tuple[str, str]:
    """Kind and name, as kubectl takes them: `web-0`, `pod/web-0`, `deployment web`."""
    if len(what) == 2:
        return what[0].lower(), what[1]
    if len(what) > 2:
        raise click.UsageError("one pod or owner at a time; --pending asks about all")
    kind, slash, name = what[0].partition("/")
    return (kind.lower(), name) if slash else ("pod", kind)


def _answer(cluster: Cluster, pod: Any, node: str, output: str) -> Answer:
    from bayplan.inspect.why import why_on_node

    every = output in DATA
    if node:
        return why_on_node(cluster, pod, node, every_node=every)
    return cluster.why(pod, every_node=every)


def _remembered(answer: Answer, source: dict[str, Any], scheduler: str) -> Answer:
    from bayplan.cli.remembering import remembered

    history = remembered(answer.pod, source["kubeconfig"], source["context"], scheduler)
    if not history:
        return answer
    import msgspec

    return msgspec.structs.replace(answer, history=history)


def _print(answer: Answer, output: str) -> None:
    from bayplan.inspect.why.render import render

    show(answer, output, lambda: "\n".join(render(answer, wide=output == "wide")))
