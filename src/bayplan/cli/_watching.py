"""Watches a cluster beside an extender, so that its calls need to carry only the names of nodes."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from bayplan.api import Node, Object, Pod
from bayplan.client import Change, Informer, connect, load_kubeconfig
from bayplan.client.resources import NODES, PODS
from bayplan.extender.nodes import NodeCache

Deliver = Callable[[Sequence[Change[Object]]], None]


class Watching:
    """Fills a node cache, the author's if there is one; `deliver` also gets pods and nodes."""

    def __init__(
        self, kubeconfig: str, deliver: Deliver | None = None, nodes: object | None = None
    ) -> None:
        self._connection = load_kubeconfig(kubeconfig)
        self._deliver = deliver
        self.nodes = nodes if isinstance(nodes, NodeCache) else NodeCache()

    def _keep(self, informer: Informer[Node], changes: Sequence[Change[Node]]) -> None:
        texts = informer.texts or {}
        for change in changes:
            name = change.new.metadata.name
            if change.type == "DELETED":
                self.nodes.drop(name)
            else:
                self.nodes.put(change.new, texts.get(name, b""))

    async def run(self) -> None:
        """Watch until cancelled."""
        client = connect(self._connection)
        try:
            nodes = Informer(client, NODES, Node, keep_texts=True)
            nodes.add_handler(partial(self._keep, nodes))
            informers: list[Informer[Node] | Informer[Pod]] = [nodes]
            if self._deliver is not None:
                informers.append(Informer(client, PODS, Pod))
                for informer in informers:
                    informer.add_handler(self._deliver)  # type: ignore[arg-type]
            async with asyncio.TaskGroup() as group:
                for informer in informers:
                    group.create_task(informer.run())
        finally:
            await client.close()
