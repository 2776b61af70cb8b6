"""Pods and nodes in memory, with the API server's rules for binding, deleting and patching.

Bodies are JSON as the server would store it; they are replaced, never changed. Beside each lies
the struct that the scheduler reads. Whoever listens is told of a change before the write returns:
nothing is encoded, sent or decoded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar, Unpack

import msgspec
from msgspec.structs import replace

from bayplan.api import Node, Object, Pod
from bayplan.api.meta import with_condition
from bayplan.api.patch import apply_json_patch, apply_merge_patch, apply_strategic_merge
from bayplan.api.pod import PodStatus
from bayplan.api.schema import type_for
from bayplan.apiserver.admission.pods import TOPOLOGY
from bayplan.client import AlreadyExists, ApiError, Conflict, NotFound, Resource
from bayplan.client.errors import Invalid
from bayplan.client.resources import NODES, PODS
from bayplan.client.rest import DeleteOptions, PatchType
from bayplan.controllers.objects import timestamp

Json = dict[str, Any]
T = TypeVar("T", bound=Object)
FIXED = ("uid", "name", "namespace", "creationTimestamp", "deletionTimestamp")
MERGED_LISTS = ("conditions", "hostIPs", "podIPs")
"""Those of a pod's status that patches merge by key; others they replace."""
TYPES: dict[Resource, type[Object]] = {PODS: Pod, NODES: Node}


class Entry:
    """One object: as JSON and as the scheduler reads it."""

    __slots__ = ("body", "key", "typed")

    def __init__(self, key: str, body: Json, typed: Object) -> None:
        self.key = key
        self.body = body
        self.typed = typed


Listener = Callable[[str, Resource, Entry, Entry | None], None]
"""Told ADDED, MODIFIED or DELETED, the resource, the object and what it was before; MARKED is an
object that is marked as deleted and will be gone before anybody else comes: DELETED follows."""


