"""Whether a volume could be provisioned for a claim on a node: topology and free capacity."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from bayplan.api import CSIStorageCapacity, PersistentVolumeClaim, StorageClass, quantity
from bayplan.api.labels import IN, Requirement, compile_selector
from bayplan.cluster.selection import requirement_mask
from bayplan.framework import BoolArray, ClusterObjects, Nodes
from bayplan.plugins.volume_claims import class_of_claim

NO_PROVISIONER = "kubernetes.io/no-provisioner"


class Provisioning:
    """Answers for a table and for one node; both must agree."""

    def __init__(self, objects: ClusterObjects) -> None:
        self._objects = objects

    def storage_class(self, claim: PersistentVolumeClaim) -> StorageClass:
        """The class of a claim; raises LookupError if it is gone."""
        name = class_of_claim(claim)
        storage = self._objects.storage_classes.get(name)
        if storage is None:
            raise LookupError(f'failed to find storage class "{name}"')
        return storage

    def allowed_rows(self, claim: PersistentVolumeClaim, nodes: Nodes) -> BoolArray:
        """Rows on which the class provisions at all."""
        storage = self.storage_class(claim)
        if storage.provisioner in ("", NO_PROVISIONER):
            return np.zeros(nodes.count, dtype=bool)
        if not storage.allowed_topologies:
            return np.ones(nodes.count, dtype=bool)
        mask = np.zeros(nodes.count, dtype=bool)  # (N,)
        for term in storage.allowed_topologies:
            inside = np.full(nodes.count, bool(term.match_label_expressions))
            for item in term.match_label_expressions:
                inside &= requirement_mask(nodes, Requirement(item.key, IN, item.values))
            mask |= inside
        return mask

    def allows(self, claim: PersistentVolumeClaim, labels: Mapping[str, str]) -> bool:
        """Whether the class provisions on a node with these labels."""
        storage = self.storage_class(claim)
        if storage.provisioner in ("", NO_PROVISIONER):
            return False
        if not storage.allowed_topologies:
            return True
        return any(
            term.match_label_expressions
            and all(labels.get(item.key) in item.values for item in term.match_label_expressions)
            for term in storage.allowed_topologies
        )

    def checks_capacity(self, claim: PersistentVolumeClaim) -> bool:
        """Whether the driver publishes how much it can still provision."""
        if "storage" not in claim.spec.resources.requests:
            return False
        driver = self._objects.csi_drivers.get(self.storage_class(claim).provisioner)
        return driver is not None and driver.spec.storage_capacity

    def roomy_rows(self, claim: PersistentVolumeClaim, nodes: Nodes) -> BoolArray:
        """Rows on which the driver has enough room for the claim."""
        if not self.checks_capacity(claim):
            return np.ones(nodes.count, dtype=bool)
        mask = np.zeros(nodes.count, dtype=bool)  # (N,)
        for capacity in self._sufficient(claim):
            matching = np.ones(nodes.count, dtype=bool)
            for requirement in compile_selector(capacity.node_topology).requirements:
                matching &= requirement_mask(nodes, requirement)
            mask |= matching
        return mask

    def room(
        self, claim: PersistentVolumeClaim, labels: Mapping[str, str]
    ) -> CSIStorageCapacity | None:
        """The capacity that the claim would use on a node with these labels, if any is enough."""
        for capacity in self._sufficient(claim):
            if compile_selector(capacity.node_topology).matches(labels):
                return capacity
        return None

    def _sufficient(self, claim: PersistentVolumeClaim) -> list[CSIStorageCapacity]:
        name = self.storage_class(claim).name
        wanted = quantity.value(claim.spec.resources.requests["storage"])
        found = []
        for item in self._objects.csi_storage_capacities:
            if item.storage_class_name != name or item.node_topology is None:
                continue
            if _limit(item) >= wanted:
                found.append(item)
        return found


def _limit(item: CSIStorageCapacity) -> int:
    """The largest volume that can be provisioned; -1 if that is not known or cannot be read."""
    limit = item.capacity if item.maximum_volume_size is None else item.maximum_volume_size
    try:
        return -1 if limit is None else quantity.value(limit)
    except quantity.QuantityError:
        return -1
