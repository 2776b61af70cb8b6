"""What a kind is to the server: names, scope, verbs, subresources and what can be selected.

A table has the kinds that exist without any CustomResourceDefinition, one a line; `Registry` holds
them for one server, together with the kinds that definitions add at run time. Nothing here knows
how an object is defaulted, validated or stored: those parts look a kind up by group and resource.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Any

import msgspec

from bayplan.apiserver.autoscaler_form import to_v1, to_v2

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
READ_WRITE = ("get", "patch", "update")
CREATE_ONLY = ("create",)


Convert = Callable[[dict[str, Any]], dict[str, Any]]


class Subresource(msgspec.Struct, frozen=True):
    """A path below an object. `kind` is what is sent and answered there."""

    name: str
    kind: str
    verbs: tuple[str, ...] = READ_WRITE
    group: str = ""
    version: str = ""


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """One served resource of one version.

    `storage` is the (group, resource) under which objects are stored; two views of one object
    (core and events.k8s.io events) share it. `custom` is true for what a definition added;
    `field_labels` lists the field selectors besides metadata.name and metadata.namespace.
    """

    group: str
    version: str
    resource: str
    kind: str
    namespaced: bool
    singular: str
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    subresources: dict[str, Subresource] = {}
    field_labels: tuple[str, ...] = ()
    storage: tuple[str, str] = ("", "")
    storage_version: str = ""
    stored: bool = True
    custom: bool = False
    deprecated: str = ""  # the warning of a version that is
    view: Convert | None = None  # how what is stored is shown
    unview: Convert | None = None  # the way back
    hub: str = ""  # the version whose rules hold, where this is only another form of it
    marked: bool = False  # whether stored objects say their version
    hidden: dict[str, Any] = {}  # tree of fields that this version, or its gates, do not serve
    generation: bool = False  # whether this version counts changes of the spec

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def key(self) -> str:
        """`apps/v1/Deployment`, `v1/Pod`."""
        return f"{self.api_version}/{self.kind}"

    @property
    def prefix(self) -> str:
        """What the keys of stored objects begin with: `core/pods/`."""
        return f"{self.storage[0] or 'core'}/{self.storage[1]}/"


SUBRESOURCES = {
    sub.name: sub
    for sub in (
        Subresource("binding", "Binding", CREATE_ONLY),
        Subresource("eviction", "Eviction", CREATE_ONLY, "policy", "v1"),
        Subresource("finalize", "Namespace", ("update",)),
        Subresource("log", "Pod", ("get",)),
        Subresource("scale", "Scale", READ_WRITE, "autoscaling", "v1"),
        Subresource("token", "TokenRequest", CREATE_ONLY, "authentication.k8s.io", "v1"),
    )
}
"""Those that do not read and write the object itself."""
_FIELDS = {
    "v1/events": (
        "involvedObject.kind involvedObject.namespace involvedObject.name involvedObject.uid"
        " involvedObject.apiVersion involvedObject.resourceVersion involvedObject.fieldPath"
        " reason reportingComponent source type"
    ),
    "v1/namespaces": "status.phase",
    "v1/nodes": "spec.unschedulable",
    "v1/pods": (
        "spec.nodeName spec.restartPolicy spec.schedulerName spec.serviceAccountName"
        " spec.hostNetwork status.phase status.podIP status.podIPs status.nominatedNodeName"
    ),
    "v1/replicationcontrollers": "status.replicas",
    "v1/secrets": "type",
    "v1/services": "spec.clusterIP spec.type",
    "batch/v1/jobs": "status.successful",
    "events.k8s.io/v1/events": (
        "reason regarding.kind regarding.namespace regarding.name regarding.uid"
        " regarding.apiVersion regarding.resourceVersion regarding.fieldPath"
        " reportingController type"
    ),
    "resource.k8s.io/v1/resourceslices": "spec.nodeName spec.driver",
    "certificates.k8s.io/v1/certificatesigningrequests": "spec.signerName",
    "certificates.k8s.io/v1/clustertrustbundles": "spec.signerName",
    "certificates.k8s.io/v1/podcertificaterequests": "spec.nodeName spec.podName spec.signerName",
}
"""What can be selected besides names and namespaces."""
INDEXED = {
    ("", "pods"): "spec.nodeName",
    ("resource.k8s.io", "resourceslices"): "spec.nodeName",
}
"""The field by which a stored resource is indexed, as in upstream's watch cache."""
_BUILT_IN = {
    "v1": """
bindings                 Binding                namespaced transient only:create
componentstatuses        ComponentStatus        short:cs transient only:get,list
configmaps               ConfigMap              namespaced short:cm
endpoints                Endpoints              namespaced short:ep
events                   Event                  namespaced short:ev
limitranges              LimitRange             namespaced short:limits
namespaces               Namespace              short:ns one-by-one /status /finalize
nodes                    Node                   short:no /status
persistentvolumeclaims   PersistentVolumeClaim  namespaced short:pvc /status
persistentvolumes        PersistentVolume       short:pv /status
pods                     Pod                    namespaced short:po all /status /binding \
  /ephemeralcontainers /eviction /log /resize
podtemplates             PodTemplate            namespaced
replicationcontrollers   ReplicationController  namespaced short:rc all /status /scale
resourcequotas           ResourceQuota          namespaced short:quota /status
secrets                  Secret                 namespaced
serviceaccounts          ServiceAccount         namespaced short:sa /token
services                 Service                namespaced short:svc all /status
""",
    "apps/v1": """
controllerrevisions      ControllerRevision     namespaced
daemonsets               DaemonSet              namespaced short:ds all /status
deployments              Deployment             namespaced short:deploy all /status /scale
replicasets              ReplicaSet             namespaced short:rs all /status /scale
statefulsets             StatefulSet            namespaced short:sts all /status /scale
""",
    "batch/v1": """
cronjobs                 CronJob                namespaced short:cj all /status
jobs                     Job                    namespaced all /status
""",
    "policy/v1": """
poddisruptionbudgets     PodDisruptionBudget    namespaced short:pdb /status
""",
    "events.k8s.io/v1": """
events                   Event                  namespaced short:ev of-core
""",
    "rbac.authorization.k8s.io/v1": """
clusterrolebindings      ClusterRoleBinding
clusterroles             ClusterRole
rolebindings             RoleBinding            namespaced
roles                    Role                   namespaced
""",
    "networking.k8s.io/v1": """
ingressclasses           IngressClass
ingresses                Ingress                namespaced short:ing /status
networkpolicies          NetworkPolicy          namespaced short:netpol
ipaddresses              IPAddress              short:ip
servicecidrs             ServiceCIDR            /status
""",
    "storage.k8s.io/v1": """
csidrivers               CSIDriver
csinodes                 CSINode
csistoragecapacities     CSIStorageCapacity     namespaced
storageclasses           StorageClass           short:sc
volumeattachments        VolumeAttachment       /status
volumeattributesclasses  VolumeAttributesClass  short:vac
""",
    "apiextensions.k8s.io/v1": """
customresourcedefinitions CustomResourceDefinition short:crd,crds api-extensions /status
""",
    "scheduling.k8s.io/v1": """
priorityclasses          PriorityClass          short:pc
""",
    "coordination.k8s.io/v1": """
leases                   Lease                  namespaced
""",
    "node.k8s.io/v1": """
runtimeclasses           RuntimeClass
""",
    "discovery.k8s.io/v1": """
endpointslices           EndpointSlice          namespaced
""",
    "resource.k8s.io/v1": """
deviceclasses            DeviceClass
resourceclaims           ResourceClaim          namespaced /status
resourceclaimtemplates   ResourceClaimTemplate  namespaced
resourceslices           ResourceSlice
""",
    "autoscaling/v2": """
horizontalpodautoscalers HorizontalPodAutoscaler namespaced short:hpa all /status
""",
    "certificates.k8s.io/v1": """
certificatesigningrequests CertificateSigningRequest short:csr /status /approval
""",
    "admissionregistration.k8s.io/v1": """
mutatingadmissionpolicies         MutatingAdmissionPolicy          api-extensions
mutatingadmissionpolicybindings   MutatingAdmissionPolicyBinding   api-extensions
mutatingwebhookconfigurations     MutatingWebhookConfiguration     api-extensions
validatingadmissionpolicies       ValidatingAdmissionPolicy        api-extensions /status
validatingadmissionpolicybindings ValidatingAdmissionPolicyBinding api-extensions
validatingwebhookconfigurations   ValidatingWebhookConfiguration   api-extensions
""",
    "apiregistration.k8s.io/v1": """
apiservices              APIService             api-extensions /status
""",
    "flowcontrol.apiserver.k8s.io/v1": """
flowschemas              FlowSchema             /status
prioritylevelconfigurations PriorityLevelConfiguration /status
""",
    "authentication.k8s.io/v1": """
selfsubjectreviews       SelfSubjectReview      transient only:create
tokenreviews             TokenReview            transient only:create
""",
    "authorization.k8s.io/v1": """
localsubjectaccessreviews LocalSubjectAccessReview namespaced transient only:create
selfsubjectaccessreviews SelfSubjectAccessReview transient only:create
selfsubjectrulesreviews  SelfSubjectRulesReview transient only:create
subjectaccessreviews     SubjectAccessReview    transient only:create
""",
}


