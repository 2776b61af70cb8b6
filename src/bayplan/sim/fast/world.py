"""A world whose pods and nodes are in memory; see the package's docstring."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from bayplan.api import Node, Pod
from bayplan.client import Resource
from bayplan.client.resources import NODES, PODS
from bayplan.config import default_config
from bayplan.controllers.manager import ControllerManager, select
from bayplan.engine.loop import Scheduler
from bayplan.engine.loop.actions import RecordEvent
from bayplan.plugins import in_tree_registry
from bayplan.sim.errors import ScenarioError
from bayplan.sim.fast.client import FastClient
from bayplan.sim.fast.cluster import Entry, FastCluster
from bayplan.sim.fast.driver import FastScheduler
from bayplan.sim.fast.kit import FastKit
from bayplan.sim.fast.kubelet import FastKubelet
from bayplan.sim.log import Entry as Written
from bayplan.sim.world import Settings, World

ALWAYS = ("namespace", "serviceaccount", "kubelet")
OWNERS = ("garbagecollector",)
VOLUMES = ("persistentvolume-binder", "volume-protection", "ephemeral-claims")
BY_KIND: dict[str, Sequence[str]] = {
    "replicasets": ("replicaset", *OWNERS),
    "deployments": ("replicaset", "deployment", *OWNERS),
    "statefulsets": ("statefulset", *OWNERS),
    "daemonsets": ("daemonset", *OWNERS),
    "jobs": ("job", *OWNERS),
    "replicationcontrollers": ("replicationcontroller", *OWNERS),
    "dependents": OWNERS,
    "poddisruptionbudgets": ("disruption",),
    "persistentvolumes": VOLUMES,
    "persistentvolumeclaims": VOLUMES,
    "storageclasses": VOLUMES,
    "changed nodes": ("nodelifecycle", "podgc"),
}
"""Which controllers begin to work with the first object of a kind: one that has nothing to do
would only be told of every pod."""


class FastWorld(World):
    """The whole cluster, as a scenario sees it."""

    def __init__(self, settings: Settings) -> None:
        for wrong, what in (
            (settings.elect, "an election of schedulers"),
            (settings.schedulers == 0, "a scheduler of one's own"),
            (settings.managed_fields, "managed fields"),
        ):
            if wrong:
                raise needs_all(what)
        super().__init__(settings)
        self.cluster = FastCluster(self.now, self._uid)
        self.cluster.listen(PODS, self._pod_written)
        self.cluster.listen(NODES, self._node_written)
        self.fast = FastClient(super().new_client(), self.cluster, self._suffix, self._wrote)
        self.client = self.fast
        self.stored: set[str] = set()
        self._manager: ControllerManager | None = None
        self._chosen = select(settings.controllers)

    def _processes(self) -> list[FastScheduler]:  # type: ignore[override]
        told = self._told if self.settings.keep else None
        return [
            FastScheduler(self._make_core, self.cluster, self.fast, self.now, told, self)
            for _ in range(self.settings.schedulers)
        ]

    def prefix_of(self, resource: Resource) -> str:
        kind = self.api.backend.registry.by_resource(resource.group, resource.plural)
        return "" if kind is None else kind.prefix

    def _track(self, entry: Written) -> None:
        super()._track(entry)
        prefix = "/".join([*entry.key.split("/", 2)[:2], ""])
        if prefix not in self.stored:
            self.stored.add(prefix)
            for process in cast("list[FastScheduler]", self.processes):
                process.came(prefix)

    def _make_core(self) -> Scheduler:
        settings = self.settings
        core = Scheduler(
            settings.config or default_config(),
            settings.registry or in_tree_registry(),
            gates=settings.gates,
            extenders=self.extenders,
            now=self.now(),
        )
        core.engine.records = None  # nobody here asks why attempts ended as they did
        core.mute(events=not settings.keep, metrics=True)
        return core

    def manager(self, options: dict[str, object]) -> ControllerManager:
        kit = FastKit(
            self.fast, self.cluster, clock=self.now, seed=self.settings.seed, options=options
        )
        names = [name for name in self._chosen if name in ALWAYS]
        self._manager = ControllerManager(
            self.fast, names, kit=kit, others={"kubelet": FastKubelet}
        )
        return self._manager

    # -- what happens

    def _wrote(self, plural: str) -> None:
        for name in BY_KIND.get(plural, ()):
            if self._manager is not None and name in self._chosen:
                self._manager.add(name)

    def _pod_written(
        self, action: str, resource: Resource, entry: Entry, old: Entry | None
    ) -> None:
        time, pod = self.elapsed(), entry.typed
        assert isinstance(pod, Pod)
        if action == "MARKED":
            action = "MODIFIED"
        self.tracker.see_pod(time, action, pod)
        key = f"core/pods/{entry.key}"
        self.log.write(time, self.cluster.version, action, key, _pod_digest(pod), pod)

    def _node_written(
        self, action: str, resource: Resource, entry: Entry, old: Entry | None
    ) -> None:
        time, node = self.elapsed(), entry.typed
        assert isinstance(node, Node)
        if action == "MARKED":
            action = "MODIFIED"
        self.tracker.see_node(time, action, node)
        key = f"core/nodes/{entry.key}"
        self.log.write(time, self.cluster.version, action, key, _node_digest(entry), node)
        if action != "ADDED" or _needs_care(entry):
            self._wrote("changed nodes")

    def _told(self, event: RecordEvent) -> None:
        self.tracker.see_told(self.elapsed(), event.reason, event.pod.key, event.note)

    # -- faults that need requests to break

    def api_errors(self, rate: float) -> None:
        if rate:
            raise needs_all("fault apiErrors")

    def slow_api(self, delay: float) -> None:
        if delay:
            raise needs_all("fault slowApi")

    async def lose_lease(self, duration: float = 15.0) -> None:
        raise needs_all("fault leaseLost")


def needs_all(what: str) -> ScenarioError:
    """Return the error for what only the faithful lane has."""
    return ScenarioError(f"{what} needs the whole API server; run the scenario with --faithful")


def _pod_digest(pod: Pod) -> bytes:
    """What of a pod counts for the hash of a run: where it is and how it goes."""
    meta, status = pod.metadata, pod.status
    how = f"{status.phase} {status.nominated_node_name}"
    return f"{meta.uid} {pod.spec.node_name} {how} {meta.deletion_timestamp} ".encode()


def _node_digest(entry: Entry) -> bytes:
    meta = entry.typed.metadata
    spec, status = entry.body.get("spec") or {}, entry.body.get("status") or {}
    closed, end = spec.get("unschedulable", ""), meta.deletion_timestamp
    return f"{meta.uid}  {status.get('phase', '')}  {end} {closed}".encode()


def _needs_care(entry: Entry) -> bool:
    spec, status = entry.body.get("spec") or {}, entry.body.get("status") or {}
    ready = any(
        c.get("type") == "Ready" and c.get("status") == "True"
        for c in status.get("conditions") or ()
    )
    return bool(spec.get("taints") or spec.get("unschedulable")) or not ready
