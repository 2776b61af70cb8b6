"""Member clusters as sites: capacity is summed from their nodes and pods, as it changes.

A member is a Kubernetes cluster with a kubeconfig. Its ready, schedulable nodes give machines of
type `kubernetes` (vcpus in whole cores, memory in MiB); what its pods request is used, except pods
that Bayplan itself dispatched, which the ledger counts already. A member that does not answer is
Offline: it keeps what it has and receives nothing new.

A change costs what changed: the capacity of one member is added up anew, and pods of an allocation
concern that allocation only. While its watches are open a member is asked rarely whether it is
ready, and not at all while they bring something; when one breaks, or when it left a request
without an answer, at once. What many members do from time to time, each does at a moment of its
own.
"""

import asyncio
from collections.abc import Callable, Sequence, Set
from pathlib import Path
from zlib import crc32

import msgspec
import structlog

from bayplan.api import Node, Pod
from bayplan.api.quantity import milli, nanos, whole
from bayplan.api.requests import pod_resources
from bayplan.client import Change, Client, ClientError, Informer, connect, load_kubeconfig
from bayplan.client.resources import NODES, PODS
from bayplan.global_scheduler import files
from bayplan.global_scheduler.fields import Fields, Problem
from bayplan.global_scheduler.files import document, expand, last_change
from bayplan.global_scheduler.inventory import Host, Inventory, Site, read_site
from bayplan.global_scheduler.supervise import keep

log = structlog.get_logger(__name__)

TYPE = "kubernetes"
ALLOCATION_LABEL = "bayplan.dev/allocation"
MIB = 1024 * 1024
CHECK_EVERY = 2.0
CHECK_WATCHED_EVERY = 30.0
"""Seconds between two checks of a member whose watches are open."""
MISSES = 2


class MemberConfig(msgspec.Struct, frozen=True):
    """One entry of members.yaml."""

    site: Site
    kubeconfig: str
    change: tuple[str, int, int] = ("", 0, 0)
    """The kubeconfig as it was before it was read."""


def read_members(directory: Path) -> tuple[list[MemberConfig], list[Problem]]:
    """Read members.yaml, if it is there."""
    path = directory / "members.yaml"
    problems: list[Problem] = []
    fields = document(path, problems) if path.exists() else None
    if fields is None:
        return [], problems
    members: list[MemberConfig] = []
    for item in fields.items("members", required=True):
        name = item.text("name", required=True)
        body = {"site_id": name, "cluster": name, **item.everything}
        site = read_site(Fields(body, problems, item.path, path.name))
        kubeconfig = expand(item.text("kubeconfig", required=True), directory)
        if any(site.id == member.site.id for member in members):
            item.problem("name", f'"{site.id}" is listed twice')
        members.append(MemberConfig(site, kubeconfig, last_change(kubeconfig)))
    return members, problems


