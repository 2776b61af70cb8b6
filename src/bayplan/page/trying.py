"""What would help a pod, as changes to be tried in a what-if.

A fix of `why` says what it does to the pod (a JSON patch), what it creates, what it takes away, and
which commands change a node; each becomes the change that does the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec.structs import replace

from bayplan.api import Node, to_builtins
from bayplan.errors import ConfigError
from bayplan.inspect import Cluster
from bayplan.inspect.whatif import AnyChange
from bayplan.inspect.whatif.changes import Apply, Delete, Patch, Uncordon
from bayplan.inspect.why import why_pod
from bayplan.inspect.why.answer import Fix

UNCORDON = re.compile(r"kubectl uncordon (\S+)$")
UNTAINT = re.compile(r"kubectl taint nodes (\S+) (\S+):(\w+)-$")
LABEL = re.compile(r"kubectl label node (\S+) (.*) --overwrite$")


def helping(cluster: Cluster, key: str, change: str) -> tuple[Fix, list[AnyChange]]:
    """Return what helps a pod, by the words that `why` has for it, and the same as changes."""
    answer = why_pod(cluster, cluster.pod(key))
    fix = next((item for item in answer.fixes if item.change == change), None)
    if fix is None:
        raise ConfigError(f'"{change}" is not among what would help {key} now; ask why again')
    return fix, list(_changes(cluster, key, fix))


def _changes(cluster: Cluster, key: str, fix: Fix) -> Iterator[AnyChange]:
    namespace, _, name = key.rpartition("/")
    for command in fix.commands:
        if found := UNCORDON.match(command):
            yield Uncordon(found[1])
        elif found := UNTAINT.match(command):
            yield _applied(_untainted(cluster.nodes[found[1]], found[2], found[3]))
        elif found := LABEL.match(command):
            labels = dict(part.split("=", 1) for part in found[2].split())
            yield _applied(_labelled(cluster.nodes[found[1]], labels))
    if fix.objects:
        yield Apply(documents=fix.objects)
    if fix.patch:
        yield Patch(kind="pod", name=name, namespace=namespace, patch=fix.patch)
        return  # whom the pod then preempts goes by itself
    for other in fix.removes:
        space, _, pod = other.rpartition("/")
        yield Delete(kind="pod", name=pod, namespace=space)


def _untainted(node: Node, key: str, effect: str) -> Node:
    left = tuple(t for t in node.spec.taints if (t.key, t.effect) != (key, effect))
    return replace(node, spec=replace(node.spec, taints=left))


def _labelled(node: Node, labels: dict[str, str]) -> Node:
    return replace(node, metadata=replace(node.metadata, labels={**node.labels, **labels}))


def _applied(node: Node) -> Apply:
    return Apply(documents=({"apiVersion": "v1", "kind": "Node", **to_builtins(node)},))
