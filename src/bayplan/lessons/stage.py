"""The stage of a lesson's scenario: a few verbs on a real API server in virtual time."""

import asyncio

import msgspec

from bayplan.client import Client
from bayplan.client.resources import NODES, PODS
from bayplan.errors import BayplanError
from bayplan.lessons.cluster import Say


class Surprise(BayplanError):
    """Something came out differently than the lesson says."""


class Stage:
    """What a scenario does with the cluster."""

    def __init__(self, client: Client, say: Say = lambda text: None) -> None:
        self._client = client
        self._say = say
        self.heard: list[str] = []
        """All that scenario and scheduler said."""

    def say(self, text: str) -> None:
        """Tell the learner something."""
        self.heard.append(text)
        self._say(text)

    async def create_node(self, name: str, *, unschedulable: bool = False) -> None:
        spec = {"unschedulable": True} if unschedulable else {}
        status = {"capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"}}
        body = {"metadata": {"name": name}, "spec": spec, "status": status}
        await self._client.create(NODES, body)

    async def create_pod(self, name: str) -> None:
        container = {"name": "container1", "image": "registry.k8s.io/pause:3.5"}
        body = {"metadata": {"name": name}, "spec": {"containers": [container]}}
        await self._client.create(PODS, body, "default")
        self.say(f"scenario: {name} created")

    async def sleep(self, seconds: float) -> None:
        """Let time pass; simulated time passes at once."""
        await asyncio.sleep(seconds)

    async def node_of(self, pod: str) -> str:
        """The node that a pod is bound to, empty if none."""
        found = msgspec.json.decode(await self._client.get(PODS, pod, "default"))
        return str(found["spec"].get("nodeName", ""))

    async def expect_bound(self, pod: str, to: str = "") -> None:
        """The pod must be bound (to this node)."""
        node = await self.node_of(pod)
        if not node or (to and node != to):
            raise Surprise(
                f"expected {pod} on {to or 'a node'}, it is {'on ' + node if node else 'not bound'}"
            )
        self.say(f"scenario: {pod} is bound to {node}")

    async def expect_unbound(self, pod: str) -> None:
        """The pod must still be waiting."""
        if node := await self.node_of(pod):
            raise Surprise(f"expected {pod} to wait, it is on {node}")
        self.say(f"scenario: {pod} is not bound, as it should be")
