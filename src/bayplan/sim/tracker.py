"""What a scenario has seen so far: the life of every pod and node, and events, with times.

Fed with objects as they were written (from the store's log in a simulation, from watches on a
real cluster), it keeps what expectations and reports ask for. Whoever waits is woken by each
change, so that nothing polls. It keeps no whole objects and never asks the API server.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress

import msgspec

from bayplan.api import Condition, Container, Node, Pod, quantity
from bayplan.clock import rest
from bayplan.sim.objects import ZONE

Refresh = Callable[[], Awaitable[float]]
"""Looks at what the tracker does not see; returns the seconds until the next look."""
INSTANT = 1e-6  # shorter waits are rounding
TOLD = ("DisruptionTarget", "PodScheduled")  # conditions that are looked at
AFTERWARDS = (0.5, 1.0, 2.0, 8.0)  # seconds between measurements


class _Meta(msgspec.Struct, rename="camel", gc=False):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    labels: dict[str, str] | None = None
    deletion_timestamp: str | None = None


class _Resources(msgspec.Struct, gc=False):
    requests: dict[str, str | int | float] | None = None


class _Container(msgspec.Struct, gc=False):
    resources: _Resources | None = None


class _Condition(msgspec.Struct, gc=False):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class _PodSpec(msgspec.Struct, rename="camel"):
    node_name: str = ""
    containers: list[_Container] = []
    priority: int = 0
    scheduling_gates: list[msgspec.Raw] | None = None


class _PodStatus(msgspec.Struct, rename="camel"):
    phase: str = ""
    conditions: list[_Condition] | None = None
    nominated_node_name: str = ""


class _Pod(msgspec.Struct):
    metadata: _Meta
    spec: _PodSpec
    status: _PodStatus = msgspec.field(default_factory=_PodStatus)


class _NodeSpec(msgspec.Struct, rename="camel"):
    unschedulable: bool = False


class _NodeStatus(msgspec.Struct):
    allocatable: dict[str, str | int | float] | None = None
    conditions: list[_Condition] | None = None


class _Node(msgspec.Struct):
    metadata: _Meta
    spec: _NodeSpec = msgspec.field(default_factory=_NodeSpec)
    status: _NodeStatus = msgspec.field(default_factory=_NodeStatus)


class _Reference(msgspec.Struct):
    kind: str = ""
    name: str = ""
    namespace: str = ""


class _Event(msgspec.Struct, rename="camel"):
    metadata: _Meta
    reason: str = ""
    note: str = ""
    message: str = ""
    type: str = ""
    regarding: _Reference | None = None
    involved_object: _Reference | None = None


_pod = msgspec.json.Decoder(_Pod).decode
_node = msgspec.json.Decoder(_Node).decode
_event = msgspec.json.Decoder(_Event).decode


class Reason(msgspec.Struct, frozen=True):
    """Why a pod was pending, from a moment on."""

    time: float
    reason: str
    message: str


class PodLife(msgspec.Struct):
    """One pod, from its creation until it was gone."""

    key: str
    uid: str
    created: float
    labels: dict[str, str]
    cpu: int = 0
    """Requested, in thousandths."""
    memory: int = 0
    priority: int = 0
    node: str = ""
    bound: float | None = None
    phase: str = "Pending"
    running: float | None = None
    finished: float | None = None
    deleting: float | None = None
    gone: float | None = None
    nominated: str = ""
    disruption: str = ""
    """Why somebody other than its owner ended it: PreemptionByScheduler, EvictionByEvictionAPI …"""
    reasons: list[Reason] = []
    gates: int = 0

    @property
    def namespace(self) -> str:
        return self.key.partition("/")[0]

    @property
    def name(self) -> str:
        return self.key.partition("/")[2]

    @property
    def why(self) -> str:
        """Why it is not bound, in the scheduler's words."""
        if self.node or not self.reasons:
            return ""
        last = self.reasons[-1]
        return last.message or last.reason

    @property
    def end(self) -> float | None:
        """When it stopped to use its node."""
        return self.finished if self.finished is not None else self.gone


