"""Kubelets of a fast world: plain pods start in one go.

A pod is plain if nothing can happen in it: no command, no probe, nothing to load, nobody who told
it more than how long to run. Most pods of long runs are. Its kubelet needs one timer and writes
one status. As soon as anything else happens to it (it is to end, its node falls silent, somebody
changes it) it becomes a pod like others, in the very state that it would be in.
"""

from __future__ import annotations

import asyncio
from typing import cast
from zlib import crc32

from bayplan.client import Change
from bayplan.controllers.kubelet import Kubelet
from bayplan.controllers.kubelet.behaviour import PREFIX
from bayplan.controllers.kubelet.inputs import Inputs, wanted
from bayplan.controllers.kubelet.nodes import host_address
from bayplan.controllers.kubelet.pod import PodRun
from bayplan.controllers.objects import Json, Object, timestamp
from bayplan.controllers.runtime import Kit
from bayplan.sim.fast.kit import FastKit

MORE = (
    *("initContainers", "ephemeralContainers", "readinessGates", "activeDeadlineSeconds"),
    "hostNetwork",
)
ACTING = (
    *("command", "args", "startupProbe", "readinessProbe", "livenessProbe", "lifecycle", "ports"),
    *("env", "envFrom"),
)
RUN_SECONDS = f"{PREFIX}run-seconds"
SHORT = 0.01
"""Pods that run for less are no plain ones."""
KNOWN_LIMIT = 10_000
CONDITIONS = ("PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready")


class _Plain:
    """A plain pod that is bound: it will start, or runs."""

    __slots__ = (
        "address",
        "began",
        "key",
        "node",
        "pod",
        "seen",
        "status",
        "timer",
        "wall",
        "writing",
    )

    def __init__(self, pod: Object, seen: float) -> None:
        self.pod = pod
        self.key = pod.key
        self.seen = seen
        self.timer: asyncio.TimerHandle | None = None
        self.status: Json | None = None
        self.node: Object | None = None
        self.address = ""
        self.began = self.wall = 0.0
        self.writing = False