class FastCluster:
    """All pods and nodes."""

    def __init__(self, now: Callable[[], float], uid: Callable[[], str]) -> None:
        self._now = now
        self._uid = uid
        self.version = 1_000_000_000  # above what the server of the other kinds will reach
        self.shelves: dict[Resource, dict[str, Entry]] = {PODS: {}, NODES: {}}
        self._listeners: dict[Resource, list[Listener]] = {PODS: [], NODES: []}
        self._where: dict[str, tuple[Entry, dict[str, str]]] = {}
        """What `_topology` found, and where."""

    def stamp(self) -> str:
        """The present second as Kubernetes writes it."""
        return timestamp(self._now())

    def get(self, resource: Resource, key: str) -> Entry:
        found = self.shelves[resource].get(key)
        if found is None:
            name = key.rpartition("/")[2]
            raise NotFound(404, "NotFound", f'{resource.plural} "{name}" not found')
        return found

    def all(self, resource: Resource) -> list[Entry]:
        """In the order of keys, as a server lists them."""
        shelf = self.shelves[resource]
        return [shelf[key] for key in sorted(shelf)]

    def listen(self, resource: Resource, listener: Listener) -> None:
        """Tell of every change of a pod, or of a node."""
        self._listeners[resource].append(listener)

    def unlisten(self, resource: Resource, listener: Listener) -> None:
        """Tell no more; whoever did not listen need not."""
        if listener in self._listeners[resource]:
            self._listeners[resource].remove(listener)

    # -- writes

    def add(self, resource: Resource, key: str, body: Json, typed: Object) -> Entry:
        """Take over a new object that has been admitted; gives it uid, version and time."""
        if key in self.shelves[resource]:
            name = body["metadata"]["name"]
            text = f'{resource.plural} "{name}" already exists'
            raise AlreadyExists(409, "AlreadyExists", text)
        node = (body.get("spec") or {}).get("nodeName", "") if resource is PODS else ""
        if node and (where := self._topology(node)):
            labels = {**typed.metadata.labels, **where}
            body = {**body, "metadata": {**body["metadata"], "labels": labels}}
            typed = replace(typed, metadata=replace(typed.metadata, labels=labels))
        uid, stamp, version = self._uid(), self.stamp(), self._next()
        meta = {**body["metadata"], "uid": uid, "creationTimestamp": stamp}
        meta["resourceVersion"] = version
        typed = replace(
            typed,
            metadata=replace(
                typed.metadata,
                name=meta["name"],
                uid=uid,
                creation_timestamp=stamp,
                resource_version=version,
            ),
        )
        entry = Entry(key, {**body, "metadata": meta}, typed)
        self.shelves[resource][key] = entry
        self._tell("ADDED", resource, entry, None)
        return entry

    def _next(self) -> str:
        self.version += 1
        return str(self.version)

    def _tell(self, action: str, resource: Resource, entry: Entry, old: Entry | None) -> None:
        for listener in self._listeners[resource]:
            listener(action, resource, entry, old)

    def put(self, resource: Resource, key: str, body: Json) -> Entry:
        """Replace an object."""
        old = self.shelves[resource][key]
        body["metadata"] = {**body["metadata"], "resourceVersion": self._next()}
        return self._store(resource, Entry(key, body, msgspec.convert(body, TYPES[resource])), old)

    def _store(self, resource: Resource, entry: Entry, old: Entry) -> Entry:
        """Keep an object that changed; one that nothing holds any more goes at once."""
        self.shelves[resource][entry.key] = entry
        meta = entry.body["metadata"]
        if meta.get("deletionTimestamp") and not (
            meta.get("finalizers") or meta.get("deletionGracePeriodSeconds")
        ):
            self._tell("MARKED", resource, entry, old)
            self._remove(resource, entry.key)
        else:
            self._tell("MODIFIED", resource, entry, old)
        return entry

    def put_status(self, old: Entry, status: Json) -> Entry:
        """Replace a pod's status."""
        known = msgspec.convert(status, PodStatus)
        version = self._next()
        meta = {**old.body["metadata"], "resourceVersion": version}
        before = old.typed.metadata
        typed = replace(old.typed, metadata=replace(before, resource_version=version), status=known)
        body = {**old.body, "metadata": meta, "status": status}
        return self._store(PODS, Entry(old.key, body, typed), old)

    def report_status(self, key: str, status: Json) -> None:
        """Merge what a kubelet says into a pod's status, the most frequent of all writes.

        It is what a strategic merge patch without nulls and directives would make of it.
        """
        old = self.get(PODS, key)
        before = old.body.get("status") or {}
        merged = with_report(before, status)
        if merged is None:
            self.patch(PODS, key, {"status": status}, "strategic", "status")
        elif merged != before:
            self.put_status(old, merged)

    def _remove(self, resource: Resource, key: str) -> None:
        entry = self.shelves[resource].pop(key, None)
        if entry is not None:
            version = self._next()
            meta = {**entry.body["metadata"], "resourceVersion": version}
            gone = Entry(key, {**entry.body, "metadata": meta}, entry.typed)
            self._tell("DELETED", resource, gone, entry)

    def bind(self, key: str, uid: str, node: str) -> None:
        """Write a scheduler's decision; raises Conflict as the server does."""
        old = self.get(PODS, key)
        body, name = old.body, old.typed.metadata.name
        pod = old.typed
        assert isinstance(pod, Pod)
        why = ""
        if pod.metadata.uid != uid:
            why = "Precondition failed: another pod of that name"
        elif pod.metadata.deletion_timestamp:
            why = f"pod {name} is being deleted, cannot be assigned to a host"
        elif pod.spec.node_name:
            why = f'pod {name} is already assigned to node "{pod.spec.node_name}"'
        elif pod.spec.scheduling_gates:
            why = f"pod {name} has non-empty .spec.schedulingGates"
        if why:
            text = f'Operation cannot be fulfilled on pods/binding "{name}": {why}'
            raise Conflict(409, "Conflict", text)
        status = dict(body.get("status") or {})
        status.pop("nominatedNodeName", None)
        scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None}
        status["conditions"] = with_condition(status.get("conditions"), scheduled, self.stamp())
        version, labels = self._next(), pod.metadata.labels
        meta = {**body["metadata"], "resourceVersion": version}
        if where := self._topology(node):
            labels = meta["labels"] = {**labels, **where}
        typed = replace(
            pod,
            metadata=replace(pod.metadata, labels=labels, resource_version=version),
            spec=replace(pod.spec, node_name=node),
            status=msgspec.convert(status, PodStatus),
        )
        spec = {**body["spec"], "nodeName": node}
        new = {**body, "metadata": meta, "spec": spec, "status": status}
        self._store(PODS, Entry(key, new, typed), old)

    def _topology(self, node: str) -> dict[str, str]:
        """The labels of a node that its pods get, by the admission of the API server."""
        found = self.shelves[NODES].get(node)
        if found is None:
            return {}
        known = self._where.get(node)
        if known is None or known[0] is not found:
            labels = found.typed.metadata.labels
            where = {name: labels[name] for name in TOPOLOGY if name in labels}
            known = self._where[node] = found, where
        return known[1]

    def patch(
        self, resource: Resource, key: str, patch: Any, kind: PatchType, subresource: str
    ) -> Entry:
        """Patch an object as the server would; a version or uid in the patch is insisted on."""
        old = self.get(resource, key)
        body = old.body
        self._check(resource, body["metadata"], patch)
        part = subresource == "status" and kind != "json"
        # A status is patched without the rest, which would be copied for nothing.
        new = _patched(
            resource, {"status": body.get("status") or {}} if part else body, patch, kind
        )
        if subresource == "status":
            new = {**body, "status": new.get("status") or {}}
        elif "status" in body:
            meta = {**new["metadata"], **{k: v for k, v in body["metadata"].items() if k in FIXED}}
            new = {**new, "status": body["status"], "metadata": meta}
        if new == body:
            return old
        try:
            if subresource == "status" and resource is PODS:
                return self.put_status(old, new["status"])
            return self.put(resource, key, new)
        except msgspec.ValidationError as problem:
            raise Invalid(422, "Invalid", f"{resource.plural} {key}: {problem}") from problem

    def _check(self, resource: Resource, meta: Json, patch: Any) -> None:
        given = patch.get("metadata") if isinstance(patch, Mapping) else None
        for name in ("uid", "resourceVersion"):
            wanted = given.get(name) if isinstance(given, Mapping) else None
            if wanted and wanted != meta[name]:
                text = f'Operation cannot be fulfilled on {resource.plural} "{meta["name"]}"'
                raise Conflict(409, "Conflict", f"{text}: another {name}")

    def delete(self, resource: Resource, key: str, **options: Unpack[DeleteOptions]) -> Entry:
        """Delete an object; a bound pod is marked first, and its kubelet ends it."""
        uid, grace = options.get("uid"), options.get("grace_period")
        entry = self.get(resource, key)
        meta = entry.body["metadata"]
        if uid and uid != meta["uid"]:
            text = f'Operation cannot be fulfilled on {resource.plural} "{meta["name"]}"'
            raise Conflict(409, "Conflict", f"{text}: the UID does not match")
        if resource != PODS and not meta.get("finalizers"):
            self._remove(resource, key)
            return entry
        if meta.get("deletionTimestamp"):
            return self._again(resource, key, entry, grace)
        wait = _grace_of(entry.body, grace) if resource == PODS else 0
        return self._mark(resource, key, entry, wait)

    def _mark(self, resource: Resource, key: str, entry: Entry, grace: int) -> Entry:
        meta = dict(entry.body["metadata"])
        meta["deletionTimestamp"] = timestamp(self._now() + grace)
        meta["deletionGracePeriodSeconds"] = grace
        meta["generation"] = meta.get("generation", 0) + 1
        meta["resourceVersion"] = self._next()
        typed = replace(
            entry.typed,
            metadata=replace(
                entry.typed.metadata,
                deletion_timestamp=meta["deletionTimestamp"],
                generation=meta["generation"],
                resource_version=meta["resourceVersion"],
            ),
        )
        return self._store(resource, Entry(key, {**entry.body, "metadata": meta}, typed), entry)

    def _again(self, resource: Resource, key: str, entry: Entry, grace: int | None) -> Entry:
        """A second deletion can only bring the end nearer."""
        period = entry.body["metadata"].get("deletionGracePeriodSeconds") or 0
        if grace is None or (period and grace >= period):
            return entry
        return self._mark(resource, key, entry, 0 if grace == 0 else 1)


