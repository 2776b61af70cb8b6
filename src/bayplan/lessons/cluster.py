"""What a small scheduler needs of a cluster: pods that wait, nodes to choose from, a way to bind.

The lessons are about deciding, so the talking to the API server is here, once.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence

from bayplan.api import Node, Pod, decode_list
from bayplan.client import Change, Client, Informer
from bayplan.client.resources import NODES, PODS
from bayplan.framework import NodeInfo, NodeTable

Say = Callable[[str], None]


class LessonCluster:
    """The cluster as a lesson's scheduler sees it."""

    def __init__(self, client: Client, say: Say = lambda text: None) -> None:
        self._client = client
        self._pods = Informer(client, PODS, Pod, field_selector="spec.nodeName=")
        self._nodes = Informer(client, NODES, Node)
        self.say = say

    async def unassigned_pods(self) -> AsyncIterator[Pod]:
        """Yield each pod that has no node, in the order of creation, once."""
        waiting: asyncio.Queue[Pod] = asyncio.Queue()
        self.on_pod_added(waiting.put_nowait)
        while True:
            yield await waiting.get()

    def on_pod_added(self, call: Callable[[Pod], None]) -> None:
        """Call for every new pod without a node."""

        def handler(changes: Sequence[Change[Pod]]) -> None:
            for change in changes:
                if change.type == "ADDED":
                    call(change.new)

        self._pods.add_handler(handler)

    def on_node_change(self, call: Callable[[str, Node], None]) -> None:
        """Call with ADDED, MODIFIED or DELETED and the node."""

        def handler(changes: Sequence[Change[Node]]) -> None:
            for change in changes:
                call(change.type, change.new)

        self._nodes.add_handler(handler)

    async def nodes(self) -> list[NodeInfo]:
        """List all nodes now, in order of their names."""
        listed = decode_list(Node, await self._client.list(NODES)).items
        table = NodeTable()
        for node in sorted(listed, key=lambda node: node.metadata.name):
            table.add_node(node)
        return [table.info(row) for row in range(table.count)]

    async def bind(self, pod: Pod, node_name: str) -> None:
        """Write the decision: POST pods/NAME/binding."""
        meta = pod.metadata
        await self._client.bind(meta.namespace, meta.name, meta.uid, node_name)
        self.say(f"pod {meta.name} is bound to {node_name}")

    async def ready(self) -> None:
        """Return once the first lists have arrived."""
        await self._pods.wait_synced()
        await self._nodes.wait_synced()

    async def watch(self) -> None:
        """Keep watching until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._pods.run())
            group.create_task(self._nodes.run())
