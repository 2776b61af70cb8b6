"""The bugs that the original of each lesson had, each with a scenario that shows it.

"Find it" exercises: `bayplan learn 4 --broken` runs one. The fix is in the lesson itself.
"""

import asyncio
import random
from types import SimpleNamespace

from bayplan.api import Pod
from bayplan.framework import CycleState, NodeInfo
from bayplan.lessons import lesson1, lesson2, lesson3, lesson4, lesson5, lesson6, lesson7
from bayplan.lessons.cluster import LessonCluster
from bayplan.lessons.stage import Stage, Surprise


class NoNodes(lesson1.Scheduler):
    """Lesson 1: does not ask whether there are nodes at all."""

    async def schedule_one(self, pod: Pod) -> None:
        node = self.rng.choice(await self.cluster.nodes())
        await self.cluster.bind(pod, node.name)


async def pod_before_nodes(stage: Stage) -> None:
    """A pod arrives before the first node; the next pod must still be placed."""
    await stage.create_pod("early")
    await stage.sleep(1)
    await stage.create_node("node0")
    await stage.create_pod("late")
    await stage.sleep(1)
    await stage.expect_bound("late")


class NoReasons(lesson2.Scheduler):
    """Lesson 2: the reasons of the filters are never kept."""

    async def schedule_one(self, pod: Pod) -> None:
        feasible, _ = self.filter(pod, await self.cluster.nodes())
        if not feasible:
            self.cluster.say(f"pod {pod.metadata.name}: 0 nodes are available: ")
            return
        await self.cluster.bind(pod, self.rng.choice(feasible).name)


async def why_not(stage: Stage) -> None:
    """A pod that does not fit must be told why."""
    await stage.create_node("node0", unschedulable=True)
    await stage.create_pod("pod1")
    await stage.sleep(1)
    if "unschedulable" not in " ".join(stage.heard):
        raise Surprise("the user was not told that the node was unschedulable")


class WrongWay(lesson3.Scheduler):
    """Lesson 3: as its comment says and its code does not, pod1 favours node9."""

    def score(self, pod: Pod, nodes: list[NodeInfo]) -> list[tuple[int, NodeInfo]]:
        return [(10 - score, node) for score, node in super().score(pod, nodes)]


class MissingState(lesson4.Scheduler):
    """Lesson 4: a pod without a digit writes no state, and reading it is then an error."""

    def best(self, state: CycleState, pod: Pod, nodes: list[NodeInfo]) -> NodeInfo:
        state.read(lesson4.NodeNumber.KEY)
        return super().best(state, pod, nodes)


class TooEarly(lesson5.Scheduler):
    """Lesson 5: on node0 the permit comes before the pod is parked, and is lost."""

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> None:
        if node_name.endswith("0"):
            self.allow(pod.uid, "NodeNumber")  # the timer of zero seconds has fired already
            self.waiting[pod.uid] = lesson5.WaitingPod({"NodeNumber": lesson5.TIMEOUT})
        else:
            super().permit(state, pod, node_name)


async def node_zero(stage: Stage) -> None:
    """A pod on node0 need not wait at all."""
    await stage.create_node("node0")
    await stage.create_pod("pod0")
    await stage.sleep(2)
    await stage.expect_bound("pod0", to="node0")


class NeverCounted(lesson6.Scheduler):
    """Lesson 6: attempts are never counted, so backoff never grows."""

    async def run(self) -> None:
        while True:
            queued = await self.queue.pop()
            queued.attempts = 1
            now = asyncio.get_running_loop().time()
            self.cluster.say(f"pod {queued.pod.metadata.name} is tried")
            self.queue.add_unschedulable(queued, {"NodeUnschedulable"}, now)
            self.queue.move(queued, now)


async def backoff_grows(stage: Stage) -> None:
    """A pod that keeps failing must be tried less and less often."""
    await stage.create_node("node0", unschedulable=True)
    await stage.create_pod("pod1")
    await stage.sleep(30)
    tries = sum("is tried" in text for text in stage.heard)
    if tries > 10:
        raise Surprise(f"the pod was tried {tries} times in 30 seconds")


class LostEvent(lesson7.Scheduler):
    """Lesson 7: the backoff queue is never flushed; an event during backoff loses the pod."""

    def __init__(self, cluster: LessonCluster, rng: random.Random) -> None:
        super().__init__(cluster, rng)
        self.queue.flush = lambda: None  # type: ignore[method-assign]


async def event_during_backoff(stage: Stage) -> None:
    """The open node comes half a second after the failure."""
    await stage.create_node("node0", unschedulable=True)
    await stage.create_pod("pod1")
    await stage.sleep(0.5)
    await stage.create_node("node10")
    await stage.sleep(10)
    await stage.expect_bound("pod1", to="node10")


BROKEN = {
    1: SimpleNamespace(Scheduler=NoNodes, scenario=pod_before_nodes),
    2: SimpleNamespace(Scheduler=NoReasons, scenario=why_not),
    3: SimpleNamespace(Scheduler=WrongWay, scenario=lesson3.scenario),
    4: SimpleNamespace(Scheduler=MissingState, scenario=lesson4.scenario),
    5: SimpleNamespace(Scheduler=TooEarly, scenario=node_zero),
    6: SimpleNamespace(Scheduler=NeverCounted, scenario=backoff_grows),
    7: SimpleNamespace(Scheduler=LostEvent, scenario=event_during_backoff),
}