def _patched(resource: Resource, body: Json, patch: Any, kind: PatchType) -> Json:
    if kind == "strategic":
        type_ = type_for("v1", resource.kind)
        assert type_ is not None
        merged: Json = apply_strategic_merge(body, patch, type_)
    elif kind == "merge":
        merged = apply_merge_patch(body, patch)
    elif kind == "json":
        merged = apply_json_patch(body, patch)
    else:
        raise ApiError(415, "UnsupportedMediaType", "apply patches need --faithful")
    return merged


def with_report(status: Json, report: Json) -> Json | None:
    """A status with a kubelet's report in it; None where that needs a patch's whole rules."""
    merged = {**status, **report}
    for name in MERGED_LISTS:
        ours, theirs = status.get(name), report.get(name)
        if ours is None or theirs is None or ours == theirs:
            continue
        if name != "conditions":
            return None
        known, told = {c["type"] for c in ours}, {c["type"] for c in theirs}
        if not known.isdisjoint(told):
            return None
        merged[name] = [*theirs, *ours]  # new ones come first, as upstream weaves them
    return merged


def _grace_of(body: Json, grace: int | None) -> int:
    if not body["spec"].get("nodeName") or body["status"].get("phase") in ("Failed", "Succeeded"):
        return 0
    if grace is not None:
        return 1 if grace < 0 else grace
    period = int(body["spec"].get("terminationGracePeriodSeconds", 0))
    return 1 if period < 0 else period
