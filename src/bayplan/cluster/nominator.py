"""Pods that wait for room on a node that preemption made, or that someone set aside for them.

Filters count a nominated pod as if it ran on its node when the incoming pod is not more important.
Order within a node is the order of nomination. Nominations are kept by uid.
"""

from __future__ import annotations

from collections.abc import Iterator

from bayplan.cluster.info import PodInfo


class Nominator:
    """Node name to the pods nominated to it."""

    def __init__(self) -> None:
        self._by_node: dict[str, dict[str, PodInfo]] = {}
        self._node_of: dict[str, str] = {}
        self.revision = 0

    def add(self, info: PodInfo, node_name: str) -> None:
        """Nominate a pod; an empty node name only withdraws an earlier nomination."""
        self.delete(info.uid)
        if node_name:
            self._by_node.setdefault(node_name, {})[info.uid] = info
            self._node_of[info.uid] = node_name
            self.revision += 1

    def delete(self, uid: str) -> None:
        node_name = self._node_of.pop(uid, None)
        if node_name is not None:
            pods = self._by_node[node_name]
            del pods[uid]
            if not pods:
                del self._by_node[node_name]
            self.revision += 1

    def node_of(self, uid: str) -> str:
        """The node a pod is nominated to, or an empty text."""
        return self._node_of.get(uid, "")

    def pods_for(self, node_name: str) -> list[PodInfo]:
        return list(self._by_node.get(node_name, {}).values())

    def nodes(self) -> Iterator[str]:
        """Names of nodes that have nominated pods."""
        return iter(self._by_node)

    def __len__(self) -> int:
        return len(self._node_of)
