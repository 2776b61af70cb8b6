"""A simulated kubelet for every simulated node: pods that are bound there run, end and go.

A node takes part when it has the annotation `bayplan.dev/simulated: "true"` (`all-nodes` in the
options: every node). For it a Ready condition is posted and a lease in kube-node-lease is renewed.
A bound pod becomes Running `start-seconds` later. Pods say by annotations what they do then:

    bayplan.dev/run-seconds   end after this long (pods of a Job: 1 s unless they say otherwise)
    bayplan.dev/exit-code     with this code; other than 0 the pod fails, or restarts
    bayplan.dev/ready         "false": runs but never gets ready

Without them a command that is only made of sleep, exit, true, false and echo is taken at its word.
A pod being deleted is taken away `stop-seconds` later, at most its grace period. Options, by key
`kubelet`: start-seconds 0.1, stop-seconds 0.1, lease-seconds 10 (beyond 1,000 nodes they are
renewed less often, at least every 30 s; 0: neither leases nor heartbeats), all-nodes False.
No image is pulled, no container run, no volume mounted.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from zlib import crc32

from bayplan.apiserver.documents import KUBERNETES_VERSION
from bayplan.client import AlreadyExists, Change, NotFound
from bayplan.client.resources import LEASES, NODES, PODS
from bayplan.controllers.commands import FOREVER, outcome
from bayplan.controllers.objects import (
    Json,
    Object,
    condition,
    is_finished,
    micro_timestamp,
    seconds_of,
    with_condition,
)
from bayplan.controllers.runtime import Kit, Worker, node_index

SIMULATED = "bayplan.dev/simulated"
RUN_SECONDS = "bayplan.dev/run-seconds"
EXIT_CODE = "bayplan.dev/exit-code"
READY = "bayplan.dev/ready"
LEASE_NAMESPACE = "kube-node-lease"
LEASE_DURATION = 40
RENEWALS_PER_SECOND = 100
SLOWEST_RENEWAL = 30.0
ROUNDING = 1e-6
AT_ONCE = 32  # pods and nodes worked on together
HEARTBEAT_SECONDS = 300.0  # of the node's status, as a kubelet does without changes


class Kubelet:
    """All simulated kubelets of a cluster."""

    def __init__(self, kit: Kit) -> None:
        self._kit = kit
        options: Json = kit.options.get("kubelet", {})
        self._start = float(options.get("start-seconds", 0.1))
        self._stop = float(options.get("stop-seconds", 0.1))
        self._lease = float(options.get("lease-seconds", 10.0))
        self._all = bool(options.get("all-nodes", False))
        self._pods = kit.cache(PODS)
        self._nodes = kit.cache(NODES)
        self._pods.add_index("node", node_index)
        caches = (self._pods, self._nodes)
        self._worker = Worker(kit, "kubelet", self._sync_pod, caches, at_once=AT_ONCE, fresh=False)
        self._node_worker = Worker(
            kit, "kubelet", self._sync_node, (self._nodes,), at_once=AT_ONCE, fresh=False
        )
        self._addresses: dict[str, str] = {}
        self._next_address = 0
        self._moments: dict[str, dict[str, float]] = {}  # by uid: what this process saw, and when
        self._leases: dict[str, str] = {}  # node name to the uid for which a lease was made
        self._pods.listen(self._pod_changed)
        self._nodes.listen(self._node_changed)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._worker.run())
            group.create_task(self._node_worker.run())

    def _mine(self, node: Object | None) -> bool:
        if node is None:
            return False
        return self._all or node.metadata.annotations.get(SIMULATED) == "true"

    def _pod_changed(self, change: Change[Object]) -> None:
        if change.type == "DELETED":
            self._addresses.pop(change.new.metadata.uid, None)
            self._moments.pop(change.new.metadata.uid, None)
        elif change.new.spec.get("nodeName"):
            self._worker.queue.add(change.new.key)

    def _node_changed(self, change: Change[Object]) -> None:
        name = change.new.metadata.name
        if change.type != "DELETED" and self._mine(change.new) and not self._mine(change.old):
            for pod in self._pods.by("node", name):
                self._worker.queue.add(pod.key)
        self._node_worker.queue.add(name)

    # -- nodes

    async def _sync_node(self, name: str) -> float | None:
        node = self._nodes.get(name)
        if node is None or not self._mine(node):
            if self._leases.pop(name, None) and node is None:
                await self._kit.delete(LEASES, f"{LEASE_NAMESPACE}/{name}")
            return None
        ready = condition(node.status, "Ready")
        if not self._lease:  # says once that it is there, and then only if somebody denies it
            if ready.get("status") != "True" or not node.status.get("addresses"):
                await self._post_status(node)
            return None
        age = self._kit.clock() - seconds_of(ready.get("lastHeartbeatTime"))
        # One that was made ready by hand has no heartbeat, so it gets the rest here as well.
        if ready.get("status") != "True" or age >= HEARTBEAT_SECONDS:
            await self._post_status(node)
        await self._renew(node)
        # Many nodes renew less often, but well within the time after which they count as lost.
        return max(self._lease, min(len(self._leases) / RENEWALS_PER_SECOND, SLOWEST_RENEWAL))

    async def _post_status(self, node: Object) -> None:
        now = self._kit.now()
        conditions = list(node.status.get("conditions") or [])
        for type_, value, reason, message in (
            ("MemoryPressure", "False", "KubeletHasSufficientMemory", "has sufficient memory"),
            ("DiskPressure", "False", "KubeletHasNoDiskPressure", "has no disk pressure"),
            ("PIDPressure", "False", "KubeletHasSufficientPID", "has sufficient PID available"),
            ("Ready", "True", "KubeletReady", "simulated kubelet is posting ready status"),
        ):
            status = {"conditions": conditions}
            conditions = with_condition(status, type_, value, reason, message, now)
            if self._lease:
                conditions[-1]["lastHeartbeatTime"] = now
        body: Json = {"conditions": conditions}
        if not (node.status.get("nodeInfo") or {}).get("kubeletVersion"):
            body["nodeInfo"] = _node_info(node)
        if not node.status.get("addresses"):
            body["addresses"] = [
                {"type": "InternalIP", "address": _host_address(node)},
                {"type": "Hostname", "address": node.metadata.name},
            ]
        await self._kit.patch(NODES, node.key, {"status": body}, subresource="status")

    async def _renew(self, node: Object) -> None:
        """Renew the node's lease, or make it."""
        name, uid = node.metadata.name, node.metadata.uid
        now = micro_timestamp(self._kit.clock())
        if self._leases.get(name) == uid:
            with suppress(NotFound):
                spec = {"spec": {"renewTime": now, "holderIdentity": name}}
                await self._kit.patch(LEASES, f"{LEASE_NAMESPACE}/{name}", spec)
                return
        owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}
        lease: Json = {
            "metadata": {"name": name, "ownerReferences": [owner]},
            "spec": {
                "holderIdentity": name,
                "leaseDurationSeconds": LEASE_DURATION,
                "renewTime": now,
            },
        }
        try:
            await self._kit.create(LEASES, lease, LEASE_NAMESPACE)
        except AlreadyExists:
            await self._kit.patch(LEASES, f"{LEASE_NAMESPACE}/{name}", lease)
        self._leases[name] = uid

    # -- pods

    async def _sync_pod(self, key: str) -> float | None:
        pod = self._pods.get(key)
        if pod is None or not pod.spec.get("nodeName"):
            return None
        node = self._nodes.get(pod.spec["nodeName"])
        if node is None or not self._mine(node):
            return None
        if pod.deleted:
            return await self._end(pod)
        if is_finished(pod):
            return None
        if pod.status.get("phase") != "Running":
            return await self._begin(pod, node)
        return await self._go_on(pod)

    async def _end(self, pod: Object) -> float | None:
        """Take a pod away once it has had its time to stop."""
        grace = pod.metadata.deletion_grace_period_seconds or 0
        asked = seconds_of(pod.metadata.deletion_timestamp) - grace
        wait = self._left(pod, "deleted", asked, min(self._stop, grace))
        if wait > 0:
            for container in pod.spec.get("containers") or []:
                self._tell(pod, "Killing", f"Stopping container {container.get('name')}")
            return wait
        if pod.metadata.finalizers:
            if not is_finished(pod):
                # Something else still waits for this pod: let it see that the pod has stopped.
                status: Json = {"phase": "Failed" if self._exit_code(pod) else "Succeeded"}
                status |= {"conditions": self._unready(pod, "PodFailed")}
                await self._status(pod, status)
            if grace == 0:
                return None  # who takes the last finalizer off removes the pod
        await self._kit.delete(PODS, pod.key, uid=pod.metadata.uid, grace=0)
        return None

    async def _begin(self, pod: Object, node: Object) -> float | None:
        bound = seconds_of(condition(pod.status, "PodScheduled").get("lastTransitionTime"))
        wait = self._left(pod, "bound", bound, self._start) if bound else 0.0
        if wait > 0:
            return wait
        if not bound and self._start and not pod.status.get("startTime"):
            # Bound without a condition: note when it was seen, and start from there.
            await self._status(pod, {"phase": "Pending", "startTime": self._kit.now()})
            return self._start
        await self._status(pod, self._running_status(pod, node))
        self._left(pod, "started", self._kit.clock(), 0.0)
        for container in pod.spec.get("containers") or []:
            image = container.get("image", "")
            self._tell(pod, "Pulled", f'Container image "{image}" already present on machine')
            self._tell(pod, "Created", f"Container created: {container.get('name')}")
            self._tell(pod, "Started", f"Container started: {container.get('name')}")
        return self._run_seconds(pod)

    def _tell(self, pod: Object, reason: str, text: str) -> None:
        self._kit.events.record(PODS, pod.metadata, reason, text, "kubelet")

    async def _go_on(self, pod: Object) -> float | None:
        """End a pod that runs for a limited time."""
        seconds = self._run_seconds(pod)
        if seconds is None:
            return None
        started = max(
            (
                seconds_of(c.get("state", {}).get("running", {}).get("startedAt"))
                for c in pod.status.get("containerStatuses") or []
            ),
            default=seconds_of(pod.status.get("startTime")),
        )
        wait = self._left(pod, "started", started, seconds)
        if wait > 0:
            return wait
        self._moments.get(pod.metadata.uid, {}).pop("started", None)
        code = self._exit_code(pod)
        policy = pod.spec.get("restartPolicy", "Always")
        if policy == "Always" or (policy == "OnFailure" and code):
            await self._status(pod, self._restarted(pod, code))
            return seconds or 1.0
        phase = "Failed" if code else "Succeeded"
        reason = "PodFailed" if code else "PodCompleted"
        status: Json = {"phase": phase, "conditions": self._unready(pod, reason)}
        status["containerStatuses"] = [
            {**c, "ready": False, "started": False, "state": {"terminated": self._exit(c, code)}}
            for c in pod.status.get("containerStatuses") or []
        ]
        await self._status(pod, status)
        return None

    def _left(self, pod: Object, what: str, written: float, delay: float) -> float:
        """Seconds until `delay` after something happened.

        Objects tell whole seconds, so what this process saw itself counts; what happened before
        it looked is known from the object only.
        """
        now = asyncio.get_running_loop().time()
        moments = self._moments.setdefault(pod.metadata.uid, {})
        if what not in moments:
            age = self._kit.clock() - written
            moments[what] = now - age if age >= 1.0 else now
        left = moments[what] + delay - now
        return left if left > ROUNDING else 0.0

    async def _status(self, pod: Object, status: Json) -> None:
        # it went meanwhile
        with suppress(NotFound):
            # Strategic: conditions of others (the scheduler's) are left as they are.
            await self._kit.patch(
                PODS, pod.key, {"status": status}, kind="strategic", subresource="status"
            )

    def _run_seconds(self, pod: Object) -> float | None:
        text = pod.metadata.annotations.get(RUN_SECONDS)
        try:
            if text is not None:
                return max(float(text), 0.0)
        except ValueError:
            return None
        told = self._told(pod)
        if told is not None:
            return told[0] if told[0] != FOREVER else None
        owner = pod.metadata.controller
        return 1.0 if owner is not None and owner.kind == "Job" else None

    def _told(self, pod: Object) -> tuple[float, int] | None:
        """Return how long a pod runs and how it ends, if all its commands are clear."""
        each = [outcome(container) for container in pod.spec.get("containers") or []]
        clear = [item for item in each if item is not None]
        if not clear or len(clear) < len(each):
            return None
        return max(seconds for seconds, _ in clear), max(code for _, code in clear)

    def _exit_code(self, pod: Object) -> int:
        text = pod.metadata.annotations.get(EXIT_CODE, "")
        if not text and (told := self._told(pod)) is not None and not pod.deleted:
            return told[1]
        return int(text) if text.isdigit() else 0

    def _address(self, pod: Object) -> str:
        uid = pod.metadata.uid
        if uid not in self._addresses:
            self._next_address = self._next_address % (1 << 22) + 1
            n = self._next_address
            self._addresses[uid] = f"10.{64 + (n >> 16)}.{n >> 8 & 255}.{n & 255}"
        return self._addresses[uid]

    def _running_status(self, pod: Object, node: Object) -> Json:
        now = self._kit.now()
        host = _host_address(node)
        address = host if pod.spec.get("hostNetwork") else self._address(pod)
        ready = pod.metadata.annotations.get(READY, "true") == "true"
        status: Json = {
            "phase": "Running",
            "hostIP": host,
            "hostIPs": [{"ip": host}],
            "podIP": address,
            "podIPs": [{"ip": address}],
            "startTime": pod.status.get("startTime", now),
        }
        conditions = list(pod.status.get("conditions") or [])
        for type_ in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady"):
            value = "True" if ready or not type_.endswith("Ready") else "False"
            reason = "" if value == "True" else "ContainersNotReady"
            conditions = _bare_condition(conditions, type_, value, reason, now)
        status["conditions"] = conditions
        containers = pod.spec.get("containers") or []
        status["containerStatuses"] = [_container(c, ready, now) for c in containers]
        if first := pod.spec.get("initContainers"):
            status["initContainerStatuses"] = [_init_container(c, now) for c in first]
        return status

    def _unready(self, pod: Object, reason: str) -> list[Json]:
        conditions = list(pod.status.get("conditions") or [])
        for type_ in ("Ready", "ContainersReady"):
            conditions = _bare_condition(conditions, type_, "False", reason, self._kit.now())
        return conditions

    def _exit(self, container: Json, code: int) -> Json:
        started = (container.get("state") or {}).get("running", {}).get("startedAt")
        return {
            "exitCode": code,
            "reason": "Error" if code else "Completed",
            "startedAt": started or self._kit.now(),
            "finishedAt": self._kit.now(),
            "containerID": container.get("containerID", ""),
        }

    def _restarted(self, pod: Object, code: int) -> Json:
        now = self._kit.now()
        return {
            "containerStatuses": [
                {
                    **c,
                    "restartCount": c.get("restartCount", 0) + 1,
                    "lastState": {"terminated": self._exit(c, code)},
                    "state": {"running": {"startedAt": now}},
                }
                for c in pod.status.get("containerStatuses") or []
            ]
        }


