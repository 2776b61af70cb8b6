"""The API objects that the global scheduler places, and how each is read and answered.

A pod with `spec.virtualMachine` is bound like any pod: its node is the zone or the cluster. The
custom resources (`VirtualMachine`, `Stack`, `Allocation`, group bayplan.dev/v1alpha1) get a status.
Each kind is one small adapter: what the object asks for, and which calls tell the result.
"""

from collections.abc import Collection, Mapping
from typing import Protocol

import msgspec

from bayplan.client import Client, Conflict, NotFound
from bayplan.client.resources import PODS, Resource
from bayplan.global_scheduler.fields import Fields, Json, Problem
from bayplan.global_scheduler.ledger import Record
from bayplan.global_scheduler.request import (
    MAX_COUNT,
    MAX_REPLICAS,
    check_size,
    read_flavor_choices,
    read_number,
    read_selector,
    read_stack,
)
from bayplan.global_scheduler.stack import Allocation
from bayplan.global_scheduler.stack import Resource as Machines
from bayplan.global_scheduler.stack import Stack as StackSpec
from bayplan.global_scheduler.table import SiteTable

GROUP, VERSION = "bayplan.dev", "v1alpha1"
VIRTUAL_MACHINES = Resource(GROUP, VERSION, "virtualmachines", "VirtualMachine")
STACKS = Resource(GROUP, VERSION, "stacks", "Stack")
ALLOCATIONS = Resource(GROUP, VERSION, "allocations", "Allocation")
TERMINAL = ("Succeeded", "Failed")


class Owner(msgspec.Struct, frozen=True):
    """Of a reference to an owner, what evicting reads."""

    controller: bool | None = None


class Meta(msgspec.Struct, frozen=True, rename="camel"):
    """Of an object's metadata, what placing reads."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: dict[str, str] | None = None
    deletion_timestamp: str | None = None
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[Owner, ...] = ()


class Placeable(msgspec.Struct, frozen=True):
    """Any object that may be placed; spec and status are read by the adapters."""

    metadata: Meta = Meta()
    spec: dict[str, msgspec.Raw] | None = None
    status: dict[str, msgspec.Raw] | None = None

    def value(self, part: str, name: str) -> Json:
        """A field of spec or status."""
        raw = (self.spec if part == "spec" else self.status) or {}
        found: Json = msgspec.json.decode(raw[name]) if name in raw else None
        return found

    @property
    def body(self) -> Json:
        """The whole spec."""
        return {name: msgspec.json.decode(raw) for name, raw in (self.spec or {}).items()}


Known = tuple[Collection[str], Collection[str]]
"""Flavor ids and volume types that the inventory has."""


class Adapter(Protocol):
    """How one kind is read and answered."""

    @property
    def resource(self) -> Resource: ...

    def wants_placing(self, item: Placeable) -> bool:
        """Whether the object waits for a place."""

    def holds(self, item: Placeable) -> bool:
        """Whether the object, placed, still needs what it took."""

    def allocation(self, item: Placeable, known: Known) -> tuple[Allocation, list[Problem]]:
        """What the object asks for; the allocation's id is the object's uid."""

    async def placed(self, client: Client, item: Placeable, record: Record, node: str) -> bool:
        """Tell that it was placed; False when the object is gone or was placed by another."""

    async def refused(self, client: Client, item: Placeable, message: str, time: str) -> None:
        """Tell why it was not."""

    def is_behind(self, item: Placeable, record: Record) -> bool:
        """Whether a placed object does not tell where it was moved to."""


def node_name(table: SiteTable, site_id: str) -> str:
    """What a placed pod's node is called: the cluster, or the zone if its name is unique.

    A zone name that two regions share would not say where the pod is; it gets its region in front.
    """
    row = table.row_of(site_id)
    if row is None:
        return site_id
    site = table.sites[row]
    if site.cluster:
        return site.cluster
    zone = table.facts["zone"]
    unique = int((zone == zone[row]).sum()) == 1
    return site.zone if unique else f"{site.region}--{site.zone}"


def read_machine(
    fields: Fields, name: str, labels: Mapping[str, str], known: Known
) -> tuple[StackSpec, Fields]:
    """A virtual machine as a stack of one resource; returns its selector's reader too."""
    flavors, _ = known
    common = fields.object("resourceCommonInfo")
    count = read_number(common, "count", MAX_COUNT)
    choices = read_flavor_choices(fields, flavors)
    machines = Machines(name, choices, count=count, need_eip=fields.boolean("needEIP"))
    return StackSpec(name, (machines,), dict(labels)), common.object("selector")


def _machine_allocation(
    item: Placeable, body: Json, path: str, known: Known
) -> tuple[Allocation, list[Problem]]:
    problems: list[Problem] = []
    fields = Fields(body, problems, path)
    meta = item.metadata
    stack, selector = read_machine(fields, meta.name, meta.labels or {}, known)
    return Allocation(meta.uid, stack, read_selector(selector)), problems


def condition(status: str, reason: str, message: str, time: str) -> dict[str, str]:
    """A PodScheduled condition."""
    return {
        "type": "PodScheduled",
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": time,
    }


