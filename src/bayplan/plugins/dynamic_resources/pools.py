"""The devices on offer, in the order in which they are tried.

Slices are grouped to pools; only the newest generation of a pool counts, and a pool is complete
when all of its slices are there. Pools whose devices have binding conditions come last, then order
is by driver and pool, slice name, and position in the slice.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bayplan.api import Device, ResourceSlice
from bayplan.api.devices import DeviceTaint, DeviceTaintSelector
from bayplan.api.node_selectors import CompiledNodeSelector, compile_node_selector
from bayplan.framework import ClusterObjects, NodeInfo
from bayplan.plugins.dynamic_resources.cel_values import device_view
from bayplan.plugins.dynamic_resources.claims import DeviceId


class Offer:
    """A device on offer and where it can be used."""

    __slots__ = (
        "_selector",
        "_view",
        "all_nodes",
        "device",
        "id",
        "node_name",
        "pool",
        "slice",
        "taints",
    )

    def __init__(self, pool: Pool, item: ResourceSlice, device: Device) -> None:
        spec = item.spec
        per_device = spec.per_device_node_selection
        selector = device.node_selector if per_device else spec.node_selector
        self.pool = pool
        self.slice = item
        self.device = device
        self.taints = device.taints
        """Its own, and those of rules."""
        self.id: DeviceId = (spec.driver, spec.pool.name, device.name)
        self.node_name = device.node_name if per_device else spec.node_name
        self.all_nodes = device.all_nodes if per_device else spec.all_nodes
        self._selector: CompiledNodeSelector | None = (
            None if selector is None else compile_node_selector(selector)
        )
        self._view: dict[str, Any] | None = None

    @property
    def anywhere(self) -> bool:
        """Whether labels or names of nodes do not matter."""
        return self.all_nodes

    def on(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether the device can be used on a node."""
        if self.node_name:
            return self.node_name == name
        if self.all_nodes:
            return True
        return self._selector is not None and self._selector.matches(labels, name)

    @property
    def view(self) -> dict[str, Any]:
        """The device as CEL sees it."""
        if self._view is None:
            self._view = device_view(self.slice.spec.driver, self.device)
        return self._view


class Pool:
    """The newest slices of one pool."""

    def __init__(self, slices: list[ResourceSlice]) -> None:
        newest = max(item.spec.pool.generation for item in slices)
        current = [item for item in slices if item.spec.pool.generation == newest]
        self.slices = sorted(current, key=lambda item: item.name)
        spec = self.slices[0].spec
        self.driver, self.name = spec.driver, spec.pool.name
        self.complete = len(self.slices) == spec.pool.resource_slice_count
        self.offers = [Offer(self, item, d) for item in self.slices for d in item.spec.devices]
        names = [offer.device.name for offer in self.offers]
        self.invalid = len(names) != len(set(names))
        self.counters = {
            counters.name: counters
            for item in self.slices
            for counters in item.spec.shared_counters
        }
        self.binding_conditions = any(offer.device.binding_conditions for offer in self.offers)

    @property
    def usable(self) -> bool:
        return self.complete and not self.invalid


def _parts(selector: DeviceTaintSelector) -> DeviceId:
    return selector.driver, selector.pool, selector.device


class Pools:
    """All pools, rebuilt when a slice changes, with the offers of each node."""

    def __init__(
        self, objects: ClusterObjects, *, rules: bool = False, hints: bool = False
    ) -> None:
        """`rules`: DeviceTaintRules count. `hints`: errors of selectors name the device."""
        self.hints = hints
        self._lister = objects.resource_slices
        self._rules = objects.device_taint_rules if rules else None
        self._seen = (-1, -1)
        self.revision = -1
        self._local: dict[str, list[Offer]] = {}
        self._global: list[Offer] = []
        self._order: dict[DeviceId, int] = {}
        self._nodes: dict[DeviceId, str] = {}
        self._answers: dict[tuple[str, ...], dict[int, bool]] = {}
        self.by_labels = False
        """Whether any device is tied to nodes by labels."""

    def refresh(self) -> None:
        seen = (self._lister.revision, -1 if self._rules is None else self._rules.revision)
        if seen == self._seen:
            return
        self._seen = seen
        self.revision += 1
        groups: dict[tuple[str, str], list[ResourceSlice]] = {}
        for item in self._lister:
            groups.setdefault((item.spec.driver, item.spec.pool.name), []).append(item)
        pools = [Pool(slices) for slices in groups.values()]
        pools.sort(key=lambda pool: (pool.binding_conditions, pool.driver, pool.name))
        self._local, self._global, self._order = {}, [], {}
        self._nodes, self._answers = {}, {}
        self.by_labels = False
        for pool in pools:
            for offer in pool.offers:
                offer.taints = offer.device.taints + self._ruled(offer)
                self._order.setdefault(offer.id, len(self._order))
                if offer.node_name:
                    self._nodes[offer.id] = offer.node_name
                    self._local.setdefault(offer.node_name, []).append(offer)
                else:
                    self._global.append(offer)
                    self.by_labels = self.by_labels or not offer.anywhere

    def _ruled(self, offer: Offer) -> tuple[DeviceTaint, ...]:
        """The taints that rules put on a device."""
        if self._rules is None:
            return ()
        return tuple(
            rule.spec.taint
            for rule in self._rules
            if (by := rule.spec.device_selector) is not None
            and all(not want or want == has for want, has in zip(_parts(by), offer.id, strict=True))
        )

    def node_of(self, device: DeviceId) -> str:
        """The only node that can use a device; empty if there may be others."""
        return self._nodes.get(device, "")

    def answers(self, expressions: tuple[str, ...]) -> dict[int, bool]:
        """What selectors said about offers (by identity), for as long as the offers stay."""
        return self._answers.setdefault(expressions, {})

    def has_local(self, name: str) -> bool:
        """Whether a node has devices of its own."""
        return name in self._local

    def on_node(self, node: NodeInfo) -> list[Offer]:
        """The devices that can be used on a node, in order."""
        name, labels = node.name, node.labels
        found = [offer for offer in self._global if offer.on(name, labels)]
        local = self._local.get(name, [])
        if local and found:
            order = self._order
            return sorted(found + local, key=lambda offer: order[offer.id])
        return found or list(local)
