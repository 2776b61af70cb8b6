"""The devices on offer, in the order in which they are tried.

A pool is what its newest slices say that concern a node: those that name the node or select it, and
those with counters. It is complete when all slices of that generation exist, whichever nodes they
concern; nothing is taken from a pool that is not, or that contradicts itself. Pools whose devices
have binding conditions come last, then order is by driver and pool, slice name, and position in
the slice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from bayplan.api import Device, ResourceSlice
from bayplan.api.devices import DeviceTaint, DeviceTaintSelector
from bayplan.api.node_selectors import CompiledNodeSelector, compile_node_selector
from bayplan.config import FeatureGates
from bayplan.framework import ClusterObjects, Handle, NodeInfo
from bayplan.plugins.dynamic_resources.cel_values import device_view
from bayplan.plugins.dynamic_resources.claims import DeviceId

PoolId = tuple[str, str]
"""Driver, pool."""


class Features(NamedTuple):
    """What devices can do, which hangs on the version and its gates."""

    modern: bool = True
    """As 1.37 has it. In 1.36 the counters of any node concern all nodes, and errors of selectors
    do not name the device."""
    taints: bool = True
    rules: bool = False
    """DeviceTaintRules taint devices, too."""
    partitions: bool = True
    """There are counters, and devices that say themselves for which nodes they are."""
    sharing: bool = True
    """A device may be given to several claims, which say how much of it they need."""
    binding: bool = True
    """A device may have conditions that must be true before a pod is bound."""
    choices: bool = True
    """A request may list several subrequests, the best first."""


def features_of(gates: FeatureGates) -> Features:
    conditions = gates["DRADeviceBindingConditions"] and gates["DRAResourceClaimDeviceStatus"]
    return Features(
        modern=gates.since("1.37"),
        taints=gates["DRADeviceTaints"],
        rules=gates["DRADeviceTaintRules"],
        partitions=gates["DRAPartitionableDevices"],
        sharing=gates["DRAConsumableCapacity"],
        binding=conditions,
        choices=gates["DRAPrioritizedList"],
    )


class Place:
    """Where a slice or a device can be used."""

    __slots__ = ("_selector", "all_nodes", "node_name")

    def __init__(self, item: Any) -> None:
        self.node_name: str = item.node_name
        self.all_nodes: bool = item.all_nodes
        self._selector: CompiledNodeSelector | None = (
            None if item.node_selector is None else compile_node_selector(item.node_selector)
        )

    def holds(self, name: str, labels: Mapping[str, str]) -> bool:
        if self.node_name:
            return self.node_name == name
        if self.all_nodes:
            return True
        return self._selector is not None and self._selector.matches(labels, name)


class Offer:
    """A device on offer."""

    __slots__ = (
        *("_view", "device", "id", "own_place", "slice", "taints"),
        *("shared", "unsupported", "withheld"),
    )

    def __init__(
        self,
        item: ResourceSlice,
        device: Device,
        taints: tuple[DeviceTaint, ...],
        features: Features,
    ) -> None:
        self.slice = item
        self.device = device
        self.taints = taints
        """Its own, and those of rules."""
        self.shared = features.sharing and device.allow_multiple_allocations
        """Whether several claims can have it."""
        self.unsupported = bool(device.binding_conditions) and not features.binding
        """Whether no request selects it, as it has conditions that nobody would await."""
        self.withheld = bool(device.consumes_counters) and not features.partitions
        """Whether it can be selected, but not given, as nobody would count."""
        self.id: DeviceId = (item.spec.driver, item.spec.pool.name, device.name)
        self.own_place = Place(device) if item.spec.per_device_node_selection else None
        """Where the device can be used, if not where its slice says."""
        self._view: dict[str, Any] | None = None

    @property
    def node_name(self) -> str:
        """The only node that can use the device, if it is said so."""
        return self.slice.spec.node_name if self.own_place is None else self.own_place.node_name

    @property
    def view(self) -> dict[str, Any]:
        """The device as CEL sees it."""
        if self._view is None:
            self._view = device_view(self.slice.spec.driver, self.device)
        return self._view


class Slice:
    """A slice with its devices."""

    __slots__ = ("counters", "generation", "item", "name", "node_name", "offers", "place", "pool")

    def __init__(self, item: ResourceSlice, offers: list[Offer]) -> None:
        spec = item.spec
        self.item, self.name, self.offers = item, item.name, offers
        self.pool: PoolId = (spec.driver, spec.pool.name)
        self.generation = spec.pool.generation
        self.node_name = spec.node_name
        self.counters = spec.shared_counters
        self.place = None if spec.per_device_node_selection else Place(spec)

    @property
    def by_labels(self) -> bool:
        """Whether it depends on more of a node than its name whether the slice concerns it."""
        return not self.node_name and (self.place is None or not self.place.all_nodes)

    def concerns(self, name: str, labels: Mapping[str, str]) -> bool:
        if self.place is not None:
            return self.place.holds(name, labels)
        places = (offer.own_place for offer in self.offers)
        return any(place is not None and place.holds(name, labels) for place in places)


class Pool:
    """A pool as some nodes see it."""

    def __init__(self, near: Sequence[Slice], whole: Sequence[Slice], *, counts: bool) -> None:
        """`near` are the slices that concern the nodes, `whole` all of that generation.

        `counts`: counters are looked at.
        """
        near = sorted(near, key=lambda item: item.name)
        wanted = near[0].item.spec.pool.resource_slice_count
        self.driver, self.name = near[0].pool
        far: list[Slice] = []
        if len(near) != wanted:
            known = {item.name for item in near}
            far = [item for item in whole if item.name not in known]
        self.complete = len(near) == wanted or len(whole) == wanted
        self.counters = {c.name: c for item in (*near, *far) for c in item.counters}
        devices = [item for item in near if not item.counters]
        self.offers = [offer for item in devices for offer in item.offers]
        self.everything = self.offers + [offer for item in far for offer in item.offers]
        """The devices of all nodes, which share the counters."""
        self.invalid = self.complete and not self._is_valid((*near, *far), counts)
        self.binding_conditions = self.usable and any(
            offer.device.binding_conditions for offer in self.offers
        )

    def _is_valid(self, slices: Sequence[Slice], counts: bool) -> bool:
        names = {offer.device.name for offer in self.offers}
        if len(names) != len(self.offers) or not counts:
            return len(names) == len(self.offers)
        sets = [counters.name for item in slices for counters in item.counters]
        return len(sets) == len(set(sets)) and all(
            self._has_counters(offer.device) for offer in self.everything
        )

    def _has_counters(self, device: Device) -> bool:
        for use in device.consumes_counters:
            found = self.counters.get(use.counter_set)
            if found is None or not found.counters.keys() >= use.counters.keys():
                return False
        return True

    @property
    def usable(self) -> bool:
        return self.complete and not self.invalid


def _parts(selector: DeviceTaintSelector) -> DeviceId:
    return selector.driver, selector.pool, selector.device


class Pools:
    """All slices, read again when one changes, and the pools of each node."""

    def __init__(self, objects: ClusterObjects, features: Features) -> None:
        self.features = features
        self._lister = objects.resource_slices
        self._rules = objects.device_taint_rules if features.rules else None
        self._seen = (-1, -1)
        self.revision = -1
        self._local: dict[str, list[Slice]] = {}
        self._shared: list[Slice] = []
        self._whole: dict[PoolId, list[Slice]] = {}
        self._pools: dict[tuple[PoolId, frozenset[str]], Pool] = {}
        self._nodes: dict[DeviceId, str] = {}
        self._answers: dict[tuple[str, ...], dict[int, bool | None]] = {}
        self.by_labels = False
        """Whether any slice is tied to nodes by labels."""

    def refresh(self) -> None:
        seen = (self._lister.revision, -1 if self._rules is None else self._rules.revision)
        if seen == self._seen:
            return
        self._seen = seen
        self.revision += 1
        self._local, self._shared, self._whole = {}, [], {}
        self._pools, self._nodes, self._answers = {}, {}, {}
        for item in self._lister:
            spec = item.spec
            offers = [self._offer(item, device) for device in spec.devices]
            found = Slice(item, offers)
            self._whole.setdefault(found.pool, []).append(found)
        for slices in self._whole.values():
            self._sort_in(slices)
        self.by_labels = any(item.by_labels for item in self._shared)

    def _offer(self, item: ResourceSlice, device: Device) -> Offer:
        taints: tuple[DeviceTaint, ...] = ()
        if self.features.taints:
            taints = device.taints + self._ruled(item.spec, device)
        return Offer(item, device, taints, self.features)

    def _sort_in(self, slices: list[Slice]) -> None:
        """Note which nodes the slices of a pool concern."""
        node = slices[0].node_name
        alone = bool(node) and all(item.node_name == node for item in slices)
        partitions, modern = self.features.partitions, self.features.modern
        sound = alone and Pool(slices, _newest(slices), counts=partitions).usable
        for item in slices:
            if not partitions and (item.counters or item.place is None):
                continue
            if item.node_name:
                self._local.setdefault(item.node_name, []).append(item)
            if not item.node_name or (item.counters and not sound and not modern):
                self._shared.append(item)
            if alone:
                self._nodes.update({offer.id: node for offer in item.offers})

    def _ruled(self, spec: Any, device: Device) -> tuple[DeviceTaint, ...]:
        """The taints that rules put on a device."""
        if self._rules is None:
            return ()
        parts = (spec.driver, spec.pool.name, device.name)
        return tuple(
            rule.spec.taint
            for rule in self._rules
            if (by := rule.spec.device_selector) is not None
            and all(not want or want == has for want, has in zip(_parts(by), parts, strict=True))
        )

    def node_of(self, device: DeviceId) -> str:
        """The only node whose answers hang on a device; empty if there may be others."""
        return self._nodes.get(device, "")

    def answers(self, expressions: tuple[str, ...]) -> dict[int, bool | None]:
        """What selectors said about offers (by identity), for as long as the offers stay."""
        return self._answers.setdefault(expressions, {})

    def has_local(self, name: str) -> bool:
        """Whether a node has slices of its own."""
        return name in self._local

    def offers(self, node: NodeInfo) -> Iterator[Offer]:
        """The devices that can be used on a node, also those of pools that cannot."""
        name, labels = node.name, node.labels
        for item in self._near(node):
            if item.place is None or item.place.holds(name, labels):
                for offer in item.offers:
                    if offer.own_place is None or offer.own_place.holds(name, labels):
                        yield offer

    def _near(self, node: NodeInfo) -> Iterator[Slice]:
        """The slices that concern a node."""
        name, labels = node.name, node.labels
        yield from self._local.get(name, ())
        for item in self._shared:
            if item.node_name == name:
                continue
            if (item.counters and not self.features.modern) or item.concerns(name, labels):
                yield item

    def on_node(self, node: NodeInfo) -> list[Pool]:
        """The pools of a node, in order."""
        near: dict[PoolId, list[Slice]] = {}
        for item in self._near(node):
            near.setdefault(item.pool, []).append(item)
        pools = [pool for key, slices in near.items() if (pool := self._pool(key, slices))]
        return sorted(pools, key=lambda pool: (pool.binding_conditions, pool.driver, pool.name))

    def _pool(self, key: PoolId, near: list[Slice]) -> Pool | None:
        """A pool as those see it whom these slices concern; None if a newer one replaces it."""
        near = _newest(near)
        names = frozenset(item.name for item in near)
        known = self._pools.get((key, names))
        if known is not None:
            return known
        generation = near[0].generation
        whole = self._whole[key]
        if len(near) != near[0].item.spec.pool.resource_slice_count:
            if any(item.generation > generation for item in whole):
                return None
            whole = [item for item in whole if item.generation == generation]
        found = Pool(near, whole, counts=self.features.partitions)
        self._pools[key, names] = found
        return found


def _newest(slices: Iterable[Slice]) -> list[Slice]:
    found = list(slices)
    newest = max(item.generation for item in found)
    return [item for item in found if item.generation == newest]


def shared_pools(handle: Handle) -> Pools:
    """The slices of the handle's cluster."""
    features = features_of(handle.gates)
    return handle.shared("DynamicResources/pools", lambda: Pools(handle.objects, features))