def kind_of(api_version: str, text: str) -> Kind:
    """Build a built-in kind of its resource, its name and words about it.

    `namespaced`; `short:` and `only:` (verbs) with a list; a category; `/status` and other
    subresources; `one-by-one`: it has no deletecollection; `transient`: it is never stored;
    `of-core`: it is another view of the core group's. The singular is the kind in lower case, as
    upstream has it.
    """
    resource, kind, *words = text.split()
    group, _, version = api_version.rpartition("/")
    listed = dict(word.split(":") for word in words if ":" in word)
    subs = sorted(word[1:] for word in words if word.startswith("/"))
    verbs = tuple(listed["only"].split(",")) if "only" in listed else ALL_VERBS
    if "one-by-one" in words:
        verbs = tuple(verb for verb in verbs if verb != "deletecollection")
    return Kind(
        group=group,
        version=version,
        resource=resource,
        kind=kind,
        namespaced="namespaced" in words,
        singular=kind.lower(),
        short_names=tuple(listed.get("short", "").split(",")) if "short" in listed else (),
        categories=tuple(word for word in words if word in ("all", "api-extensions")),
        verbs=verbs,
        subresources={name: SUBRESOURCES.get(name) or Subresource(name, kind) for name in subs},
        field_labels=tuple(_FIELDS.get(f"{api_version}/{resource}", "").split()),
        storage=("" if "of-core" in words else group, resource),
        stored="transient" not in words,
    )


