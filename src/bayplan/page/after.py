"""The cluster after a what-if as rows: all that the engine then holds differently.

The browser has the cluster before; it gets the nodes and pods that are new or changed, in the rows
of `rows` with texts of their own. A pod names its node by name, as slots are the browser's. A node
that is lost stays, marked as one that is not there, so that both maps have the same places. The
engine does not know pods on nodes that were missing before; they stay as they were.
"""

from __future__ import annotations

from collections.abc import Sequence

from bayplan.api import Node, Pod
from bayplan.engine.engine import Engine
from bayplan.inspect import Cluster
from bayplan.inspect.whatif.settling import Waiting
from bayplan.page.rows import (
    BOUND,
    GHOST,
    MESSAGE,
    NODE,
    NODE_FLAGS,
    PLACE,
    UNSCHEDULABLE,
    Row,
    Texts,
    node_row,
    pod_row,
)

Json = dict[str, object]


class After:
    """Looks at an engine while it holds what a what-if made of a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._texts = Texts()
        self._nodes: list[Row] = []
        self._pods: dict[str, Row | None] = {}

    def look(self, engine: Engine, waiting: Sequence[Waiting]) -> None:
        """Take over what differs; `waiting` are the pods that have no node then."""
        table = engine.cache.table
        known_nodes, known_pods = self._cluster.nodes, self._cluster.pods
        nodes = {node.name: node for node in table.nodes}
        for name, node in nodes.items():
            old = known_nodes.get(name)
            if node is not old and node != old:
                self._nodes.append(node_row(node, self._texts))
        self._nodes += [self._lost(node) for name, node in known_nodes.items() if name not in nodes]
        present = set()
        for info in table.all_pods():
            key, pod = info.pod.key, info.pod
            present.add(key)
            if _differs(pod, info.node_name, known_pods.get(key)):
                self._pods[key] = self._row(pod, info.node_name)
        for item in waiting:
            key = item.pod.key
            if key not in present and _differs(item.pod, "", known_pods.get(key)):
                self._pods[key] = self._row(item.pod, "", item.message)
        present.update(item.pod.key for item in waiting)
        for key, pod in known_pods.items():
            if pod.spec.node_name in known_nodes and not pod.finished and key not in present:
                self._pods[key] = None

    def told(self) -> Json:
        """Return everything for the browser."""
        pods = list(self._pods.items())
        return {"texts": self._texts.all, "nodes": self._nodes, "pods": pods}

    def _lost(self, node: Node) -> Row:
        row = node_row(node, self._texts)
        return (*row[:NODE_FLAGS], GHOST, *row[NODE_FLAGS + 1 :])

    def _row(self, pod: Pod, node: str, message: str = "") -> Row:
        row = list(pod_row(pod, 0, 0, self._texts))
        row[MESSAGE] = message or row[MESSAGE]
        row[NODE], row[PLACE] = node, BOUND if node else UNSCHEDULABLE
        return tuple(row)


def _differs(pod: Pod, node: str, old: Pod | None) -> bool:
    if old is None or old.spec.node_name != node:
        return True
    return pod is not old and pod.spec.containers != old.spec.containers
