"""A simulated kubelet for every simulated node: pods that are bound there run, end and go.

A node takes part when it has the annotation `bayplan.dev/simulated: "true"` (`all-nodes` in the
options: every node). A bound pod starts `start-seconds` later and does what its commands say as
far as they are understood (`shell`), or what it is told (`behaviour`); else it runs for ever, the
pods of a Job for a second. No image is pulled, no container run, no volume mounted.

Options, by key `kubelet`: start-seconds 0.1, stop-seconds 0.1, lease-seconds 10 (beyond 1,000
nodes they are renewed less often, at least every 30 s; 0: neither leases nor heartbeats), all-nodes
False.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from bayplan.client import Change, Informer, NotFound
from bayplan.client.resources import CONFIG_MAPS, NODES, PODS, SERVICES
from bayplan.controllers.kubelet.admission import REASON, TEXT, host_ports, refuses
from bayplan.controllers.kubelet.behaviour import LABEL, Rule, Rules
from bayplan.controllers.kubelet.files import Volume
from bayplan.controllers.kubelet.inputs import Inputs, MissingError
from bayplan.controllers.kubelet.links import Links
from bayplan.controllers.kubelet.nodes import Nodes, host_address
from bayplan.controllers.kubelet.pod import PodRun
from bayplan.controllers.kubelet.programs import FOREVER
from bayplan.controllers.kubelet.statuses import pod_status
from bayplan.controllers.objects import (
    Json,
    Object,
    condition,
    is_finished,
    is_ready,
    seconds_of,
    timestamp,
)
from bayplan.controllers.runtime import Kit, Worker, node_index

SIMULATED = "bayplan.dev/simulated"
AT_ONCE = 32  # pods and nodes worked on together
RETRY_FIRST, RETRY_LAST = 1.0, 60.0
PULL_BACK_OFF = 10.0
MAX_HOST_FOLDERS = 1_000


class Kubelet:
    """All simulated kubelets of a cluster."""

    def __init__(self, kit: Kit) -> None:
        self._kit = kit
        options: Json = kit.options.get("kubelet", {})
        self._start = float(options.get("start-seconds", 0.1))
        self._stop = float(options.get("stop-seconds", 0.1))
        self._all = bool(options.get("all-nodes", False))
        self._pods = kit.cache(PODS)
        self._nodes = kit.cache(NODES)
        self._pods.add_index("node", node_index)
        services = kit.cache(SERVICES)
        self._links = Links(services)
        self._told_by = Informer(kit.client, CONFIG_MAPS, Rule, label_selector=LABEL, optional=True)
        self.rules = Rules(self._told_by)
        self.rules.on_change.append(self._rules_changed)
        lease = float(options.get("lease-seconds", 10.0))
        self._speaker = Nodes(kit, lease, lambda node: self.rules.of(node, "nodes"))
        caches = (self._pods, self._nodes, services)
        self._worker = Worker(kit, "kubelet", self._sync_pod, caches, at_once=AT_ONCE, fresh=False)
        self._node_worker = Worker(
            kit, "kubelet", self._sync_node, (self._nodes,), at_once=AT_ONCE, fresh=False
        )
        self._next_address = 0
        self._addresses: set[str] = set()  # that pods have
        self.runs: dict[str, PodRun] = {}  # by uid
        self._hosts: dict[tuple[str, str], Volume] = {}
        self._pods.listen(self._pod_changed)
        self._nodes.listen(self._node_changed)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._told_by.run())
            await self._told_by.wait_synced()
            group.create_task(self._worker.run())
            group.create_task(self._node_worker.run())
            group.create_task(self._speaker.run(self._nodes.get, self._node_worker.queue.add))

    def _mine(self, node: Object | None) -> bool:
        if node is None:
            return False
        return self._all or node.metadata.annotations.get(SIMULATED) == "true"

    def _pod_changed(self, change: Change[Object]) -> None:
        uid, address = change.new.metadata.uid, change.new.status.get("podIP", "")
        if change.type == "DELETED":
            run = self.runs.pop(uid, None)
            self._addresses -= {address, run.address if run else ""}
            for container in run.containers if run else ():
                if container.log is not None:
                    container.log.close()
        elif change.new.spec.get("nodeName"):
            if address:
                self._addresses.add(address)
            if not ((run := self.runs.get(uid)) and run.hears_itself(change.new)):
                self._worker.queue.add(change.new.key)

    def _node_changed(self, change: Change[Object]) -> None:
        name = change.new.metadata.name
        appeared = (
            change.type != "DELETED" and self._mine(change.new) and not self._mine(change.old)
        )
        if appeared or (change.old is not None and self._failed(change.old)):
            self._wake_pods(name)
        if change.old is not None and is_ready(change.new) and not is_ready(change.old):
            for run in self.runs_on(name):  # what was said of its pods meanwhile is over
                run.written = {}
            self._wake_pods(name)
        self._node_worker.queue.add(name)

    def _wake_pods(self, node: str) -> None:
        for pod in self._pods.by("node", node):
            self._worker.queue.add(pod.key)

    def _rules_changed(self) -> None:
        for node in self._nodes.all():
            self._node_worker.queue.add(node.metadata.name)
            self._wake_pods(node.metadata.name)

    # -- nodes

    def _failed(self, node: Object) -> bool:
        return self.rules.of(node, "nodes").text("failed") == "true"

    async def _sync_node(self, name: str) -> float | None:
        node = self._nodes.get(name)
        if node is None or not self._mine(node):
            await self._speaker.forget(name, gone=node is None)
            return None
        return await self._speaker.sync(node)

    # -- pods

    async def _sync_pod(self, key: str) -> float | None:
        pod = self._pods.get(key)
        if pod is None or not pod.spec.get("nodeName"):
            return None
        node = self._nodes.get(pod.spec["nodeName"])
        if node is None or not self._mine(node) or self._failed(node):
            return None
        if is_finished(pod) and not pod.deleted:
            return None
        run = self.runs.get(pod.metadata.uid)
        if run is None:
            run = self._new_run(pod)
        elif run.pod is not pod:
            run.update(pod)
        run.wall = self._wall()
        if pod.deleted:
            return await self._end(run, node)
        if run.inputs is None and (wait := await self._prepare(run, node)):
            return wait if wait != FOREVER else None
        return await self._go_on(run, node)

    def look(self, run: PodRun) -> None:
        """Look at a pod again: somebody did something in it."""
        self._worker.queue.add(run.pod.key)

    def simulated_nodes(self) -> list[Object]:
        return [node for node in self._nodes.all() if self._mine(node) and not self._failed(node)]

    def runs_on(self, node: str) -> list[PodRun]:
        pods = self._pods.by("node", node)
        return [self.runs[p.metadata.uid] for p in pods if p.metadata.uid in self.runs]

    def stamp(self, moment: float) -> str:
        return timestamp(moment + self._wall())

    def _wall(self) -> float:
        return self._kit.clock() - _now()

    def _new_run(self, pod: Object) -> PodRun:
        meta, host = pod.metadata, str(pod.spec.get("nodeName", ""))

        def tell(type_: str, reason: str, text: str, path: str) -> None:
            warning = type_ == "Warning"
            more = {"field_path": path, "host": host}
            self._kit.events.record(PODS, meta, reason, text, "kubelet", warning=warning, **more)

        run = PodRun(pod, self.rules.of(pod, "pods"), self._stop, tell, self._wall())
        run.hosts = self._hosts
        run.seen = _now()
        if len(self._hosts) > MAX_HOST_FOLDERS:
            self._hosts.clear()
        self.runs[meta.uid] = run
        return run

    async def _prepare(self, run: PodRun, node: Object) -> float | None:
        """Make everything ready for a pod's start; return how long that still takes."""
        pod, now = run.pod, _now()
        started = pod.status.get("phase") == "Running"
        wait = 0.0 if started else self._before_start(run, now)
        if wait > 0:
            return wait
        ports = not started and any(host_ports(pod))
        if ports and refuses(pod, self.runs_on(node.metadata.name)):
            run.begin(now)
            run.failed, run.text = REASON, f"Pod was rejected: {TEXT}"
            self._kit.events.record(PODS, pod.metadata, REASON, TEXT, "kubelet", warning=True)
            await self._write(run, node)
            return FOREVER
        run.address = run.address or pod.status.get("podIP") or self._new_address(pod, node)
        inputs = Inputs(pod, node, run.address, self._links.of(pod))
        try:
            await inputs.load(self._kit.client)
        except MissingError as missing:
            return await self._wait_for(run, node, missing)
        run.inputs = inputs
        if started:
            run.resume(pod.status)
        run.begin(now)
        return await self._pull(run, node)

    def _before_start(self, run: PodRun, now: float) -> float:
        delay = run.told.seconds("start-seconds")
        delay = self._start if delay is None else delay
        bound = seconds_of(condition(run.pod.status, "PodScheduled").get("lastTransitionTime"))
        # Objects tell whole seconds: what this process saw itself counts, if it is about that old.
        bound = bound - run.wall if bound else now
        since = run.seen if now - bound < delay + 1.0 else bound
        left = since + delay - now
        return left if left > 1e-6 else 0.0

    async def _wait_for(self, run: PodRun, node: Object, missing: MissingError) -> float:
        run.begin(_now())
        reason = "FailedMount" if missing.reason == "ContainerCreating" else "Failed"
        text = str(missing) if reason == "FailedMount" else f"Error: {missing}"
        if not run.tries:
            self._kit.events.record(PODS, run.pod.metadata, reason, text, "kubelet", warning=True)
        for container in run.containers:
            container.reason = missing.reason
            container.message = "" if reason == "FailedMount" else str(missing)
        await self._write(run, node)
        run.tries += 1
        return min(RETRY_FIRST * 2.0 ** min(run.tries - 1, 10), RETRY_LAST)

    async def _pull(self, run: PodRun, node: Object) -> float | None:
        """Let pulling images take its time, or fail, as the pod was told."""
        told = run.told.text("image-pull")
        if not told or any(c.started for c in run.containers):
            return None
        now = _now()
        if told != "fail":
            left = run.began + (run.told.seconds("image-pull") or 0.0) - now
            if left <= 1e-6:
                return None
            run.inputs = None
            await self._write(run, node)
            return left
        run.inputs = None
        late = now - run.began >= PULL_BACK_OFF - 1e-6
        for container in run.of("init", "main")[:1] or run.containers[:1]:
            image = container.spec.get("image", "")
            container.reason = "ImagePullBackOff" if late else "ErrImagePull"
            what = f'failed to pull image "{image}": it was told to fail'
            container.message = f'Back-off pulling image "{image}"' if late else what
            if late:
                run.tell("Normal", "BackOff", container.message, container.path)
            else:
                run.tell("Normal", "Pulling", f'Pulling image "{image}"', container.path)
                run.tell("Warning", "Failed", f"F{what[1:]}", container.path)
            run.tell("Warning", "Failed", f"Error: {container.reason}", container.path)
        await self._write(run, node)
        return FOREVER if late else PULL_BACK_OFF

    async def _go_on(self, run: PodRun, node: Object) -> float | None:
        now = _now()
        due = run.advance(now)
        while due <= now and not run.finished:
            due = run.advance(now)
        await self._write(run, node)
        return max(due - now, 0.001) if due != FOREVER and not run.finished else None

    async def _end(self, run: PodRun, node: Object) -> float | None:
        """Take a pod away once it has had its time to stop."""
        pod, now = run.pod, _now()
        grace = pod.metadata.deletion_grace_period_seconds or 0
        if run.inputs is None and pod.status.get("phase") == "Running":
            run.inputs = Inputs(pod, node, pod.status.get("podIP", ""), self._links.of(pod))
            run.resume(pod.status)
        if not is_finished(pod) and run.started_at:
            asked = seconds_of(pod.metadata.deletion_timestamp) - grace - run.wall
            left = grace - (now - asked if now - asked >= 1.0 else 0.0)
            run.stop(now, max(left, 0.0))
            due = run.advance(now)
            while due <= now and not run.stopped:
                due = run.advance(now)
            if not run.stopped:
                return max(due - now, 0.001)
            owner = pod.metadata.controller
            watched = bool(pod.metadata.finalizers) or run.policy != "Always"
            if watched or (owner is not None and owner.kind == "Job"):
                await self._write(run, node)
        elif pod.metadata.finalizers and not is_finished(pod):
            run.failed = ""
            run.stop(now, 0.0)
            run.begin(now)
            await self._write(run, node)
        if pod.metadata.finalizers and grace == 0:
            return None  # who takes the last finalizer off removes the pod
        await self._kit.delete(PODS, pod.key, uid=pod.metadata.uid, grace_period=0)
        return None

    async def _write(self, run: PodRun, node: Object) -> None:
        """Write the status if it is not what was written last."""
        status = pod_status(run, host_address(node), _now())
        if status == run.written:
            return
        run.saying = status
        with suppress(NotFound):  # it went meanwhile
            await self._kit.report_status(PODS, run.pod.key, status)
            run.written = status

    def _new_address(self, pod: Object, node: Object) -> str:
        if pod.spec.get("hostNetwork"):
            return host_address(node)
        while True:
            n = self._next_address = self._next_address % ((1 << 22) - 2) + 1
            address = f"10.{64 + (n >> 16)}.{n >> 8 & 255}.{n & 255}"
            if address not in self._addresses:
                self._addresses.add(address)
                return address


def _now() -> float:
    """Return the loop's time: exact, where the time of day has lost its small digits."""
    return asyncio.get_running_loop().time()
