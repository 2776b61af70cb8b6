"""Creates placed allocations in the member clusters chosen, and brings their state back.

An Allocation with `spec.template` (any manifest) is dispatched: for every group the template is
created in the member cluster of its site, with a name of its own and labels that say which
allocation it belongs to, also in its pod template. The member's own scheduler places the pods. How
many are scheduled and running, and which copies are there, flows back into `status.members`. A
finalizer keeps the Allocation until the members' copies are deleted; a member that cannot be
reached is tried again. Only objects with this allocation's label are its copies: a name that
another has is said and left alone. Copies are made in the Allocation's own namespace: who may
write one there gets nothing elsewhere. A template that cannot be copied is said and left alone too.

When a group moves to another member, it is made there first; the copy that it leaves is deleted as
soon as all pods of the new one are scheduled; one whose template got another name or kind goes at
once, as its room is the successor's. `status.dispatched` lists every copy that may be
somewhere, and is written before it is made: so a restart in between forgets none, and one in a
member that is away goes when the member is back. What it says is enough to delete a copy,
whatever the template became.

What was seen to be there is not asked for again until a pod of it goes, its member comes back, or
RESYNC has passed; so a pod that changes costs its own allocation one look at what is known here.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from copy import deepcopy
from typing import Any, TypeAlias

import msgspec
import structlog

from bayplan.api import Pod
from bayplan.client import AlreadyExists, Change, Client, ClientError, Informer, NotFound
from bayplan.client.resources import Resource
from bayplan.global_scheduler.fields import Json
from bayplan.global_scheduler.kinds import ALLOCATIONS, Placeable
from bayplan.global_scheduler.members import ALLOCATION_LABEL, Changes, Member, Members

log = structlog.get_logger(__name__)

FINALIZER = "bayplan.dev/dispatch"
GROUP_LABEL = "bayplan.dev/group"
RETRY_EVERY = 2.0
TAKEN_RETRY = 10.0
"""Seconds until a name that another object has is tried again."""
RESYNC = 300.0
"""Seconds without any change after which all copies are looked for again."""
PLURALS = {"Pod": "pods", "Deployment": "deployments", "Job": "jobs", "StatefulSet": "statefulsets"}
Copy: TypeAlias = tuple[str, dict[str, Any]]
"""The name of a member and a manifest of what is, or was, to be there."""
_API_VERSION = re.compile(r"([a-z0-9]+([.-][a-z0-9]+)*/)?[a-z0-9]+")
_KIND = re.compile(r"[A-Za-z][A-Za-z0-9]*")


class _Meta(msgspec.Struct, rename="camel"):
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] = {}
    finalizers: list[str] = []


class _Object(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)


def resource_of(manifest: dict[str, Any]) -> Resource:
    """The resource that a manifest belongs to; kinds not in the table get the usual plural."""
    group, _, version = str(manifest.get("apiVersion", "v1")).rpartition("/")
    kind = str(manifest.get("kind", ""))
    return Resource(group, version, PLURALS.get(kind, f"{kind.lower()}s"), kind)


def wrong_in(template: Json, namespace: str) -> str:
    """What keeps a manifest from being copied to members, by path; empty when nothing does."""
    if wrong := _misshapen(template):
        return wrong
    if _metadata(template).get("namespace") not in (namespace, None, ""):
        return (
            "spec.template.metadata.namespace: must be that of the Allocation, "
            f'"{namespace}", or left out'
        )
    return ""


def _misshapen(template: Json) -> str:
    """What is wrong with a manifest whatever the namespace."""
    if not isinstance(template, dict):
        return "spec.template: expected an object"
    if not _API_VERSION.fullmatch(str(template.get("apiVersion", "v1"))):
        return "spec.template.apiVersion: must be VERSION or GROUP/VERSION"
    if not _KIND.fullmatch(str(template.get("kind", ""))):
        return "spec.template.kind: must be the name of a kind"
    for path, holder in (
        ("spec.template", template),
        ("spec.template.spec.template", _inner(template)),
    ):
        meta = holder.get("metadata") or {}
        if not isinstance(meta, dict):
            return f"{path}.metadata: expected an object"
        if not isinstance(meta.get("labels") or {}, dict):
            return f"{path}.metadata.labels: expected an object"
    if "/" in str(_metadata(template).get("name", "")):
        return "spec.template.metadata.name: must have no /"
    return ""


def _metadata(manifest: Json) -> dict[str, Json]:
    found = manifest.get("metadata") if isinstance(manifest, dict) else None
    return found if isinstance(found, dict) else {}


def _inner(manifest: dict[str, Any]) -> dict[str, Any]:
    """The pod template of a manifest, or what stands for one."""
    spec = manifest.get("spec")
    found = spec.get("template") if isinstance(spec, dict) else None
    return found if isinstance(found, dict) else {}


def _template(item: Placeable) -> dict[str, Any] | None:
    """What is copied, if it can be; or was, before it named a namespace where nothing is made."""
    template = item.value("spec", "template")
    return template if isinstance(template, dict) and not _misshapen(template) else None


def _namespace(item: Placeable) -> str:
    return item.metadata.namespace or "default"


def copies(item: Placeable) -> list[Copy]:
    """Member name and manifest of every group of a placed allocation."""
    template = _template(item)
    groups = item.value("status", "groups")
    if template is None or not isinstance(groups, list):
        return []
    result = []
    for number, group in enumerate(groups):
        member = group.get("cluster") if isinstance(group, dict) else None
        if isinstance(member, str) and member:
            result.append((member, _copy(template, item, str(number))))
    return result


def left_behind(item: Placeable) -> list[Copy]:
    """Copies that were made and are no longer wanted where they are."""
    wanted = _by_object(copies(item))
    return [copy for key, copy in sorted(_dispatched(item).items()) if key not in wanted]


def _dispatched(item: Placeable) -> dict[str, Copy]:
    """What may be somewhere, by object."""
    found = item.value("status", "dispatched")
    read = [_marked(str(mark), item) for mark in found] if isinstance(found, list) else []
    return _by_object(copy for copy in read if copy is not None)


def _by_object(found: Iterable[Copy]) -> dict[str, Copy]:
    return {_object(*copy): copy for copy in found}


def _object(member: str, manifest: dict[str, Any]) -> str:
    """Which object a copy is, by whatever version its template names it."""
    meta, resource = manifest["metadata"], resource_of(manifest)
    number, name = meta["labels"][GROUP_LABEL], meta["name"]
    return f"{member}/{number}/{resource.plural}.{resource.group}/{name}"


def _mark(member: str, manifest: dict[str, Any]) -> str:
    """A copy in `status.dispatched`: MEMBER/GROUP/KIND.VERSION[.API_GROUP]/NAME."""
    meta, resource = manifest["metadata"], resource_of(manifest)
    what = f"{resource.kind}.{resource.version}.{resource.group}".rstrip(".")
    return f"{member}/{meta['labels'][GROUP_LABEL]}/{what}/{meta['name']}"


def _sorted_marks(found: dict[str, Copy]) -> list[str]:
    return sorted(_mark(*copy) for copy in found.values())


def _marked(mark: str, item: Placeable) -> Copy | None:
    """The copy that a mark tells of: as much of it as deleting takes."""
    member, _, number = mark.rpartition("/")
    if number.isdecimal():  # a mark of before they told kind and name
        template = _template(item)
        return None if template is None else (member, _copy(template, item, number))
    if mark.count("/") < 3:
        return None
    member, number, what, name = mark.rsplit("/", 3)
    kind, version, group = [*what.split(".", 2), "", ""][:3]
    api_version = f"{group}/{version}" if group else version
    labels: Json = {**_labels(item, number)}
    meta: Json = {"name": name, "namespace": _namespace(item), "labels": labels}
    manifest = {"apiVersion": api_version, "kind": kind, "metadata": meta}
    return None if _misshapen(manifest) else (member, manifest)


def _seen(item: Placeable, member: str, manifest: dict[str, Any]) -> str:
    """How a copy is remembered that was seen to be there."""
    return f"{item.metadata.uid} {_object(member, manifest)}"


def _copy(template: dict[str, Any], item: Placeable, number: str) -> dict[str, Any]:
    manifest, labels = deepcopy(template), _labels(item, number)
    meta = _labelled(manifest, labels)
    meta["name"] = f"{meta.get('name') or item.metadata.name}-{number}"
    meta["namespace"] = _namespace(item)
    if inner := _inner(manifest):
        _labelled(inner, labels)
    return manifest


def _labels(item: Placeable, number: str) -> dict[str, str]:
    return {ALLOCATION_LABEL: item.metadata.uid, GROUP_LABEL: number}


def _labelled(holder: dict[str, Any], labels: dict[str, str]) -> dict[str, Any]:
    """The metadata of an object or pod template, with more labels."""
    meta: dict[str, Any] = holder.get("metadata") or {}
    holder["metadata"] = meta
    meta["labels"] = {**(meta.get("labels") or {}), **labels}
    return meta


def _concerns(item: Placeable) -> bool:
    """Whether copies are wanted, or there may be some of a template that was taken out."""
    return "template" in (item.spec or {}) or FINALIZER in item.metadata.finalizers


class Dispatcher:
    """Keeps the members' copies equal to what was placed."""

    def __init__(self, client: Client, members: Members) -> None:
        self._client = client
        self._members = members
        self._todo: dict[str, None] = {}
        self._work = asyncio.Event()
        self._reported: dict[str, tuple[str, object]] = {}
        """By key, uid and what was told last: the status may hold what another scheduler told."""
        self._keys: dict[str, str] = {}
        """Allocation uid to key."""
        self._there: dict[str, set[str]] = {}
        """By key, the copies that were seen to be there."""
        self.informer = Informer(client, ALLOCATIONS, Placeable, optional=True)
        self.informer.add_handler(self._changed)
        members.on_change(self._members_changed)

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.informer.run())
            group.create_task(self._work_off())

    def _changed(self, changes: Sequence[Change[Placeable]]) -> None:
        for change in changes:
            meta = change.new.metadata
            key = f"{meta.namespace}/{meta.name}"
            self._todo[key] = None
            if change.type == "DELETED":
                self._keys.pop(meta.uid, None)
                self._there.pop(key, None)
                self._reported.pop(key, None)
            else:
                self._keys[meta.uid] = key
        self._work.set()

    def _members_changed(self, changes: Changes) -> None:
        """Look at the allocations that are concerned; anew at what may be gone."""
        for uid in changes.moved | changes.lost:
            if (key := self._keys.get(uid)) is not None:
                self._todo[key] = None
                if uid in changes.lost:
                    self._there.pop(key, None)
        for key, item in self.informer.store.items() if changes.reached else ():
            everywhere = (*copies(item), *left_behind(item))
            if changes.reached & {member for member, _ in everywhere}:
                self._todo[key] = None
                self._there.pop(key, None)
        self._work.set()

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(RESYNC):
                await self._work.wait()
        except TimeoutError:
            self._there.clear()
            self._todo.update(dict.fromkeys(self.informer.store))
        self._work.clear()

    async def _work_off(self) -> None:
        while True:
            await self._wait()
            todo, self._todo = list(self._todo), {}
            for key in todo:
                item = self.informer.store.get(key)
                try:
                    if item is not None and _concerns(item):
                        await self._reconcile(key, item)
                except ClientError as problem:
                    log.warning("dispatching failed", allocation=key, error=str(problem))
                    self._again(key, RETRY_EVERY)
                except Exception:  # of this one, or of what a member said: the others go on
                    log.exception("dispatching failed", allocation=key)
                    self._again(key, TAKEN_RETRY)

    async def _reconcile(self, key: str, item: Placeable) -> None:
        wanted = copies(item)
        if item.metadata.deletion_timestamp is not None:
            for member, manifest in (*wanted, *left_behind(item)):
                await self._delete(member, manifest)
            await self._finalize(item, keep=False)
            return
        if wrong := wrong_in(item.value("spec", "template"), _namespace(item)):
            await self._tell(key, item, [{"name": "", "problem": wrong}])
            return
        if not wanted:
            if item.value("status", "members"):  # what was wrong, and is no more
                await self._tell(key, item, [])
            return
        await self._finalize(item, keep=True)
        everywhere = _dispatched(item) | _by_object(wanted)
        if _sorted_marks(everywhere) != item.value("status", "dispatched"):
            await self._note(item, everywhere)
        problems = {}
        there = self._there.setdefault(key, set())
        there &= {_seen(item, *copy) for copy in wanted}
        for member, manifest in wanted:
            mark = _seen(item, member, manifest)
            if mark in there:
                continue
            if problem := await self._create(member, manifest, there, mark):
                problems[member] = problem
                self._again(key, TAKEN_RETRY)
        leaving = await self._leave(item, wanted)
        await self._report(key, item, wanted, problems, leaving)

    async def _note(self, item: Placeable, everywhere: dict[str, Copy]) -> None:
        """Write down which copies there may be."""
        meta = item.metadata
        body = {"status": {"dispatched": _sorted_marks(everywhere)}}
        await self._client.patch_status(ALLOCATIONS, meta.name, body, meta.namespace, kind="merge")

    async def _leave(self, item: Placeable, wanted: list[Copy]) -> list[str]:
        """Delete copies whose successors are scheduled; returns members that still have one."""
        uid = item.metadata.uid
        now = {m["metadata"]["labels"][GROUP_LABEL]: member for member, m in wanted}
        gone: list[str] = []
        leaving: list[str] = []
        for member, manifest in left_behind(item):
            number = manifest["metadata"]["labels"][GROUP_LABEL]
            moved = now.get(number, member)
            old, new = self._pods(member, uid, number), self._pods(moved, uid, number)
            ready = new and all(pod.spec.node_name for pod in new)
            known = self._members.by_name.get(member)
            if known is not None and (not known.online or (old and moved != member and not ready)):
                leaving.append(member)
                continue
            await self._delete(member, manifest)
            gone.append(_object(member, manifest))
            log.info("left", member=member, object=manifest["metadata"]["name"])
        if gone:
            everywhere = _dispatched(item) | _by_object(wanted)
            await self._note(item, {k: copy for k, copy in everywhere.items() if k not in gone})
        return leaving

    def _pods(self, member: str, uid: str, number: str) -> list[Pod]:
        """The pods of one copy."""
        found = self._members.by_name.get(member)
        pods = found.by_allocation.get(uid, {}).values() if found is not None else ()
        return [pod for pod in pods if pod.metadata.labels.get(GROUP_LABEL) == number]

    def _again(self, key: str, seconds: float) -> None:
        def later() -> None:
            self._todo[key] = None
            self._work.set()

        asyncio.get_running_loop().call_later(seconds, later)

    async def _create(self, name: str, manifest: dict[str, Any], there: set[str], mark: str) -> str:
        """Make sure that a copy is there, and mark it; returns what is in the way."""
        member = self._members.by_name.get(name)
        if member is None or not member.online:
            return ""
        meta = manifest["metadata"]
        resource = resource_of(manifest)
        try:
            await member.client.create(resource, manifest, meta["namespace"])
        except AlreadyExists:
            with suppress(NotFound):
                found = await _read(member.client, resource, meta)
                if _is_copy(found, manifest):
                    there.add(mark)
                    return ""
            where = f"{meta['namespace']}/{meta['name']}"
            return f"{resource.plural} {where} is there and belongs to another; rename the template"
        there.add(mark)
        log.info("dispatched", member=name, object=meta["name"])
        return ""

    async def _delete(self, name: str, manifest: dict[str, Any]) -> None:
        """Delete a copy, if what has its name is this allocation's."""
        member = self._members.by_name.get(name)
        if member is None:
            return
        meta = manifest["metadata"]
        resource = resource_of(manifest)
        with suppress(NotFound):
            found = await _read(member.client, resource, meta)
            if _is_copy(found, manifest):
                await member.client.delete(
                    resource,
                    meta["name"],
                    meta["namespace"],
                    uid=found.uid,
                    propagation="Background",
                )

    async def _finalize(self, item: Placeable, *, keep: bool) -> None:
        """Add or remove the finalizer, by a patch that fails if the list changed meanwhile."""
        meta = item.metadata
        if keep and FINALIZER in meta.finalizers:
            return
        try:
            raw = await self._client.get(ALLOCATIONS, meta.name, meta.namespace)
        except NotFound:
            return
        found = msgspec.json.decode(raw, type=_Object).metadata
        now = found.finalizers
        if (FINALIZER in now) == keep:
            return
        names = [*now, FINALIZER] if keep else [name for name in now if name != FINALIZER]
        body = {"metadata": {"finalizers": names, "resourceVersion": found.resource_version}}
        await self._client.patch(ALLOCATIONS, meta.name, body, meta.namespace)

    async def _report(
        self,
        key: str,
        item: Placeable,
        wanted: list[Copy],
        problems: dict[str, str],
        leaving: list[str],
    ) -> None:
        """Patch `status.members` when it changed."""
        report = []
        objects: dict[str, list[dict[str, object]]] = {}
        for name, manifest in wanted:
            is_there = _seen(item, name, manifest) in self._there.get(key, ())
            entry = {"name": manifest["metadata"]["name"], "there": is_there}
            objects.setdefault(name, []).append(entry)
        for name in dict.fromkeys((*objects, *leaving)):
            member = self._members.by_name.get(name)
            if member is not None:
                entry = {"name": name, **_counts(member, item.metadata.uid)}
                entry |= {"objects": objects.get(name, [])}
                entry |= {"problem": problems[name]} if name in problems else {}
                report.append(entry | ({"leaving": True} if name in leaving else {}))
        await self._tell(key, item, report)

    async def _tell(self, key: str, item: Placeable, report: list[dict[str, Any]]) -> None:
        meta = item.metadata
        told = (meta.uid, report)
        if told == self._reported.get(key):
            return
        body = {"status": {"members": report}}
        await self._client.patch_status(ALLOCATIONS, meta.name, body, meta.namespace, kind="merge")
        self._reported[key] = told


async def _read(client: Client, resource: Resource, meta: dict[str, Any]) -> _Meta:
    raw = await client.get(resource, meta["name"], meta["namespace"])
    return msgspec.json.decode(raw, type=_Object).metadata


def _is_copy(found: _Meta, manifest: dict[str, Any]) -> bool:
    """Whether an object is the copy that the manifest describes, of the same allocation."""
    wanted = manifest["metadata"]["labels"]
    return all(found.labels.get(key) == wanted[key] for key in (ALLOCATION_LABEL, GROUP_LABEL))


def _counts(member: Member, uid: str) -> dict[str, object]:
    found: Counter[str] = Counter()
    for pod in member.by_allocation.get(uid, {}).values():
        found["pods"] += 1
        found["scheduled"] += bool(pod.spec.node_name)
        found["running"] += pod.status.phase == "Running"
    return {
        "online": member.online,
        "pods": found["pods"],
        "scheduled": found["scheduled"],
        "running": found["running"],
    }