def _bare_condition(
    conditions: list[Json], type_: str, value: str, reason: str, now: str
) -> list[Json]:
    """Set a condition in place; a kubelet leaves out empty reasons."""
    new: Json = {"type": type_, "status": value, "lastProbeTime": None, "lastTransitionTime": now}
    if reason:
        new["reason"] = reason
    found = next((item for item in conditions if item.get("type") == type_), None)
    if found is not None and found.get("status") == value:
        return conditions
    return [item for item in conditions if item.get("type") != type_] + [new]


def _host_address(node: Object) -> str:
    for address in node.status.get("addresses") or []:
        if address.get("type") == "InternalIP":
            return str(address.get("address"))
    n = crc32(node.metadata.name.encode()) & 0xFFFF
    return f"192.168.{n >> 8}.{n & 255}"


def _node_info(node: Object) -> Json:
    labels = node.metadata.labels
    identity = f"simulated-{crc32(node.metadata.name.encode()):08x}"
    return {
        "architecture": labels.get("kubernetes.io/arch", "amd64"),
        "bootID": identity,
        "containerRuntimeVersion": "simulated://1",
        "kernelVersion": "simulated",
        "kubeProxyVersion": "",
        "kubeletVersion": KUBERNETES_VERSION,
        "machineID": identity,
        "operatingSystem": labels.get("kubernetes.io/os", "linux"),
        "osImage": "simulated",
        "systemUUID": identity,
    }


def _container(container: Json, ready: bool, now: str) -> Json:
    name, image = container.get("name", ""), container.get("image", "")
    return {
        "name": name,
        "image": image,
        "imageID": f"simulated://{image}",
        "containerID": f"simulated://{crc32(f'{name}{now}'.encode()):08x}",
        "ready": ready,
        "started": True,
        "restartCount": 0,
        "state": {"running": {"startedAt": now}},
    }


def _init_container(container: Json, now: str) -> Json:
    status = _container(container, True, now)
    if container.get("restartPolicy") == "Always":
        return status  # a sidecar goes on running
    status["started"] = False
    status["state"] = {
        "terminated": {
            "exitCode": 0,
            "reason": "Completed",
            "startedAt": now,
            "finishedAt": now,
            "containerID": status["containerID"],
        }
    }
    return status
