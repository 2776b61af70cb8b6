"""Runs the scheduler's core on a cluster in memory: changes in, actions carried out at once.

It decides when nothing else is left to do at a moment, as the live driver of the faithful lane
does, and wakes at the core's deadlines; so both see the same state at the same times. Where
simulated extenders take time to answer, what a step decided takes effect after that time, and what
happens meanwhile is held back.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine, Sequence
from typing import Protocol

import structlog

from bayplan.api import Object, Pod
from bayplan.client import Change, Client, ClientError, Conflict, Informer, NotFound, Resource
from bayplan.client.resources import NODES, PODS
from bayplan.clock import VirtualLoop
from bayplan.engine.loop import Scheduler
from bayplan.engine.loop.actions import Action, Bind, CallApi, Evict, PatchPod, RecordEvent
from bayplan.engine.loop.inputs import BindDone, CallsDone, Evicted, Input
from bayplan.scheduler.apicalls import carry_out
from bayplan.scheduler.feed import kinds_of
from bayplan.scheduler.live import PODS_PER_TURN
from bayplan.sim.extender import SimulatedExtender
from bayplan.sim.fast.cluster import Entry, FastCluster

log = structlog.get_logger(__name__)

Told = Callable[[RecordEvent], None]


class Kinds(Protocol):
    """Which kinds the API server knows, and of which there has been an object."""

    stored: set[str]
    """What keys of stored objects began with; whoever adds to it tells `FastScheduler.came`."""

    def prefix_of(self, resource: Resource) -> str:
        """What the keys of a kind's objects begin with; "" if there is no such kind."""


