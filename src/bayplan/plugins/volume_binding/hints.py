"""Which changes may help a pod that VolumeBinding rejected."""

from __future__ import annotations

from bayplan.api import CSIDriver, CSINode, CSIStorageCapacity, Object, Pod, StorageClass, quantity
from bayplan.framework import ActionType, QueueingHint, Resource, on
from bayplan.plugins.csi_migration import MIGRATED_PLUGINS
from bayplan.plugins.hints import hint
from bayplan.plugins.volume_claims import names_claim

_CHANGED = ActionType.ADD | ActionType.UPDATE


def _class_changed(pod: Pod, old: Object | None, new: Object | None) -> QueueingHint:
    if not isinstance(old, StorageClass) or not isinstance(new, StorageClass):
        return QueueingHint.QUEUE
    return hint(old.allowed_topologies != new.allowed_topologies)


def _claim_changed(pod: Pod, old: Object | None, new: Object | None) -> QueueingHint:
    return hint(names_claim(pod, new))


def _csi_node_changed(pod: Pod, old: Object | None, new: Object | None) -> QueueingHint:
    if not isinstance(old, CSINode) or not isinstance(new, CSINode):
        return QueueingHint.QUEUE
    before, after = (item.annotations.get(MIGRATED_PLUGINS) for item in (old, new))
    return hint(before != after)


def _driver_changed(pod: Pod, old: Object | None, new: Object | None) -> QueueingHint:
    if not isinstance(old, CSIDriver) or not isinstance(new, CSIDriver):
        return QueueingHint.QUEUE
    used = any(v.csi is not None and v.csi.driver == new.name for v in pod.spec.volumes)
    return hint(used and old.spec.storage_capacity and not new.spec.storage_capacity)


def _capacity_changed(pod: Pod, old: Object | None, new: Object | None) -> QueueingHint:
    if not isinstance(old, CSIStorageCapacity) or not isinstance(new, CSIStorageCapacity):
        return QueueingHint.QUEUE
    before, after = _limit(old), _limit(new)
    return hint(after is not None and (before is None or after > before))


def _limit(capacity: CSIStorageCapacity) -> int | None:
    limit = capacity.capacity
    if capacity.maximum_volume_size is not None:
        limit = capacity.maximum_volume_size
    return None if limit is None else quantity.nanos(limit)


EVENTS = (
    on(Resource.STORAGE_CLASS, _CHANGED, _class_changed),
    on(Resource.PERSISTENT_VOLUME_CLAIM, _CHANGED, _claim_changed),
    on(Resource.PERSISTENT_VOLUME, _CHANGED),
    on(Resource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL),
    on(Resource.CSI_NODE, _CHANGED, _csi_node_changed),
    on(Resource.CSI_DRIVER, ActionType.UPDATE, _driver_changed),
    on(Resource.CSI_STORAGE_CAPACITY, _CHANGED, _capacity_changed),
)