class Member:
    """One member cluster, watched."""

    def __init__(self, site: Site, client: Client, changes: "Changes") -> None:
        self.site = site
        self.client = client
        self.online = False
        self.by_allocation: dict[str, dict[str, Pod]] = {}
        """Pods that were dispatched, by allocation and key."""
        self._changes = changes
        self._misses = 0
        self._doubted = asyncio.Event()
        self._place = crc32(site.id.encode()) / (1 << 32)
        """Where this member stands in the row of all, from 0 to 1."""
        self._settled = False
        """Whether it has waited for its own moment."""
        self.nodes = Informer(client, NODES, Node, jitter=lambda: self._place)
        self.pods = Informer(client, PODS, Pod, jitter=lambda: self._place)
        self.nodes.add_handler(lambda _: changes.add(stale={site.id}))
        self.pods.add_handler(self._pods_changed)

    def _pods_changed(self, changes: Sequence[Change[Pod]]) -> None:
        stale = False
        moved, lost = set(), set()
        for change in changes:
            meta = change.new.metadata
            stale = (
                stale
                or not _dispatched(change.new)
                or bool(change.old and not _dispatched(change.old))
            )
            for pod in (change.old, change.new):
                if pod is not None and (uid := pod.metadata.labels.get(ALLOCATION_LABEL)):
                    moved.add(uid)
                    self.by_allocation.setdefault(uid, {}).pop(f"{meta.namespace}/{meta.name}", 0)
            if uid := meta.labels.get(ALLOCATION_LABEL):
                if change.type == "DELETED":
                    lost.add(uid)
                else:
                    self.by_allocation[uid][f"{meta.namespace}/{meta.name}"] = change.new
        for uid in moved:
            if not self.by_allocation[uid]:
                del self.by_allocation[uid]
        self._changes.add(stale={self.name} if stale else set(), moved=moved, lost=lost)

    @property
    def name(self) -> str:
        return self.site.id

    async def run(self) -> None:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.nodes.run())
            group.create_task(self.pods.run())
            group.create_task(self._check())

    async def _check(self) -> None:
        heard = -1
        while True:
            before, heard = heard, self.nodes.heard + self.pods.heard
            calm = self._watched and not self._misses and not self._doubted.is_set()
            if self.online and calm and heard != before >= 0:
                await self._until_next_check(ready=True)
                continue
            self._doubted.clear()
            try:
                await self.client.request("GET", "/readyz", timeout=CHECK_EVERY)
                ready = self.nodes.has_synced and self.pods.has_synced
                self._misses = 0
            except ClientError:
                self._misses += 1
                ready = self.online and self._misses < MISSES
            if ready != self.online:
                self.online = ready
                log.info("member changed", member=self.name, online=ready)
                self._changes.add(stale={self.name}, reached={self.name})
            await self._until_next_check(ready)

    def doubt(self) -> None:
        """It did not answer somebody: ask now whether it is there."""
        self._doubted.set()

    @property
    def _watched(self) -> bool:
        return not self.nodes.broken.is_set() and not self.pods.broken.is_set()

    async def _until_next_check(self, ready: bool) -> None:
        """Wait long while both watches are open, and no longer than until there is doubt."""
        if not ready or self._misses or not self._watched:
            await asyncio.sleep(CHECK_EVERY if ready else CHECK_EVERY / 10)
            return
        wait = CHECK_WATCHED_EVERY if self._settled else CHECK_WATCHED_EVERY * self._place
        self._settled = True
        events = (self.nodes.broken, self.pods.broken, self._doubted)
        reasons = [asyncio.ensure_future(event.wait()) for event in events]
        try:
            await asyncio.wait(reasons, timeout=wait, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in reasons:
                task.cancel()

    def inventory(self) -> tuple[Site, Host]:
        """The member as a site with one big host."""
        status = "Normal" if self.online else "Offline"
        ready = {node.metadata.name: node for node in self.nodes.store.values() if _usable(node)}
        cpu = sum(milli(nanos(n.status.allocatable.get("cpu", 0))) for n in ready.values())
        memory = sum(whole(nanos(n.status.allocatable.get("memory", 0))) for n in ready.values())
        used_cpu = used_memory = 0
        for pod in self.pods.store.values():
            if pod.spec.node_name in ready and not pod.finished and not _dispatched(pod):
                wanted = pod_resources(pod).used
                used_cpu += wanted.get("cpu", 0)
                used_memory += wanted.get("memory", 0)
        host = Host(
            region=self.site.region,
            zone=self.site.zone,
            types=TYPE,
            vcpus=cpu // 1000,
            memory=memory // MIB,
            used_vcpus=-(-used_cpu // 1000),
            used_memory=-(-used_memory // MIB),
            site=self.site.id,
        )
        return msgspec.structs.replace(self.site, status=status), host


def _usable(node: Node) -> bool:
    ready = any(c.type == "Ready" and c.status == "True" for c in node.status.conditions)
    return ready and not node.spec.unschedulable


def _dispatched(pod: Pod) -> bool:
    return ALLOCATION_LABEL in pod.metadata.labels


class Changes(msgspec.Struct):
    """What changed in members since it was last looked at."""

    stale: set[str] = msgspec.field(default_factory=set)
    """Members whose capacity must be added up anew."""
    reached: set[str] = msgspec.field(default_factory=set)
    """Members that came, went, or can or cannot be reached now."""
    moved: set[str] = msgspec.field(default_factory=set)
    """Allocations whose pods changed."""
    lost: set[str] = msgspec.field(default_factory=set)
    """Allocations of which a pod is gone."""
    some: asyncio.Event = msgspec.field(default_factory=asyncio.Event)

    def add(
        self,
        stale: Set[str] = frozenset(),
        reached: Set[str] = frozenset(),
        moved: Set[str] = frozenset(),
        lost: Set[str] = frozenset(),
    ) -> None:
        self.stale |= stale
        self.reached |= reached
        self.moved |= moved
        self.lost |= lost
        self.some.set()

    def take(self) -> "Changes":
        """What there is; nothing is left."""
        taken = Changes(self.stale, self.reached, self.moved, self.lost)
        self.stale, self.reached, self.moved, self.lost = set(), set(), set(), set()
        self.some.clear()
        return taken


class Members:
    """All member clusters; hands out their inventory when something changed."""

    def __init__(self, changed: Callable[[Inventory], None]) -> None:
        self.by_name: dict[str, Member] = {}
        self._hand_out_to = changed
        self._changes = Changes()
        self._pairs: dict[str, tuple[Site, Host]] = {}
        self._listeners: list[Callable[[Changes], None]] = []
        self._configs: dict[str, MemberConfig] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._running = False

    def add(self, site: Site, client: Client) -> Member:
        """Take a cluster in."""
        member = self.by_name[site.id] = Member(site, client, self._changes)
        if self._running:
            self._watch(member)
        self._changes.add(stale={site.id}, reached={site.id})
        return member

    async def remove(self, name: str) -> None:
        """Let a cluster go: what was placed there stays in the ledger, nothing new comes."""
        member = self.by_name.pop(name)
        self._configs.pop(name, None)
        task = self._tasks.pop(name, None)
        try:
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        finally:  # nobody else knows it any more
            await member.client.close()
        self._changes.add(stale={name}, reached={name})

    async def take(self, configs: Sequence[MemberConfig]) -> None:
        """Have exactly the members of the file; raises before anything changed when one is bad."""
        wanted = {config.site.id: config for config in configs}
        changed = [config for name, config in wanted.items() if self._configs.get(name) != config]
        access = [load_kubeconfig(config.kubeconfig) for config in changed]
        for name in [name for name in self._configs if self._configs[name] != wanted.get(name)]:
            await self.remove(name)
            log.info("member left", member=name)
        for config, kubeconfig in zip(changed, access, strict=True):
            self.add(config.site, connect(kubeconfig))
            self._configs[config.site.id] = config
            log.info("member taken", member=config.site.id)

    @property
    def kubeconfigs(self) -> files.Change:
        """The kubeconfigs as they were when they were read."""
        return tuple(config.change for config in self._configs.values())

    async def close(self) -> None:
        """Close the connections to all members."""
        for member in self.by_name.values():
            await member.client.close()

    def on_change(self, listener: Callable[[Changes], None]) -> None:
        """Call when dispatched pods or the reachability of a member changed."""
        self._listeners.append(listener)

    async def run(self) -> None:
        """Watch all members, also those that come later, until cancelled."""
        self._running = True
        for member in self.by_name.values():
            self._watch(member)
        try:
            await self._hand_out()
        finally:
            self._running = False
            for task in self._tasks.values():
                task.cancel()
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)
            self._tasks.clear()

    def _watch(self, member: Member) -> None:
        work = keep(f"watching member {member.name}", member.run)
        self._tasks[member.name] = asyncio.create_task(work)

    async def _hand_out(self) -> None:
        while True:
            await self._changes.some.wait()
            await asyncio.sleep(0.1)  # changes come in bunches
            changes = self._changes.take()
            if changes.stale:
                self._hand_out_to(self.inventory(changes.stale))
            if changes.reached or changes.moved or changes.lost:
                for listener in self._listeners:
                    listener(changes)

    def inventory(self, stale: Set[str]) -> Inventory:
        """All members as sites; only those that are stale are added up anew."""
        for name in stale:
            if (member := self.by_name.get(name)) is not None:
                self._pairs[name] = member.inventory()
            else:
                self._pairs.pop(name, None)
        pairs = [pair for _, pair in sorted(self._pairs.items())]
        return Inventory(
            sites=tuple(site for site, _ in pairs), hosts=tuple(host for _, host in pairs)
        )
