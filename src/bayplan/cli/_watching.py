"""Watches a cluster beside an extender, so that its calls need to carry only the names of nodes."""

import asyncio
from collections.abc import Callable, Sequence

from bayplan.api import Node, Object, Pod
from bayplan.client import Change, Informer, connect, load_kubeconfig
from bayplan.client.resources import NODES, PODS

Deliver = Callable[[Sequence[Change[Object]]], None]


class Watching:
    """A node cache that fills itself from a cluster; `deliver` also gets pods and nodes."""

    def __init__(self, kubeconfig: str, deliver: Deliver | None = None) -> None:
        self._connection = load_kubeconfig(kubeconfig)
        self._deliver = deliver
        self._nodes: Informer[Node] | None = None

    def node_json(self, name: str) -> bytes | None:
        """The node as JSON, None when it is not known (yet)."""
        if self._nodes is None or self._nodes.texts is None:
            return None
        return self._nodes.texts.get(name)

    async def run(self) -> None:
        """Watch until cancelled."""
        client = connect(self._connection)
        try:
            self._nodes = Informer(client, NODES, Node, keep_texts=True)
            informers: list[Informer[Node] | Informer[Pod]] = [self._nodes]
            if self._deliver is not None:
                informers.append(Informer(client, PODS, Pod))
                for informer in informers:
                    informer.add_handler(self._deliver)  # type: ignore[arg-type]
            async with asyncio.TaskGroup() as group:
                for informer in informers:
                    group.create_task(informer.run())
        finally:
            await client.close()
