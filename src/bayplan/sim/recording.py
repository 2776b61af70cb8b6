"""Records what happens on a cluster, with times, and replays it in a simulated one.

A recording is JSON lines `{"time": …, "event": "Add" | "Update" | "Delete", "resource": {…}}`, the
form of kube-scheduler-simulator's recorder. What was there at the start comes first. A replay
creates, changes and deletes the same objects after the same pauses; whatever the cluster itself
had decided is left out (nodes of pods that were created during the recording, their status), so
that the scheduler under test decides. Pods that ended, end; those of a snapshot stay where they
were. Objects of controllers are not recorded: their pods are.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

import msgspec

from bayplan.client import AlreadyExists, ApiError, Client, Conflict, NotFound, Resource
from bayplan.client.resources import (
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    PRIORITY_CLASSES,
    STORAGE_CLASSES,
)
from bayplan.sim.against import following
from bayplan.sim.client import ScenarioClient
from bayplan.sim.errors import ScenarioError, ScenarioSyntaxError
from bayplan.sim.objects import SIMULATED
from bayplan.words import plural

Json = dict[str, Any]  # API objects as they came

# In the order in which a replay needs them.
RECORDED = (NAMESPACES, PRIORITY_CLASSES, STORAGE_CLASSES, NODES, PERSISTENT_VOLUMES,
            PERSISTENT_VOLUME_CLAIMS, PODS)  # fmt: skip
EVENTS = {"ADDED": "Add", "MODIFIED": "Update", "DELETED": "Delete"}
READ = {"add": "Add", "added": "Add", "update": "Update", "modified": "Update",
        "delete": "Delete", "deleted": "Delete"}  # fmt: skip
SERVERS_FIELDS = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields",
                  "selfLink", "ownerReferences", "deletionTimestamp", "finalizers",
                  "deletionGracePeriodSeconds")  # fmt: skip


class Record(msgspec.Struct, frozen=True):
    """One line of a recording."""

    time: str
    event: str
    resource: Json

    @property
    def seconds(self) -> float:
        return datetime.fromisoformat(self.time.replace("Z", "+00:00")).timestamp()


class Recorder:
    """Writes lines as changes come."""

    def __init__(self, out: IO[bytes], wall: Callable[[], datetime]) -> None:
        self._out = out
        self._wall = wall
        self._seen: dict[str, str] = {}
        self.lines = 0

    def see(self, time: float, action: str, resource: Resource, value: bytes) -> None:
        """Take over one change of a watch."""
        if action not in EVENTS:
            return
        body: Json = msgspec.json.decode(value)
        body.setdefault("apiVersion", resource.api_version)
        body.setdefault("kind", resource.kind)
        meta = body["metadata"]
        meta.pop("managedFields", None)
        version = f"{meta.get('resourceVersion')} {action}"
        if self._seen.get(meta.get("uid", "")) == version:  # listed again
            return
        self._seen[meta.get("uid", "")] = version
        stamp = self._wall().astimezone(UTC).isoformat(timespec="microseconds")
        line = {"time": stamp.replace("+00:00", "Z"), "event": EVENTS[action], "resource": body}
        self._out.write(msgspec.json.encode(line) + b"\n")
        self._out.flush()
        self.lines += 1


async def record(
    client: Client, out: IO[bytes], duration: float | None, stopped: asyncio.Event
) -> int:
    """Record until the time is over or somebody says stop; return the number of lines."""
    loop = asyncio.get_running_loop()
    recorder = Recorder(out, lambda: datetime.now(UTC))
    async with following(client, loop.time, recorder.see, RECORDED):
        try:
            async with asyncio.timeout(duration):
                await stopped.wait()
        except TimeoutError:
            pass
    return recorder.lines


def load_recording(path: Path) -> list[Record]:
    """Read a recording; raises ScenarioSyntaxError naming the line."""
    decode = msgspec.json.Decoder(Record).decode
    records: list[Record] = []
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        if not line.strip():
            continue
        try:
            found = decode(line)
            event = READ[found.event.lower()]
            found.seconds  # noqa: B018 - checks the time
        except (msgspec.DecodeError, ValueError) as problem:
            raise ScenarioSyntaxError(f"{path}:{number}: {problem}") from problem
        except KeyError:
            known = ", ".join(sorted(set(READ.values())))
            text = f'{path}:{number}: event: "{found.event}" is not one of {known}'
            raise ScenarioSyntaxError(text) from None
        if not isinstance(found.resource.get("metadata"), dict) or "kind" not in found.resource:
            raise ScenarioSyntaxError(f"{path}:{number}: resource: is not an API object")
        records.append(Record(found.time, event, found.resource))
    if not records:
        raise ScenarioSyntaxError(f"{path}: the recording is empty")
    return records


class Replay:
    """Plays a recording on a client: a scenario."""

    def __init__(self, records: list[Record]) -> None:
        self._records = records
        self.skipped: Counter[str] = Counter()
        self.recorded: dict[str, str] = {}
        """Where pods were in the recording."""

    async def __call__(self, client: ScenarioClient) -> None:
        self.skipped.clear()
        self.recorded.clear()
        begin, first = client.elapsed(), self._records[0].seconds
        for item in self._sorted():
            wait = begin + (item.seconds - first) - client.elapsed()
            if wait > 0:
                await client.sleep(wait)
            await self._play(client, item)
        await client.settle(timeout=60.0)
        self._tell(client)

    def _sorted(self) -> list[Record]:
        """Return the lines by time; at the same time kinds that others need come first."""
        order = {resource.kind: i for i, resource in enumerate(RECORDED)}
        first = self._records[0].seconds
        start = [r for r in self._records if r.event == "Add" and r.seconds - first < 1.0]
        start.sort(key=lambda item: order.get(item.resource["kind"], len(order)))
        chosen = {id(item) for item in start}
        rest = [item for item in self._records if id(item) not in chosen]
        return start + sorted(rest, key=lambda item: item.seconds)

    async def _play(self, client: ScenarioClient, item: Record) -> None:
        body, kind = item.resource, str(item.resource["kind"])
        if kind == "Pod" and (node := (body.get("spec") or {}).get("nodeName")):
            self.recorded[_key(body)] = node
        try:
            if item.event == "Add":
                await client.create(cleaned(body))
            elif item.event == "Delete":
                await self._delete(client, body, kind)
            elif kind in UPDATES:
                await UPDATES[kind](client, body)
        except (AlreadyExists, NotFound, Conflict):
            self.skipped["was there already, or not any more"] += 1
        except ApiError as problem:
            self.skipped[problem.message] += 1

    async def _delete(self, client: ScenarioClient, body: Json, kind: str) -> None:
        if kind == "Namespace":
            return  # its objects are deleted by lines of their own
        meta = body["metadata"]
        version = str(body.get("apiVersion", "v1"))
        grace = 0 if kind == "Pod" else None
        where = meta.get("namespace", "default")
        await client.delete(kind, meta["name"], where, grace=grace, api_version=version)

    def _tell(self, client: ScenarioClient) -> None:
        for reason, number in self.skipped.most_common():
            client.log(f"replay: {plural(number, 'line')} left out: {reason}")
        now = {life.key: life.node for life in client.tracker.every_pod()}
        both = [key for key in self.recorded if now.get(key)]
        same = sum(now[key] == self.recorded[key] for key in both)
        client.log(f"replay: {same} of {len(both)} pods are on the node of the recording")


def _key(body: Json) -> str:
    return f"{body['metadata'].get('namespace', 'default')}/{body['metadata']['name']}"


def cleaned(body: Json) -> Json:
    """Return an object as its user created it, as far as can be known."""
    body = dict(body)
    body["metadata"] = {k: v for k, v in body["metadata"].items() if k not in SERVERS_FIELDS}
    kind = body["kind"]
    if kind == "Node":
        _clean_node(body)
    elif kind == "Pod":
        _clean_pod(body)
    elif kind == "PersistentVolume":
        spec = body["spec"] = dict(body.get("spec") or {})
        if "claimRef" in spec:
            kept = ("kind", "apiVersion", "name", "namespace")
            spec["claimRef"] = {k: v for k, v in spec["claimRef"].items() if k in kept}
    elif kind != "Namespace":
        body.pop("status", None)
    return body


def _clean_node(body: Json) -> None:
    meta, status = body["metadata"], dict(body.get("status") or {})
    meta["annotations"] = {**(meta.get("annotations") or {}), SIMULATED: "true"}
    conditions = status.get("conditions") or []
    # A heartbeat of the past would count as a node that fell silent.
    status["conditions"] = [
        {k: v for k, v in item.items() if k != "lastHeartbeatTime"} for item in conditions
    ]
    status.pop("volumesInUse", None)
    status.pop("volumesAttached", None)
    body["status"] = status


def _clean_pod(body: Json) -> None:
    spec = body["spec"] = dict(body["spec"])
    body.pop("status", None)
    if spec.get("priorityClassName"):
        spec.pop("priority", None)
        spec.pop("preemptionPolicy", None)
    spec.pop("serviceAccount", None)
    spec.pop("serviceAccountName", None)


async def _update_pod(client: ScenarioClient, body: Json) -> None:
    """Take over what users and kubelets do to a pod: labels, gates, the end."""
    name, namespace = body["metadata"]["name"], body["metadata"].get("namespace", "default")
    now = await client.get("Pod", name, namespace)
    patch = _pod_patch(now, body)
    if patch:
        await client.patch("Pod", name, patch, namespace)
    phase = (body.get("status") or {}).get("phase")
    status = now.get("status")
    current = status.get("phase") if isinstance(status, Mapping) else ""
    if phase in ("Succeeded", "Failed") and current != phase:
        end = {"status": {"phase": phase}}
        await client.patch("Pod", name, end, namespace, subresource="status")


def _pod_patch(now: Mapping[str, Any], body: Json) -> Json:
    patch: Json = {}
    for field in ("labels", "annotations"):
        old, new = now["metadata"].get(field) or {}, body["metadata"].get(field) or {}
        if old != new:
            gone = dict.fromkeys(set(old) - set(new))
            patch.setdefault("metadata", {})[field] = {**gone, **new}
    gates = body["spec"].get("schedulingGates")
    if now["spec"].get("schedulingGates") and not gates:
        patch["spec"] = {"schedulingGates": None}
    return patch


async def _update_node(client: ScenarioClient, body: Json) -> None:
    """Take over labels, taints, cordons, resources and conditions."""
    body = cleaned(body)
    name, spec, status = body["metadata"]["name"], body.get("spec") or {}, body["status"]
    meta = {k: body["metadata"].get(k) for k in ("labels", "annotations")}
    wanted = {"taints": spec.get("taints"), "unschedulable": spec.get("unschedulable")}
    await client.patch("Node", name, {"metadata": meta, "spec": wanted})
    kept = {k: status[k] for k in ("allocatable", "capacity", "conditions") if k in status}
    await client.patch("Node", name, {"status": kept}, subresource="status")


UPDATES = {"Pod": _update_pod, "Node": _update_node}


def open_recording(target: str) -> IO[bytes]:
    """Open the file to record into; `-` is standard output."""
    if target == "-":
        return sys.stdout.buffer
    try:
        return Path(target).open("wb")
    except OSError as problem:
        raise ScenarioError(f"writing recording {target}: {problem.strerror}") from problem
