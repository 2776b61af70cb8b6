"""Creates placed allocations in the member clusters chosen, and brings their state back.

An Allocation with `spec.template` (any manifest) is dispatched: for every group a copy (`copies`)
is created in the member cluster of its site. The member's own scheduler places the pods. How
many are scheduled and running, and which copies are there, flows back into `status.members`. A
finalizer keeps the Allocation until the members' copies are deleted. Only objects with this
allocation's labels are its copies: a name that another has is said and left alone. A template that
cannot be copied is said and left alone too.

When a group moves to another member, it is made there first; the copy that it leaves is deleted as
soon as all pods of the new one are scheduled; one whose template got another name or kind, or
whose group went to where no member is, goes at once. `status.dispatched` is written before
anything is made, and only to an Allocation that is as it was seen here: so it lists every copy
that may be somewhere, whoever moves the group and whenever this process ends.

What a member refuses is told and tried again, and keeps no other member from its copies. One that
does not answer is not asked again until all others had their turn; one that is known to be away
not before it is back. What was seen to be there is not asked for again until a pod of it goes, its
member comes back, or RESYNC has passed; so a pod that changes costs its own allocation one look at
what is known here.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

import msgspec
import structlog

from bayplan.api import Pod
from bayplan.client import (
    AlreadyExists,
    Change,
    Client,
    ClientError,
    Conflict,
    Informer,
    NotFound,
    TransportError,
)
from bayplan.global_scheduler.copies import (
    GROUP_LABEL,
    Copy,
    dispatched,
    members_of,
    namespace_of,
    wanted,
    wrong_in,
)
from bayplan.global_scheduler.kinds import ALLOCATIONS, Placeable
from bayplan.global_scheduler.members import Changes, Member, Members

log = structlog.get_logger(__name__)

FINALIZER = "bayplan.dev/dispatch"
RETRY_SECONDS = 5.0
ANSWER_SECONDS = 10.0
"""How long a member may take for an answer."""
RESYNC = 300.0
"""Seconds without any change after which all copies are looked for again."""
NO_ANSWER = f"the member does not answer within {ANSWER_SECONDS:g} s"
Act = Callable[[Client, Copy], Awaitable[None]]


class _Meta(msgspec.Struct, rename="camel"):
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] | None = None


class _Object(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)


class _TakenError(Exception):
    """What has the name of a copy is none; the text says so."""


class Dispatcher:
    """Keeps the members' copies equal to what was placed."""

    def __init__(self, client: Client, members: Members) -> None:
        self._client = client
        self._members = members
        self._todo: dict[str, None] = {}
        self._work = asyncio.Event()
        self._timers: dict[str, asyncio.TimerHandle] = {}
        """When to look at an allocation again, by key."""
        self._silent: dict[str, str] = {}
        """Members that do not answer, and why, until all others had their turn."""
        self._reported: dict[str, object] = {}
        """By uid, what was told last: the status may hold what another scheduler told."""
        self._keys: dict[str, str] = {}
        """Allocation uid to key."""
        self._there: dict[str, set[str]] = {}
        """By uid, the copies that were seen to be there."""
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
            key = _key(change.new)
            self._todo[key] = None
            if change.type == "DELETED":
                self._keys.pop(meta.uid, None)
                self._there.pop(meta.uid, None)
                self._reported.pop(meta.uid, None)
            else:
                self._keys[meta.uid] = key
        self._work.set()

    def _members_changed(self, changes: Changes) -> None:
        """Look at the allocations that are concerned; anew at what may be gone."""
        concerned = {uid: uid in changes.lost for uid in changes.moved | changes.lost}
        for item in self.informer.store.values() if changes.reached else ():
            if not changes.reached.isdisjoint(members_of(item)):
                concerned[item.metadata.uid] = True
        for uid, anew in concerned.items():
            if (key := self._keys.get(uid)) is not None:
                self._todo[key] = None
                if anew:
                    self._there.pop(uid, None)
        self._work.set()

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(RESYNC):
                await self._work.wait()
        except TimeoutError:
            self._there.clear()
            self._todo.update(dict.fromkeys(self.informer.store))
        self._work.clear()

    def _again(self, key: str) -> None:
        """Look again in a while, once however many reasons there are."""

        def later() -> None:
            self._timers.pop(key, None)
            self._todo[key] = None
            self._work.set()

        if key not in self._timers:
            loop = asyncio.get_running_loop()
            self._timers[key] = loop.call_later(RETRY_SECONDS, later)

    async def _work_off(self) -> None:
        while True:
            await self._wait()
            todo, self._todo = list(self._todo), {}
            self._silent.clear()
            for key in todo:
                item = self.informer.store.get(key)
                try:
                    if item is not None and _concerns(item):
                        await self._reconcile(item)
                except (Conflict, NotFound):  # it changed or went, which the watch will tell
                    self._again(key)
                except ClientError as problem:
                    log.warning("dispatching failed", allocation=key, error=str(problem))
                    self._again(key)
                except Exception:  # of this one: the others go on
                    log.exception("dispatching failed", allocation=key)
                    self._again(key)

    async def _reconcile(self, item: Placeable) -> None:
        going = item.metadata.deletion_timestamp is not None
        if not going and (wrong := wrong_in(item.value("spec", "template"), namespace_of(item))):
            await self._tell(item, [{"name": "", "problem": wrong}])
            return
        copies = wanted(item)
        everywhere = dispatched(item) | copies
        if going:
            copies = {}
        elif everywhere:
            item = await self._finalize(item, keep=True)
            item = await self._note(item, everywhere)
        problems = await self._make_all(item, copies)
        left = await self._leave(item, everywhere, copies, problems)
        if problems:
            self._again(_key(item))
        if going and not left:
            await self._finalize(item, keep=False)
            return
        await self._note(item, left | copies)
        await self._report(item, copies, left, problems)

    async def _make_all(self, item: Placeable, copies: dict[str, Copy]) -> dict[str, str]:
        """Make sure that copies are there; returns what is in the way, by member."""
        problems = {}
        there = self._there.setdefault(item.metadata.uid, set())
        there.intersection_update(copies)
        for name, copy in copies.items():
            member = self._members.by_name.get(copy.member)
            if name in there or member is None or not member.online:
                continue
            if problem := await self._ask(member, copy, _make):
                problems[copy.member] = problem
            else:
                there.add(name)
        return problems

    async def _leave(
        self,
        item: Placeable,
        everywhere: dict[str, Copy],
        copies: dict[str, Copy],
        problems: dict[str, str],
    ) -> dict[str, Copy]:
        """Delete what is wanted no longer, once its successor is scheduled; returns what stays."""
        now = {copy.number: copy.member for copy in copies.values()}
        left = {}
        for name in sorted(everywhere.keys() - copies.keys()):
            copy = everywhere[name]
            member = self._members.by_name.get(copy.member)
            if member is None:  # nobody can reach it any more
                continue
            moved = now.get(copy.number, copy.member)
            if not member.online or self._is_awaited(item.metadata.uid, copy, moved):
                left[name] = copy
            elif problem := await self._ask(member, copy, _delete):
                left[name] = copy
                problems[copy.member] = problem
        return left

    def _is_awaited(self, uid: str, copy: Copy, moved: str) -> bool:
        """Whether a copy still runs what its successor elsewhere does not yet."""
        if moved == copy.member:
            return False
        old, new = (self._pods(member, uid, copy.number) for member in (copy.member, moved))
        return bool(old) and not (new and all(pod.spec.node_name for pod in new))

    def _pods(self, member: str, uid: str, number: str) -> list[Pod]:
        """The pods of one copy."""
        found = self._members.by_name.get(member)
        pods = found.by_allocation.get(uid, {}).values() if found is not None else ()
        return [pod for pod in pods if pod.metadata.labels.get(GROUP_LABEL) == number]

    async def _ask(self, member: Member, copy: Copy, act: Act) -> str:
        """Have something done by a member; returns what is in the way, in words."""
        if member.name in self._silent:
            return self._silent[member.name]
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await act(member.client, copy)
        except (TransportError, TimeoutError) as problem:
            self._silent[member.name] = str(problem) or NO_ANSWER
            member.doubt()
            return self._silent[member.name]
        except (ClientError, _TakenError) as problem:
            return str(problem)
        except msgspec.MsgspecError as problem:
            return f"the member answers what is no object: {problem}"
        return ""

    async def _finalize(self, item: Placeable, *, keep: bool) -> Placeable:
        """Add or remove the finalizer."""
        before = item.metadata.finalizers
        if (FINALIZER in before) == keep:
            return item
        names = [*before, FINALIZER] if keep else [name for name in before if name != FINALIZER]
        return await self._write(item, {"metadata": {"finalizers": names}}, part="")

    async def _note(self, item: Placeable, everywhere: dict[str, Copy]) -> Placeable:
        """Write down which copies there may be."""
        marks = sorted(copy.mark for copy in everywhere.values())
        if marks == (item.value("status", "dispatched") or []):
            return item
        item = await self._write(item, {"status": {"dispatched": marks}}, part="status")
        noted = {"dispatched": msgspec.Raw(msgspec.json.encode(marks))}
        return msgspec.structs.replace(item, status={**(item.status or {}), **noted})

    async def _write(self, item: Placeable, body: dict[str, Any], *, part: str) -> Placeable:
        """Change an allocation that is as it was seen, or raise Conflict; returns its version."""
        meta = item.metadata
        seen = {"resourceVersion": meta.resource_version}
        body = body | {"metadata": seen | body.get("metadata", {})}
        raw = await self._client.patch(
            ALLOCATIONS, meta.name, body, meta.namespace, subresource=part
        )
        version = msgspec.json.decode(raw, type=_Object).metadata.resource_version
        meta = msgspec.structs.replace(meta, resource_version=version)
        return msgspec.structs.replace(item, metadata=meta)

    async def _report(
        self,
        item: Placeable,
        copies: dict[str, Copy],
        left: dict[str, Copy],
        problems: dict[str, str],
    ) -> None:
        """Tell of all members where something is or is to be."""
        uid = item.metadata.uid
        there = self._there.get(uid, set())
        report = []
        objects: dict[str, list[dict[str, object]]] = {}
        for name, copy in copies.items():
            entry = {"name": copy.name, "there": name in there}
            objects.setdefault(copy.member, []).append(entry)
        leaving = [copy.member for copy in left.values()]
        for name in dict.fromkeys((*objects, *leaving)):
            if (member := self._members.by_name.get(name)) is not None:
                entry = {"name": name, **_counts(member, uid), "objects": objects.get(name, [])}
                entry |= {"problem": problems[name]} if name in problems else {}
                report.append(entry | ({"leaving": True} if name in leaving else {}))
        await self._tell(item, report)

    async def _tell(self, item: Placeable, report: list[dict[str, Any]]) -> None:
        """Patch `status.members` when it changed."""
        meta = item.metadata
        told = self._reported.get(meta.uid)
        if told == report or (told is None and not report and not item.value("status", "members")):
            return
        body = {"status": {"members": report}}
        await self._client.patch_status(ALLOCATIONS, meta.name, body, meta.namespace, kind="merge")
        self._reported[meta.uid] = report
        for entry in report:
            if problem := entry.get("problem"):
                name = entry["name"]
                log.warning("not dispatched", allocation=_key(item), member=name, problem=problem)


