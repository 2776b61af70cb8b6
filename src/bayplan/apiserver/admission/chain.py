"""The admission chain as data, and the two functions that run its halves.

Each entry is a pair (mutate, check); either may be None. The order is upstream's, except that
service addresses are handed out last, when nothing can refuse the service any more.
"""

from __future__ import annotations

from collections.abc import Callable

from bayplan.apiserver.admission import limits, namespaces, pods, priority, quota, storage
from bayplan.apiserver.admission.services import ServiceAddresses
from bayplan.apiserver.admission.types import Attributes, Reader

Step = Callable[[Attributes, Reader], None]

CHAIN: dict[str, tuple[Step | None, Step | None]] = {
    "NamespaceLifecycle": (namespaces.lifecycle, None),
    "LimitRanger": (limits.apply_limits, limits.check_limits),
    "Priority": (priority.set_priority, priority.check_single_default),
    "DefaultTolerationSeconds": (pods.default_tolerations, None),
    "PodTopologyLabels": (pods.topology_labels, None),
    "DefaultStorageClass": (storage.default_class, None),
    "StorageObjectInUseProtection": (storage.protect, None),
    "PersistentVolumeClaimResize": (None, storage.check_resize),
    "RuntimeClass": (pods.runtime_class, pods.check_overhead),
    "ResourceQuota": (None, quota.check_quota),
    "ServiceAddresses": (None, ServiceAddresses().assign),
}

_MUTATE = [mutate for mutate, _ in CHAIN.values() if mutate is not None]
_CHECK = [check for _, check in CHAIN.values() if check is not None]


def admit(attrs: Attributes, reader: Reader) -> None:
    """Run the mutating half: may change `attrs.obj`; raises AdmissionError to refuse."""
    for mutate in _MUTATE:
        mutate(attrs, reader)


def validate(attrs: Attributes, reader: Reader) -> None:
    """Run the validating half, after the object has passed validation."""
    for check in _CHECK:
        check(attrs, reader)
