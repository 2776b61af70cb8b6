"""Lesson 5: permit plugins hold a pod back, and binding moves out of the loop.

After a node is chosen a *permit plugin* may say wait. The pod is then parked with its node, and the
scheduler must go on with other pods: so the *binding cycle* (wait for the permits, then bind)
runs as a task of its own. The scheduling cycle stays serial, binding cycles run side by side.
NodeNumber permits a pod as many seconds later as its node's digit says.
"""

import asyncio
import random
from collections.abc import Callable

from bayplan.api import Pod
from bayplan.framework import Code, CycleState, Status
from bayplan.lessons import lesson4
from bayplan.lessons.cluster import LessonCluster
from bayplan.lessons.stage import Stage

TIMEOUT = 10.0


class WaitingPod:
    """A pod that has a node but must wait until every plugin allows it."""

    def __init__(self, plugins: dict[str, float]) -> None:
        self._missing = set(plugins)
        self._timeout = min(plugins.values())
        self._decided = asyncio.Event()

    def allow(self, plugin: str) -> None:
        self._missing.discard(plugin)
        if not self._missing:
            self._decided.set()

    async def wait(self) -> bool:
        """True once all have allowed it, False when the time is up."""
        try:
            async with asyncio.timeout(self._timeout):
                await self._decided.wait()
        except TimeoutError:
            return False
        return True


class NodeNumber(lesson4.NodeNumber):
    """Also delays: a pod on node3 is allowed three seconds later."""

    def __init__(self, allow: Callable[[str, str], None]) -> None:
        self._allow = allow

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> tuple[Status | None, float]:
        digit = node_name[-1:]
        if not digit.isdigit():
            return None, 0.0
        loop = asyncio.get_running_loop()
        loop.call_later(int(digit), self._allow, pod.uid, self.name)
        return Status(Code.WAIT), TIMEOUT


class Scheduler(lesson4.Scheduler):
    """Chooses as in lesson 4; binding waits for permits in tasks of its own."""

    def __init__(self, cluster: LessonCluster, rng: random.Random) -> None:
        super().__init__(cluster, rng)
        self.waiting: dict[str, WaitingPod] = {}
        self.permits = [NodeNumber(self.allow)]
        self._bindings: set[asyncio.Task[None]] = set()

    def allow(self, uid: str, plugin: str) -> None:
        if uid in self.waiting:
            self.waiting[uid].allow(plugin)

    async def schedule_one(self, pod: Pod) -> None:
        state = CycleState()
        node_name = await self.choose(state, pod)
        if not node_name:
            self.cluster.say(f"pod {pod.metadata.name}: no node fits")
            return
        self.permit(state, pod, node_name)
        task = asyncio.create_task(self.bind(pod, node_name))
        self._bindings.add(task)
        task.add_done_callback(self._bindings.discard)

    async def choose(self, state: CycleState, pod: Pod) -> str:
        nodes = [
            node
            for node in await self.cluster.nodes()
            if all(plugin.filter_node(state, pod, node) is None for plugin in self.filters)
        ]
        for plugin in self.scores:
            plugin.remember(state, pod)
        return self.best(state, pod, nodes).name if nodes else ""

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Ask all permit plugins; the pod is parked before any of them can allow it."""
        answers = {plugin.name: plugin.permit(state, pod, node_name) for plugin in self.permits}
        waits = {
            name: seconds
            for name, (status, seconds) in answers.items()
            if status is not None and status.code is Code.WAIT
        }
        if waits:
            self.waiting[pod.uid] = WaitingPod(waits)

    async def bind(self, pod: Pod, node_name: str) -> None:
        """The binding cycle."""
        parked = self.waiting.get(pod.uid)
        allowed = parked is None or await parked.wait()
        self.waiting.pop(pod.uid, None)
        if allowed:
            await self.cluster.bind(pod, node_name)
        else:
            self.cluster.say(f"pod {pod.metadata.name}: not permitted in time")


async def scenario(stage: Stage) -> None:
    """pod9 waits nine seconds, and pod1 does not wait for pod9."""
    for number in range(10):
        await stage.create_node(f"node{number}")
    stage.say("scenario: all nodes created")
    for pod in ("pod1", "pod9"):
        await stage.create_pod(pod)
    await stage.sleep(4)
    await stage.expect_bound("pod1", to="node1")
    await stage.expect_unbound("pod9")
    await stage.sleep(7)
    await stage.expect_bound("pod9", to="node9")