def _key(item: Placeable) -> str:
    return f"{item.metadata.namespace}/{item.metadata.name}"


def _concerns(item: Placeable) -> bool:
    """Whether copies are wanted, or there may be some, perhaps of a template that was taken out."""
    if FINALIZER in item.metadata.finalizers:
        return True
    return item.metadata.deletion_timestamp is None and "template" in (item.spec or {})


async def _make(client: Client, copy: Copy) -> None:
    """Make sure that a copy is there."""
    resource = copy.resource
    try:
        raw = await client.create(resource, copy.manifest, copy.namespace)
        log.info("dispatched", member=copy.member, object=copy.name)
    except AlreadyExists:
        raw = await client.get(resource, copy.name, copy.namespace)
    if not _is_copy(raw, copy):
        where = f"{resource.plural} {copy.namespace}/{copy.name}"
        raise _TakenError(f"{where} is there and belongs to another; rename the template")


async def _delete(client: Client, copy: Copy) -> None:
    """Delete a copy, if what has its name is this allocation's."""
    resource, name, namespace = copy.resource, copy.name, copy.namespace
    with suppress(NotFound):
        raw = await client.get(resource, name, namespace)
        if found := _is_copy(raw, copy):
            await client.delete(resource, name, namespace, uid=found.uid, propagation="Background")
            log.info("left", member=copy.member, object=name)


def _is_copy(raw: bytes, copy: Copy) -> _Meta | None:
    """What an answer says of a copy; None if it is of something else."""
    found = msgspec.json.decode(raw, type=_Object).metadata
    return found if (found.labels or {}).items() >= copy.labels.items() else None


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