METRICS_GROUP = "metrics.k8s.io"


def metrics() -> list[Kind]:
    """Return the kinds that are served where somebody knows what pods and nodes use."""
    rows = ("nodes NodeMetrics", "pods PodMetrics namespaced")
    return [kind_of(f"{METRICS_GROUP}/v1beta1", f"{row} transient only:get,list") for row in rows]


# Upstream's order of groups in discovery (GroupPriorityMinimum of its APIServices).
GROUP_PRIORITIES = {
    "": 18000,
    "apiregistration.k8s.io": 18000,
    "apps": 17800,
    "events.k8s.io": 17750,
    "authentication.k8s.io": 17700,
    "authorization.k8s.io": 17600,
    "autoscaling": 17500,
    "batch": 17400,
    "certificates.k8s.io": 17300,
    "networking.k8s.io": 17200,
    "policy": 17100,
    "rbac.authorization.k8s.io": 17000,
    "storage.k8s.io": 16800,
    "admissionregistration.k8s.io": 16700,
    "apiextensions.k8s.io": 16700,
    "scheduling.k8s.io": 16600,
    "coordination.k8s.io": 16500,
    "node.k8s.io": 16300,
    "discovery.k8s.io": 16200,
    "flowcontrol.apiserver.k8s.io": 16100,
    "resource.k8s.io": 16200,
}