class FastScheduler:
    """One scheduler, which can be stopped and started; nothing but the cluster outlives that."""

    elects = False

    def __init__(
        self,
        make: Callable[[], Scheduler],
        cluster: FastCluster,
        client: Client,
        wall: Callable[[], float],
        told: Told | None,
        kinds: Kinds,
    ) -> None:
        self._make = make
        self._cluster = cluster
        self._client = client
        self._wall = wall
        self._told = told
        self._kinds = kinds
        self._absent: dict[str, tuple[Resource, type[Object]]] = {}
        """Kinds without an object so far, by what its key would begin with."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._due = math.inf
        """When the timer rings."""
        self._awake = self._away = self._runs = False
        self._held: list[Callable[[], None]] = []
        self.core = make()
        self._begun = False

    @property
    def scheduler(self) -> FastScheduler | None:
        """Itself, if it runs."""
        return self if self._runs else None

    async def start(self) -> None:
        """Fill the caches and begin."""
        if self._begun:
            self.core = self._make()
        self._begun = self._runs = True
        informers = []
        for resource, kind in kinds_of(self.core.gates):
            prefix = "" if resource in (PODS, NODES) else self._kinds.prefix_of(resource)
            if prefix in self._kinds.stored:
                informers.append(self._follow(resource, kind))
            elif prefix:  # others would be asked for again and again
                self._absent[prefix] = resource, kind
        for resource in (NODES, PODS):
            for entry in self._cluster.all(resource):
                self._written("ADDED", resource, entry, None)
            self._cluster.listen(resource, self._written)
        for informer in informers:
            await informer.wait_synced()
        self._wake()

    def _follow(self, resource: Resource, kind: type[Object]) -> Informer[Object]:
        informer = Informer(self._client, resource, kind, jitter=lambda: 0.0, optional=True)
        informer.add_handler(self._changed)
        self._spawn(informer.run())
        return informer

    def came(self, prefix: str) -> None:
        """The first object of a kind was stored; kinds without objects need no following."""
        if (found := self._absent.pop(prefix, None)) is not None:
            self._follow(*found)

    async def stop(self, *, drain: bool = False) -> None:
        """End at once."""
        self._runs = False
        self._absent.clear()
        for resource in (NODES, PODS):
            self._cluster.unlisten(resource, self._written)
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._due = None, math.inf
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._held.clear()
        self._away = False

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("a part of the scheduler failed", exc_info=task.exception())

    # -- changes in

    def _written(self, action: str, resource: Resource, entry: Entry, old: Entry | None) -> None:
        item = entry.typed
        if isinstance(item, Pod) and item.finished:  # the live scheduler does not watch them
            action = "DELETED"
        elif action == "MARKED" and self.core.calm and not self._away:
            return  # it would wake nobody, and is gone in a moment
        self._take(action, item)

    def _changed(self, changes: Sequence[Change[Object]]) -> None:
        for kind, new, _ in changes:
            self._take(kind, new)

    def _take(self, action: str, item: Object) -> None:
        if self._away:
            self._held.append(lambda: self._take(action, item))
            return
        if action == "DELETED":
            self.core.delete(item, self._wall())
        else:
            self.core.put(item, self._wall())
        self._look()

    def _report(self, result: Input) -> None:
        if self._away:
            self._held.append(lambda: self._report(result))
            return
        self.core.handle(result, self._wall())
        self._look()

    # -- decisions out

    def _look(self) -> None:
        """Plan a turn if there is something to do, now or at a deadline; most changes ask none."""
        if self._awake or not self._runs:
            return
        if self.core.ready or self.core.bindings.polls:
            self._wake()  # who polls is asked again after every change
        elif (due := self.core.next_wake()) < self._due:
            self._plan(due)

    def _plan(self, due: float) -> None:
        """Wake at the core's next deadline; a turn that comes too early does nothing."""
        if self._timer is not None:
            self._timer.cancel()
        self._due = due
        delay = max(due - self._wall(), 0.0)
        self._timer = asyncio.get_running_loop().call_later(delay, self._ring)

    def _ring(self) -> None:
        self._timer, self._due = None, math.inf
        self._wake()

    def _wake(self) -> None:
        if not self._awake and self._runs:
            self._awake = True
            loop = asyncio.get_running_loop()
            assert isinstance(loop, VirtualLoop)
            loop.call_idle(self._turn)

    def _turn(self) -> None:
        self._awake = False
        if not self._runs or self._away:
            return
        slow = [e for e in self.core.engine.extenders if isinstance(e, SimulatedExtender)]
        actions = self.core.step(self._wall(), limit=1 if slow else PODS_PER_TURN)
        owed = sum(extender.owed() for extender in slow)
        if owed:
            self._away = True
            asyncio.get_running_loop().call_later(owed, self._back, actions)
            return
        self._go_on(actions)

    def _back(self, actions: list[Action]) -> None:
        """The extenders have answered: what was held back comes first, as in the live driver."""
        if not self._away:
            return
        self._away = False
        held, self._held = self._held, []
        for apply in held:
            apply()
        self._go_on(actions)

    def _go_on(self, actions: list[Action]) -> None:
        core, waiting = self.core, self._awake
        self._awake = True  # whatever is reported meanwhile, this looks at it in the end
        while actions:
            for action in actions:
                self._perform(action)
            # What follows from bindings is carried out now; pods are tried in a turn of their own.
            more = core.ready and not core.queue.ready
            actions = core.step(self._wall(), limit=0) if more else []
        self._awake = waiting
        if core.ready:
            self._wake()
        elif (due := core.next_wake()) < self._due:
            self._plan(due)

    def _perform(self, action: Action) -> None:
        if isinstance(action, Bind):
            self._bind(action.pod, action.node_name)
        elif isinstance(action, PatchPod):
            self._patch(action)
        elif isinstance(action, Evict):
            self._evict(action)
        elif isinstance(action, CallApi):
            self._spawn(self._call(action))
        elif isinstance(action, RecordEvent) and self._told is not None:
            self._told(action)
        # extenders of scenarios do not bind

    def _bind(self, pod: Pod, node: str) -> None:
        uid = pod.metadata.uid
        try:
            self._cluster.bind(pod.key, uid, node)
        except ClientError as problem:
            self._report(BindDone(uid, str(problem)))
        else:
            # Nothing can hold this back: what decides is here, not with an extender.
            self.core.bind_done(uid, "", self._wall())

    def _patch(self, action: PatchPod) -> None:
        body = action.body()
        if not body.get("status"):
            return
        try:
            self._cluster.patch(PODS, action.pod.key, body, "strategic", "status")
        except (NotFound, Conflict):
            return  # it is gone, or another of its name

    def _evict(self, action: Evict) -> None:
        victim, error = action.victim, ""
        uid = victim.metadata.uid
        try:
            body = action.condition_body()
            self._cluster.patch(PODS, victim.key, body, "strategic", "status")
            self._cluster.delete(PODS, victim.key, uid=uid)
        except (NotFound, Conflict):
            pass  # there is nothing left to take away
        except ClientError as problem:
            error = str(problem)
        self._report(Evicted(action.preemptor.metadata.uid, uid, error))

    async def _call(self, action: CallApi) -> None:
        error = ""
        try:
            for call in action.calls:
                await carry_out(self._client, call)
        except ClientError as problem:
            error = str(problem)
        if action.work:
            self._report(CallsDone(action.work, error))
