"""What would help a pod, as the changes of a what-if that try it.

A fix of `why` says what it does to the pod (a JSON patch), what it creates, what it takes away, and
which commands change a node; each becomes the change that does the same, written as `bayplan
whatif` takes it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from bayplan.api import Node, Taint, yaml
from bayplan.inspect import Cluster
from bayplan.inspect.step import Ops, set_to
from bayplan.inspect.why.answer import Fix

UNCORDON = re.compile(r"kubectl uncordon (\S+)$")
UNTAINT = re.compile(r"kubectl taint nodes (\S+) (\S+):(\w+)-$")
LABEL = re.compile(r"kubectl label node (\S+) (.*) --overwrite$")


def changes_of(cluster: Cluster, key: str, fix: Fix) -> list[str]:
    """Return the changes that try what would help a pod; none where nothing can be tried."""
    return list(_changes(cluster, key, fix))


def _changes(cluster: Cluster, key: str, fix: Fix) -> Iterator[str]:
    namespace, _, name = key.rpartition("/")
    left: dict[str, list[Taint]] = {}
    shut = []
    for command in fix.commands:
        if found := UNCORDON.match(command):
            shut.append(found[1])
        elif found := UNTAINT.match(command):
            taints = left.setdefault(found[1], list(cluster.nodes[found[1]].spec.taints))
            left[found[1]] = [t for t in taints if (t.key, t.effect) != (found[2], found[3])]
        elif found := LABEL.match(command):
            pairs = [part.split("=", 1) for part in found[2].split()]
            yield _patch("node", found[1], _labels(cluster.nodes[found[1]], dict(pairs)))
    for node, taints in left.items():
        yield _patch("node", node, (set_to(msgspec.to_builtins(taints), "spec", "taints"),))
    yield from (f"uncordon={node}" for node in shut)  # after the taints: it takes one more away
    if fix.objects:
        yield "apply=" + yaml.dump_all(list(fix.objects)).strip()
    if fix.patch:
        yield _patch(f"{namespace}/pod", name, fix.patch)
        return  # whom the pod then preempts goes by itself
    for other in fix.removes:
        space, _, pod = other.rpartition("/")
        yield f"delete={space}/pod/{pod}"


def _patch(kind: str, name: str, ops: Ops) -> str:
    return f"patch={kind}/{name}={msgspec.json.encode(ops).decode()}"


def _labels(node: Node, labels: dict[str, str]) -> Ops:
    if not node.labels:
        return (set_to(labels, "metadata", "labels"),)
    return tuple(set_to(value, "metadata", "labels", key) for key, value in labels.items())