class FastKubelet(Kubelet):
    """All simulated kubelets of a fast world."""

    def __init__(self, kit: Kit) -> None:
        self._plain: dict[str, _Plain] = {}
        self._still: dict[int, tuple[object, bool]] = {}
        """Lists of containers, which pods of one shape share, and whether nothing acts in them."""
        self._well: dict[str, Object] = {}
        """Nodes by name that have working kubelets of ours, as far as they say themselves."""
        self._cluster = cast("FastKit", kit).cluster
        self._tells = bool(kit.options.get("events"))
        super().__init__(kit)

    def _pod_changed(self, change: Change[Object]) -> None:
        new = change.new
        uid = new.metadata.uid
        plain = self._plain.get(uid)
        if plain is None:
            if change.type == "ADDED" and "nodeName" not in new.spec:
                return  # nobody's yet
            bound = change.old is None or not change.old.spec.get("nodeName")
            if not bound or change.type == "DELETED" or not self._begin(new):
                super()._pod_changed(change)
        elif change.type == "DELETED":
            del self._plain[uid]
            self._addresses.discard(plain.address)
            if plain.timer is not None:
                plain.timer.cancel()
        elif plain.writing:
            plain.pod = new
        else:
            self._hand_over(uid, plain)
            super()._pod_changed(change)

    async def _sync_pod(self, key: str) -> float | None:
        pod = self._pods.get(key)
        if pod is not None and (plain := self._plain.get(pod.metadata.uid)) is not None:
            self._hand_over(pod.metadata.uid, plain)
        return await super()._sync_pod(key)

    def runs_on(self, node: str) -> list[PodRun]:
        for pod in self._pods.by("node", node):
            if (plain := self._plain.get(pod.metadata.uid)) is not None:
                self._hand_over(pod.metadata.uid, plain)
        return super().runs_on(node)

    # -- plain pods

    def _begin(self, pod: Object) -> bool:
        """Plan the start of a pod that was bound, if it is a plain one."""
        spec = pod.spec
        name = spec.get("nodeName")
        if not name or self._tells or not self._is_plain(pod):
            return False
        if self._working(name) is None:
            return False
        loop = asyncio.get_running_loop()
        uid, now = pod.metadata.uid, loop.time()
        plain = self._plain[uid] = _Plain(pod, now)
        left = now + self._start - now  # as others reckon it: sums of delays are to be equal
        plain.timer = loop.call_at(now + left, self._start_plain, uid, plain)
        return True

    def _working(self, name: str) -> Object | None:
        """A node of ours whose kubelet works."""
        node = self._nodes.get(name)
        if node is None or (self._well.get(name) is node and not self.rules.tells("nodes")):
            return node
        self._well.pop(name, None)
        if not self._mine(node) or self._failed(node):
            return None
        self._well[name] = node
        return node

    def _is_plain(self, pod: Object) -> bool:
        meta, spec = pod.metadata, pod.spec
        if meta.deletion_timestamp or pod.status.get("phase") != "Pending":
            return False
        if self.rules.tells("pods") or any(map(spec.get, MORE)):
            return False
        for name, value in meta.annotations.items():
            if name.startswith(PREFIX) and not (name == RUN_SECONDS and _is_long(value)):
                return False
        owner = meta.controller if meta.owner_references else None
        if owner is not None and owner.kind == "Job":
            return False
        return self._is_still(pod)

    def _is_still(self, pod: Object) -> bool:
        containers = pod.spec.get("containers")
        known = self._still.get(id(containers))
        if known is None or known[0] is not containers:
            if len(self._still) >= KNOWN_LIMIT:
                self._still.clear()
            acts = any(_acts(one) for one in containers or ())
            known = self._still[id(containers)] = containers, not acts
        return known[1] and (not pod.spec.get("volumes") or next(wanted(pod), None) is None)

    def _start_plain(self, uid: str, plain: _Plain) -> None:
        plain.timer = None
        pod = plain.pod
        node = self._working(pod.spec["nodeName"])
        if node is None:
            self._hand_over(uid, plain)
            return
        loop = asyncio.get_running_loop()
        now = plain.began = loop.time()
        plain.node, plain.wall = node, self._wall()
        plain.address = self._new_address(pod, node)
        moment = timestamp(now + plain.wall)
        plain.status = plain_status(pod, plain.address, host_address(node), moment)
        plain.writing = True
        self._cluster.report_status(plain.key, plain.status)
        plain.writing = False
        if (seconds := pod.metadata.annotations.get(RUN_SECONDS)) is not None:
            left = now + float(seconds) - now
            plain.timer = loop.call_at(now + left, self._hand_over, uid, plain)

    def _hand_over(self, uid: str, plain: _Plain) -> None:
        """Make it a pod like others, and look at it."""
        del self._plain[uid]
        if plain.timer is not None:
            plain.timer.cancel()
        run = self._new_run(plain.pod)
        run.seen = plain.seen
        if plain.status is not None and plain.node is not None:
            run.wall = plain.wall
            run.address = plain.address
            run.inputs = Inputs(plain.pod, plain.node, plain.address, self._links.of(plain.pod))
            run.begin(plain.began)
            run.advance(plain.began)
            run.written = run.saying = plain.status
            moment = run.stamp(plain.began)
            run.since = dict.fromkeys(CONDITIONS, ("True", moment))
        self.look(run)


def plain_status(pod: Object, address: str, host: str, moment: str) -> Json:
    """What a kubelet writes of a plain pod that has just started."""
    generation = pod.metadata.generation or 1
    return {
        "observedGeneration": generation,
        "phase": "Running",
        "startTime": pod.status.get("startTime") or moment,
        "hostIP": host,
        "hostIPs": [{"ip": host}],
        "conditions": [
            {
                "type": type_,
                "status": "True",
                "observedGeneration": generation,
                "lastProbeTime": None,
                "lastTransitionTime": moment,
            }
            for type_ in CONDITIONS
        ],
        "podIP": address,
        "podIPs": [{"ip": address}],
        "containerStatuses": [_running(one, moment) for one in pod.spec.get("containers") or ()],
    }


def _running(container: Json, moment: str) -> Json:
    name, image = container.get("name", ""), container.get("image", "")
    found: Json = {
        "name": name,
        "image": image,
        "imageID": f"simulated://{image}",
        "ready": True,
        "started": True,
        "restartCount": 0,
        "state": {"running": {"startedAt": moment}},
        "lastState": {},
        "containerID": f"simulated://{crc32(f'{name}{moment}0'.encode()):08x}",
    }
    if resources := container.get("resources"):
        found["resources"] = resources
        if requests := resources.get("requests"):
            found["allocatedResources"] = requests
    return found


def _acts(container: Json) -> bool:
    """Whether something may happen in a container, or must before it starts."""
    mounts = container.get("volumeMounts") or ()
    return any(map(container.get, ACTING)) or any("subPathExpr" in mount for mount in mounts)


def _is_long(seconds: str) -> bool:
    try:
        return float(seconds) >= SHORT
    except ValueError:
        return False
