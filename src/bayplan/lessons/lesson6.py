"""Lesson 6: the scheduling queue remembers pods that could not be placed.

So far a pod that found no node was forgotten. Now every pod is in one of three places: *active*
(to be tried now), *backoff* (to be tried when its time has come) or *unschedulable* (waiting for
something to change). A failed attempt parks the pod as unschedulable, with the plugins that
rejected it. Who moves it back? Nobody yet: that is lesson 7.
"""

import asyncio
import random
from collections import deque

from bayplan.api import Pod
from bayplan.framework import CycleState
from bayplan.lessons import lesson5
from bayplan.lessons.cluster import LessonCluster
from bayplan.lessons.stage import Stage

FIRST_BACKOFF, LONGEST_BACKOFF = 1.0, 10.0


class QueuedPod:
    """A pod with its history in the queue."""

    def __init__(self, pod: Pod) -> None:
        self.pod = pod
        self.attempts = 0
        self.failed_at = 0.0
        self.rejected_by: set[str] = set()

    @property
    def ready_at(self) -> float:
        """When it may be tried again: 1, 2, 4, 8, 10, 10 … seconds after it failed."""
        wait = FIRST_BACKOFF * 2.0 ** (self.attempts - 1) if self.attempts else 0.0
        return self.failed_at + min(wait, LONGEST_BACKOFF)


class Queue:
    """Active, backoff and unschedulable pods; a pod is in exactly one of them."""

    def __init__(self) -> None:
        self.active: deque[QueuedPod] = deque()
        self.backoff: list[QueuedPod] = []
        self.unschedulable: dict[str, QueuedPod] = {}
        self._more = asyncio.Event()

    def add(self, queued: QueuedPod) -> None:
        """Try this pod as soon as possible."""
        self.active.append(queued)
        self._more.set()

    def add_unschedulable(self, queued: QueuedPod, rejected_by: set[str], now: float) -> None:
        """Park a pod that could not be placed."""
        queued.failed_at = now
        queued.rejected_by = rejected_by
        self.unschedulable[queued.pod.uid] = queued

    def move(self, queued: QueuedPod, now: float) -> None:
        """Give a parked pod another chance: now, or when its backoff is over."""
        self.unschedulable.pop(queued.pod.uid, None)
        if queued.ready_at <= now:
            self.add(queued)
        else:
            self.backoff.append(queued)
            asyncio.get_running_loop().call_later(queued.ready_at - now, self.flush)

    def flush(self) -> None:
        """Let pods go whose backoff is over."""
        now = asyncio.get_running_loop().time()
        ready = [queued for queued in self.backoff if queued.ready_at <= now + 1e-6]
        self.backoff = [queued for queued in self.backoff if queued not in ready]
        for queued in ready:
            self.add(queued)

    async def pop(self) -> QueuedPod:
        """The next pod to try; waits until there is one."""
        while not self.active:
            self._more.clear()
            await self._more.wait()
        queued = self.active.popleft()
        queued.attempts += 1
        return queued


class Scheduler(lesson5.Scheduler):
    """Takes pods from the queue, and puts back those that fail."""

    def __init__(self, cluster: LessonCluster, rng: random.Random) -> None:
        super().__init__(cluster, rng)
        self.queue = Queue()
        cluster.on_pod_added(lambda pod: self.queue.add(QueuedPod(pod)))

    async def run(self) -> None:
        while True:
            queued = await self.queue.pop()
            rejected_by = await self.rejected_by(queued.pod)
            if not rejected_by:
                await self.schedule_one(queued.pod)
                continue
            names = ", ".join(sorted(rejected_by))
            self.cluster.say(f"pod {queued.pod.metadata.name} is unschedulable ({names})")
            now = asyncio.get_running_loop().time()
            self.queue.add_unschedulable(queued, rejected_by, now)

    async def rejected_by(self, pod: Pod) -> set[str]:
        """The plugins that leave this pod without a node; empty when one fits."""
        rejected_by: set[str] = set()
        for node in await self.cluster.nodes():
            for plugin in self.filters:
                if plugin.filter_node(CycleState(), pod, node) is not None:
                    rejected_by.add(plugin.name)
                    break
            else:
                return set()
        return rejected_by or {"no nodes"}


async def scenario(stage: Stage) -> None:
    """Every node is cordoned: the pod is parked, and stays parked."""
    for number in range(9):
        await stage.create_node(f"node{number}", unschedulable=True)
    stage.say("scenario: all nodes created")
    await stage.create_pod("pod1")
    await stage.sleep(3)
    await stage.expect_unbound("pod1")