class VirtualMachinePods:
    """Pods with `spec.virtualMachine`, as on the embedded API server."""

    resource = PODS

    def wants_placing(self, item: Placeable) -> bool:
        return (
            self._is_machine(item)
            and not item.value("spec", "nodeName")
            and item.metadata.deletion_timestamp is None
            and item.value("status", "phase") not in TERMINAL
        )

    def holds(self, item: Placeable) -> bool:
        return self._is_machine(item) and item.value("status", "phase") not in TERMINAL

    @staticmethod
    def _is_machine(item: Placeable) -> bool:
        return "virtualMachine" in (item.spec or {})

    def allocation(self, item: Placeable, known: Known) -> tuple[Allocation, list[Problem]]:
        body = item.value("spec", "virtualMachine")
        return _machine_allocation(item, body, "spec.virtualMachine", known)

    async def placed(self, client: Client, item: Placeable, record: Record, node: str) -> bool:
        meta = item.metadata
        try:
            await client.bind(meta.namespace, meta.name, meta.uid, node)
        except NotFound:
            return False
        except Conflict:
            return await self._is_on(client, meta, node)
        return True

    @staticmethod
    async def _is_on(client: Client, meta: Meta, node: str) -> bool:
        """Whether another scheduler, or this one before a restart, bound the pod there."""
        try:
            body = await client.get(PODS, meta.name, meta.namespace)
        except NotFound:
            return False
        found = msgspec.json.decode(body, type=Placeable)
        return found.metadata.uid == meta.uid and found.value("spec", "nodeName") == node

    async def refused(self, client: Client, item: Placeable, message: str, time: str) -> None:
        meta = item.metadata
        body = {"status": {"conditions": [condition("False", "Unschedulable", message, time)]}}
        await client.patch_status(PODS, meta.name, body, meta.namespace)

    def is_behind(self, item: Placeable, record: Record) -> bool:
        return False  # a bound pod stays


class CustomResource:
    """The kinds with a status of their own."""

    def __init__(self, resource: Resource) -> None:
        self.resource = resource

    def wants_placing(self, item: Placeable) -> bool:
        return item.metadata.deletion_timestamp is None and not item.value("status", "groups")

    def holds(self, item: Placeable) -> bool:
        return item.metadata.deletion_timestamp is None

    def allocation(self, item: Placeable, known: Known) -> tuple[Allocation, list[Problem]]:
        if self.resource is VIRTUAL_MACHINES:
            return _machine_allocation(item, item.body, "spec", known)
        problems: list[Problem] = []
        fields = Fields(item.body, problems, "spec")
        group = fields.object("resource_group") if self.resource is ALLOCATIONS else fields
        if not group.has("name"):
            body = {"name": item.metadata.name, **(_as_dict(group, item))}
            group = Fields(body, problems, group.path)
        stack = read_stack(group, *known)
        stack = msgspec.structs.replace(
            stack, labels={**(item.metadata.labels or {}), **stack.labels}
        )
        replicas = read_number(fields, "replicas", MAX_REPLICAS)
        selector = read_selector(fields.object("selector"))
        allocation = Allocation(item.metadata.uid, stack, selector, replicas)
        check_size(fields, "replicas", [allocation])
        return allocation, problems

    async def placed(self, client: Client, item: Placeable, record: Record, node: str) -> bool:
        meta = item.metadata
        groups = [
            {
                "site": group.selected.node_id,
                "region": group.selected.region,
                "availabilityZone": group.selected.availability_zone,
                "cluster": group.selected.cluster,
                "flavors": [resource.flavor_id for resource in group.resources],
            }
            for group in record.groups
        ]
        status = {
            "phase": "Bound",
            "node": node,
            "groups": groups,
            "message": "",
            "observedGeneration": meta.generation,
        }
        return await self._patch(client, meta, status)

    async def refused(self, client: Client, item: Placeable, message: str, time: str) -> None:
        meta = item.metadata
        status = {"phase": "Pending", "message": message, "observedGeneration": meta.generation}
        await self._patch(client, meta, status)

    def is_behind(self, item: Placeable, record: Record) -> bool:
        groups = item.value("status", "groups")
        told = [
            group.get("site") if isinstance(group, dict) else None
            for group in (groups if isinstance(groups, list) else ())
        ]
        return told != [group.selected.node_id for group in record.groups]

    async def _patch(self, client: Client, meta: Meta, status: Mapping[str, object]) -> bool:
        body = {"metadata": {"uid": meta.uid}, "status": status}
        try:
            await client.patch_status(self.resource, meta.name, body, meta.namespace, kind="merge")
        except (Conflict, NotFound):
            return False
        return True


def _as_dict(group: Fields, item: Placeable) -> dict[str, Json]:
    body = item.body
    if isinstance(body, dict) and group.path != "spec":
        body = body.get("resource_group")
    return dict(body) if isinstance(body, dict) else {}


def in_tree_adapters() -> dict[str, Adapter]:
    """Resource name to adapter."""
    return {
        "pods": VirtualMachinePods(),
        "virtualmachines": CustomResource(VIRTUAL_MACHINES),
        "stacks": CustomResource(STACKS),
        "allocations": CustomResource(ALLOCATIONS),
    }