@cache
def built_in() -> tuple[Kind, ...]:
    """Return every kind that the server knows without definitions."""
    found = [
        kind_of(api_version, row)
        for api_version, rows in _BUILT_IN.items()
        for row in rows.strip().splitlines()
    ]
    place = next(i for i, kind in enumerate(found) if kind.group == "autoscaling")
    older = {"version": "v1", "view": to_v1, "unview": to_v2, "hub": "v2"}
    found.insert(place + 1, msgspec.structs.replace(found[place], **older))
    return tuple(found)


class Registry:
    """The kinds that one server serves now.

    `add` and `remove` are for kinds of CustomResourceDefinitions; a lookup is one dict access.
    `generation` rises on each change, so that discovery and OpenAPI know when to be rebuilt.
    """

    def __init__(self, more: Iterable[Kind] = ()) -> None:
        """`more` are kinds of this server besides those that every server has."""
        self.generation = 0
        self._kinds: dict[tuple[str, str, str], Kind] = {}
        self._resources: dict[tuple[str, str], Kind | None] = {}
        self._forms: dict[tuple[str, str], list[Kind]] = {}
        self._versions: dict[str, dict[str, list[Kind]]] = {}
        for kind in (*built_in(), *more):
            self._kinds[kind.group, kind.version, kind.resource] = kind

    def get(self, group: str, version: str, resource: str) -> Kind | None:
        return self._kinds.get((group, version, resource))

    def add(self, kind: Kind) -> None:
        """Add or replace the kind served at its group, version and resource; built-in ones stay."""
        known = self._kinds.get((kind.group, kind.version, kind.resource))
        if known is not None and not known.custom:
            return
        self._kinds[kind.group, kind.version, kind.resource] = kind
        self._changed()

    def remove(self, group: str, version: str, resource: str) -> None:
        known = self._kinds.get((group, version, resource))
        if known is not None and known.custom:
            del self._kinds[group, version, resource]
            self._changed()

    def _changed(self) -> None:
        self._resources.clear()
        self._forms.clear()
        self._versions = {}
        self.generation += 1

    def __iter__(self) -> Iterator[Kind]:
        return iter(self._kinds.values())

    def by_resource(self, group: str, resource: str) -> Kind | None:
        """Return the kind of a group and resource in whichever version is served first."""
        key = (group, resource)
        if key not in self._resources:
            found = (k for k in self._kinds.values() if (k.group, k.resource) == key)
            self._resources[key] = next(found, None)
        return self._resources[key]

    def forms(self, kind: Kind) -> list[Kind]:
        """Return the kinds that show the same stored objects, this one first."""
        if kind.storage not in self._forms:
            same = [k for k in self._kinds.values() if k.stored and k.storage == kind.storage]
            self._forms[kind.storage] = same
        return [kind, *(k for k in self._forms[kind.storage] if k is not kind)]

    def by_kind(self, api_version: str, kind: str) -> Kind | None:
        """Return the kind that an object's apiVersion and kind name."""
        group, _, version = api_version.rpartition("/")
        return next((k for k in self.of_version(group, version) if k.kind == kind), None)

    def of_version(self, group: str, version: str) -> Sequence[Kind]:
        """Return the kinds of one version of a group."""
        return self._by_version().get(group, {}).get(version, ())

    def group_versions(self) -> dict[str, list[str]]:
        """Return the versions of every group, groups in upstream's order, custom ones last."""
        return {group: list(versions) for group, versions in self._by_version().items()}

    def versions_of(self, group: str) -> list[str]:
        """Return the versions of a group."""
        return list(self._by_version().get(group, ()))

    def _by_version(self) -> dict[str, dict[str, list[Kind]]]:
        """Return all kinds by group and version, in that order."""
        if not self._versions:
            found: dict[str, dict[str, list[Kind]]] = {}
            for kind in self._kinds.values():
                found.setdefault(kind.group, {}).setdefault(kind.version, []).append(kind)
            known = [group for group in GROUP_PRIORITIES if group in found]
            rest = sorted(group for group in found if group not in GROUP_PRIORITIES)
            self._versions = {group: found[group] for group in (*known, *rest)}
        return self._versions