class NodeLife(msgspec.Struct):
    """One node, from its creation until it was gone."""

    name: str
    created: float
    labels: dict[str, str] = {}
    cpu: int = 0
    memory: int = 0
    pods: int = 0
    ready: bool = False
    unschedulable: bool = False
    gone: float | None = None

    @property
    def zone(self) -> str:
        return self.labels.get(ZONE, "")


class Seen(msgspec.Struct, frozen=True):
    """An event that somebody recorded about an object."""

    time: float
    reason: str
    kind: str
    object: str
    """Namespace and name, or name."""
    message: str


class Moment(msgspec.Struct, frozen=True):
    """One line of the timeline."""

    time: float
    what: str
    """created, bound, pending, running, succeeded, failed, deleted, evicted, node, note …"""
    subject: str
    text: str

    def line(self) -> str:
        return f"{self.time:10.3f}s  {self.text}"


class Tracker:
    """Everything seen; see the module's docstring."""

    def __init__(self, *, keep: bool = True) -> None:
        self.keep = keep
        """False: pods that are gone are forgotten and there is no timeline, for very long runs."""
        self.pods: dict[str, PodLife] = {}
        """Those that exist, by namespace and name."""
        self.names: set[str] = set()
        """Of all pods that ever were, by namespace and name."""
        self.past: list[PodLife] = []
        self.nodes: dict[str, NodeLife] = {}
        self.past_nodes: list[NodeLife] = []
        self.events: list[Seen] = []
        self.timeline: list[Moment] = []
        self.queues: list[tuple[float, dict[str, int]]] = []
        self.created = self.bound = self.ended = 0
        self._sizes: Callable[[], dict[str, int]] | None = None
        self._waiting: list[asyncio.Future[None]] = []
        self._listeners: list[Callable[[PodLife], None]] = []
        self._requests: dict[tuple[tuple[str, str | int | float], ...], tuple[int, int]] = {}

    def measure_queues(self, sizes: Callable[[], dict[str, int]] | None) -> None:
        """Ask for the lengths of the scheduler's queues after each change."""
        self._sizes = sizes

    def every_pod(self) -> list[PodLife]:
        """Those that are gone and those that exist."""
        return [*self.past, *self.pods.values()]

    def every_node(self) -> list[NodeLife]:
        return [*self.past_nodes, *self.nodes.values()]

    def note(self, time: float, text: str, what: str = "note", subject: str = "") -> None:
        """Add a line to the timeline."""
        if self.keep:
            self.timeline.append(Moment(time, what, subject, text))

    def listen(self, listener: Callable[[PodLife], None]) -> None:
        """Call with every pod that changed or is gone."""
        self._listeners.append(listener)

    def unlisten(self, listener: Callable[[PodLife], None]) -> None:
        self._listeners.remove(listener)

    # -- input

    def see(self, time: float, action: str, resource: str, value: bytes) -> None:
        """Take over one write: ADDED, MODIFIED or DELETED of a pod, node or event."""
        if resource == "pods":
            self._see_pod(time, action, _pod(value))
        elif resource == "nodes":
            self._see_node(time, action, _node(value))
        elif resource == "events":
            if action != "DELETED" and self.keep:
                self._see_event(time, _event(value))
        else:
            return
        self._changed(time)

    def see_pod(self, time: float, action: str, pod: Pod) -> None:
        """Take over one write of a pod that is at hand as a struct."""
        self._see_pod(time, action, pod)
        if self.keep or self._waiting:
            self._changed(time)

    def see_node(self, time: float, action: str, node: Node) -> None:
        """Take over one write of a node that is at hand as a struct."""
        self._see_node(time, action, node)
        self._changed(time)

    def see_told(self, time: float, reason: str, pod: str, message: str) -> None:
        """Take over an event about a pod."""
        self.events.append(Seen(time, reason, "Pod", pod, message))
        self._changed(time)

    def _changed(self, time: float) -> None:
        if self._sizes is not None and self.keep:
            self._measure(time)
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            for future in waiting:
                if not future.done():
                    future.set_result(None)

    async def keep_measuring(self, elapsed: Callable[[], float]) -> None:
        """Measure queues also a while after a change: pods move between them without a write."""
        while True:
            await self.change()
            for pause in AFTERWARDS:
                await asyncio.sleep(pause)
                self._measure(elapsed())

    def _measure(self, time: float) -> None:
        if self._sizes is None:
            return
        sizes = self._sizes()
        if not self.queues or self.queues[-1][1] != sizes:
            if self.queues and self.queues[-1][0] == time:
                self.queues.pop()
            self.queues.append((time, sizes))

    def _see_pod(self, time: float, action: str, seen: _Pod | Pod) -> None:
        meta = seen.metadata
        key = f"{meta.namespace}/{meta.name}"
        life = self.pods.get(key)
        if life is not None and life.uid != meta.uid:
            self._pod_gone(time, life)
            life = None
        if action == "DELETED":
            if life is not None:
                self._pod_gone(time, life)
            return
        if life is None:
            life = self._new_pod(time, key, seen)
        self._update(time, life, seen)
        for listener in self._listeners:
            listener(life)

    def _new_pod(self, time: float, key: str, seen: _Pod | Pod) -> PodLife:
        cpu, memory = self._requested(seen.spec.containers)
        life = PodLife(
            key,
            seen.metadata.uid,
            time,
            seen.metadata.labels or {},
            cpu=cpu,
            memory=memory,
            priority=seen.spec.priority or 0,
            reasons=[],
        )
        self.pods[key] = life
        self.names.add(key)
        self.created += 1
        if self.keep:
            self.note(time, f"pod {key} created", "created", key)
        return life

    def _update(self, time: float, life: PodLife, seen: _Pod | Pod) -> None:
        status, key = seen.status, life.key
        life.labels = seen.metadata.labels or {}
        life.gates = len(seen.spec.scheduling_gates or ())
        if not life.node and seen.spec.node_name:
            life.node, life.bound = seen.spec.node_name, time
            self.bound += 1
            if self.keep:
                self.note(time, f"pod {key} bound to {life.node}", "bound", key)
        for item in status.conditions or ():
            if item.type in TOLD:
                self._condition(time, life, item)
        if status.nominated_node_name != life.nominated:
            life.nominated = status.nominated_node_name
            if life.nominated and not life.node:
                text = f"pod {key} nominated for {life.nominated}"
                self.note(time, text, "nominated", key)
        if status.phase != life.phase:
            self._phase(time, life, status.phase)
        if seen.metadata.deletion_timestamp and life.deleting is None:
            life.deleting = time
            if self.keep:
                why = f": {life.disruption}" if life.disruption else ""
                what = "evicted" if life.disruption else "deleting"
                self.note(time, f"pod {key} is being deleted{why}", what, key)

    def _condition(self, time: float, life: PodLife, item: _Condition | Condition) -> None:
        if item.type == "DisruptionTarget" and item.status == "True":
            life.disruption = item.reason
        elif item.type == "PodScheduled" and item.status == "False" and not life.node:
            last = life.reasons[-1] if life.reasons else None
            if last is None or (last.reason, last.message) != (item.reason, item.message):
                life.reasons.append(Reason(time, item.reason, item.message))
                text = f"pod {life.key} pending: {item.message or item.reason}"
                self.note(time, text, "pending", life.key)

    def _phase(self, time: float, life: PodLife, phase: str) -> None:
        life.phase = phase
        if phase == "Running" and life.running is None:
            life.running = time
        if phase in ("Succeeded", "Failed"):
            life.finished = time
        if self.keep and phase not in ("Pending", ""):
            self.note(time, f"pod {life.key} {phase.lower()}", phase.lower(), life.key)

    def _pod_gone(self, time: float, life: PodLife) -> None:
        life.gone = time
        del self.pods[life.key]
        self.ended += 1
        if self.keep:
            self.past.append(life)
            why = f" ({life.disruption})" if life.disruption else ""
            self.note(time, f"pod {life.key} gone{why}", "gone", life.key)
        for listener in self._listeners:
            listener(life)

    def _requested(self, containers: Iterable[_Container | Container]) -> tuple[int, int]:
        cpu = memory = 0
        for container in containers:
            requests = container.resources.requests if container.resources else None
            if not requests:
                continue
            shape = tuple(requests.items())
            if shape not in self._requests:
                self._requests[shape] = (
                    quantity.milli_value(requests.get("cpu", 0)),
                    quantity.value(requests.get("memory", 0)),
                )
            cpu += self._requests[shape][0]
            memory += self._requests[shape][1]
        return cpu, memory

    def _see_node(self, time: float, action: str, seen: _Node | Node) -> None:
        name = seen.metadata.name
        life = self.nodes.get(name)
        if action == "DELETED":
            if life is not None:
                life.gone = time
                del self.nodes[name]
                self.past_nodes.append(life)
                self.note(time, f"node {name} removed", "node", name)
            return
        ready = any(
            item.type == "Ready" and item.status == "True" for item in seen.status.conditions or ()
        )
        if life is None:
            life = self.nodes[name] = NodeLife(name, time, ready=ready)
            self.note(time, f"node {name} added", "node", name)
        if life.ready != ready:
            self.note(time, f"node {name} {'ready' if ready else 'not ready'}", "node", name)
        if life.unschedulable != seen.spec.unschedulable:
            word = "cordoned" if seen.spec.unschedulable else "uncordoned"
            self.note(time, f"node {name} {word}", "node", name)
        life.ready, life.unschedulable = ready, seen.spec.unschedulable
        life.labels = seen.metadata.labels or {}
        allocatable = seen.status.allocatable or {}
        life.cpu = quantity.milli_value(allocatable.get("cpu", 0))
        life.memory = quantity.value(allocatable.get("memory", 0))
        life.pods = quantity.value(allocatable.get("pods", 0))

    def _see_event(self, time: float, seen: _Event) -> None:
        about = seen.regarding or seen.involved_object or _Reference()
        name = f"{about.namespace}/{about.name}" if about.namespace else about.name
        message = seen.note or seen.message
        self.events.append(Seen(time, seen.reason, about.kind, name, message))

    # -- waiting

    async def change(self) -> None:
        """Return after the next change."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        try:
            await future
        finally:
            if future in self._waiting:
                self._waiting.remove(future)

    async def until(
        self,
        check: Callable[[], str],
        timeout: float,
        elapsed: Callable[[], float],
        refresh: Refresh | None = None,
    ) -> str:
        """Wait until `check` returns ""; return what it last said when the time is over."""
        end = elapsed() + timeout
        while True:
            pause = end - elapsed()
            if refresh is not None:
                pause = min(await refresh(), pause)
            problem = check()
            if problem and end - elapsed() < INSTANT:
                await rest(last=True)  # what follows from this moment's changes belongs to it
                return check()
            if not problem:
                return ""
            await self._change_within(pause)

    async def while_(
        self,
        check: Callable[[], str],
        duration: float,
        elapsed: Callable[[], float],
        refresh: Refresh | None = None,
    ) -> str:
        """Watch that `check` returns "" for as long; return what it said when it did not."""
        end = elapsed() + duration
        while True:
            pause = end - elapsed()
            if refresh is not None:
                pause = min(await refresh(), pause)
            problem = check()
            if problem or end - elapsed() < INSTANT:
                return problem
            await self._change_within(pause)

    async def _change_within(self, pause: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await self.change()
