"""The admission chain as data, and `Chain`, which runs its parts.

Each entry is a pair (mutate, check); either may be None. The order is upstream's, except that
service addresses are handed out last, when nothing can refuse the service any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from bayplan.apiserver.admission import (
    groups,
    limits,
    namespaces,
    pods,
    podsecurity,
    priority,
    storage,
)
from bayplan.apiserver.admission.accounts import ServiceAccounts
from bayplan.apiserver.admission.quota import Quotas
from bayplan.apiserver.admission.services import ServiceAddresses
from bayplan.apiserver.admission.tally import Tally
from bayplan.apiserver.admission.types import Attributes, Reader
from bayplan.errors import ConfigError

Step = Callable[[Attributes, Reader], None]

CHAIN: dict[str, tuple[Step | None, Step | None]] = {
    "NamespaceLifecycle": (namespaces.lifecycle, None),
    "LimitRanger": (limits.apply_limits, limits.check_limits),
    "Priority": (priority.set_priority, priority.check_single_default),
    "DefaultTolerationSeconds": (pods.default_tolerations, None),
    "PodTopologyLabels": (pods.topology_labels, None),
    "DefaultStorageClass": (storage.default_class, None),
    "StorageObjectInUseProtection": (storage.protect, None),
    "PodGroupProtection": (groups.protect, None),
    "PodGroupWorkloadExists": (None, groups.check_workload),
    "PersistentVolumeClaimResize": (None, storage.check_resize),
    "RuntimeClass": (pods.runtime_class, pods.check_overhead),
    "PodSecurity": (None, podsecurity.check_pod_security),
    "ResourceQuota": (None, None),  # each chain has its own, as of what keeps anything
}

# Plugins that live elsewhere, and upstream's whose work other parts do or that have none here.
DYNAMIC = (
    "MutatingAdmissionPolicy",
    "MutatingAdmissionWebhook",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionWebhook",
)
ACCEPTED = (
    "AlwaysPullImages",
    "CertificateApproval",
    "CertificateSigning",
    "CertificateSubjectRestriction",
    "ClusterTrustBundleAttest",
    "DefaultIngressClass",
    "EventRateLimit",
    "NamespaceAutoProvision",
    "NamespaceExists",
    "NodeRestriction",
    "OwnerReferencesPermissionEnforcement",
    "PodNodeSelector",
    "PodTolerationRestriction",
    "TaintNodesByCondition",
)
OPTIONAL = ("ServiceAccount",)  # switched on by name only


def disabled_plugins(enabled: Iterable[str], disabled: Iterable[str]) -> list[str]:
    """Which plugins to leave out; raises ConfigError for a name that nobody knows."""
    given, off = list(enabled), list(disabled)
    known = {*CHAIN, *OPTIONAL, *DYNAMIC, *ACCEPTED}
    for flag, names in (("enable", given), ("disable", off)):
        unknown = [name for name in names if name not in known]
        if unknown:
            raise ConfigError(
                f"--{flag}-admission-plugins: unknown admission plugin {unknown[0]!r}; known are "
                f"{', '.join(sorted(known))}"
            )
    both = sorted(set(given) & set(off))
    if both:
        raise ConfigError(
            f"{', '.join(both)} in --enable-admission-plugins and --disable-admission-plugins "
            "overlapped; name each in one of them"
        )
    return [*off, *(name for name in OPTIONAL if name not in given and name not in off)]


# What counts and hands out comes when nobody can refuse any more.
_LAST = ("ResourceQuota", "ServiceAddresses")


class Chain:
    """The plugins that are switched on."""

    def __init__(
        self, disabled: Iterable[str] = OPTIONAL, suffix: Callable[[], str] = lambda: "00000"
    ) -> None:
        off = frozenset(disabled)
        self._quotas, self._addresses = Quotas(), ServiceAddresses()
        every = {
            **CHAIN,
            "ResourceQuota": (None, self._quotas.check),
            "ServiceAddresses": (self._addresses.refuse_taken, self._addresses.assign),
            "ServiceAccount": (ServiceAccounts(suffix).mount, None),
        }
        steps = {name: step for name, step in every.items() if name not in off}
        self._mutate = [mutate for mutate, _ in steps.values() if mutate is not None]
        self._check = [c for name, (_, c) in steps.items() if c is not None and name not in _LAST]
        self._settle = [c for name, (_, c) in steps.items() if c is not None and name in _LAST]

    def admit(self, attrs: Attributes, reader: Reader) -> None:
        """Run the mutating half: may change `attrs.obj`; raises AdmissionError to refuse."""
        for mutate in self._mutate:
            mutate(attrs, reader)

    def validate(self, attrs: Attributes, reader: Reader) -> None:
        """Run the validating half, after the object has passed validation."""
        for check in self._check:
            check(attrs, reader)

    def counted(self, attrs: Attributes, reader: Reader) -> list[tuple[str, Tally]]:
        """Return what a write will be counted with: sums over its kind, with the namespace."""
        found = []
        if self._quotas.check in self._settle:
            found = [(attrs.namespace, each) for each in self._quotas.counted(attrs, reader)]
        if attrs.writes("services"):
            found.append(("", self._addresses.taken))
        return found

    def settle(self, attrs: Attributes, reader: Reader) -> None:
        """Count quota and hand out addresses, right before the object is stored."""
        for check in self._settle:
            check(attrs, reader)
