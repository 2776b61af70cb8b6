"""What a kind is to the server: names, scope, verbs, subresources and what can be selected.

`BUILT_IN` is the table of kinds that exist without any CustomResourceDefinition; `Registry` holds
them for one server, together with the kinds that definitions add at run time. Nothing here knows
how an object is defaulted, validated or stored: those parts look a kind up by group and resource.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
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
    hidden: tuple[tuple[str, ...], ...] = ()  # fields that this version, or its gates, do not serve
    generation: bool = False  # whether this version counts changes of the spec

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def key(self) -> str:
        """`apps/v1/Deployment`, `v1/Pod`."""
        return f"{self.api_version}/{self.kind}"


def kind_of(
    group: str,
    version: str,
    resource: str,
    kind: str,
    namespaced: bool,
    *,
    short: str = "",
    categories: str = "",
    subs: Iterable[Subresource] = (),
    status: bool = False,
    fields: tuple[str, ...] = (),
    verbs: tuple[str, ...] = ALL_VERBS,
    storage: tuple[str, str] | None = None,
    stored: bool = True,
) -> Kind:
    """Build a built-in kind; the singular is the kind in lower case, as upstream has it."""
    found = {sub.name: sub for sub in subs}
    if status:
        found["status"] = Subresource("status", kind)
    return Kind(
        group=group,
        version=version,
        resource=resource,
        kind=kind,
        namespaced=namespaced,
        singular=kind.lower(),
        short_names=tuple(short.split()),
        categories=tuple(categories.split()),
        verbs=verbs,
        subresources=dict(sorted(found.items())),
        field_labels=fields,
        storage=storage or (group, resource),
        stored=stored,
    )


SCALE = Subresource("scale", "Scale", READ_WRITE, "autoscaling", "v1")
POD_FIELDS = (
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.podIP",
    "status.podIPs",
    "status.nominatedNodeName",
)
EVENT_FIELDS = (
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "source",
    "type",
)
NEW_EVENT_FIELDS = (
    "reason",
    "regarding.kind",
    "regarding.namespace",
    "regarding.name",
    "regarding.uid",
    "regarding.apiVersion",
    "regarding.resourceVersion",
    "regarding.fieldPath",
    "reportingController",
    "type",
)
_PARENT = tuple(f"spec.parentRef.{name}" for name in ("group", "name", "namespace", "resource"))
NO_COLLECTION_DELETE = ("create", "delete", "get", "list", "patch", "update", "watch")


def _core() -> list[Kind]:
    def core(resource: str, kind: str, namespaced: bool, **more: object) -> Kind:
        return kind_of("", "v1", resource, kind, namespaced, **more)  # type: ignore[arg-type]

    pod_subs = (
        Subresource("binding", "Binding", CREATE_ONLY),
        Subresource("ephemeralcontainers", "Pod"),
        Subresource("eviction", "Eviction", CREATE_ONLY, "policy", "v1"),
        Subresource("log", "Pod", ("get",)),
        Subresource("resize", "Pod"),
    )
    token = Subresource("token", "TokenRequest", CREATE_ONLY, "authentication.k8s.io", "v1")
    return [
        core("bindings", "Binding", True, verbs=CREATE_ONLY, stored=False),
        core(
            "componentstatuses",
            "ComponentStatus",
            False,
            short="cs",
            verbs=("get", "list"),
            stored=False,
        ),
        core("configmaps", "ConfigMap", True, short="cm"),
        core("endpoints", "Endpoints", True, short="ep"),
        core("events", "Event", True, short="ev", fields=EVENT_FIELDS),
        core("limitranges", "LimitRange", True, short="limits"),
        core(
            "namespaces",
            "Namespace",
            False,
            short="ns",
            status=True,
            verbs=NO_COLLECTION_DELETE,
            subs=(Subresource("finalize", "Namespace", ("update",)),),
            fields=("status.phase",),
        ),
        core("nodes", "Node", False, short="no", status=True, fields=("spec.unschedulable",)),
        core("persistentvolumeclaims", "PersistentVolumeClaim", True, short="pvc", status=True),
        core("persistentvolumes", "PersistentVolume", False, short="pv", status=True),
        core(
            "pods",
            "Pod",
            True,
            short="po",
            categories="all",
            status=True,
            subs=pod_subs,
            fields=POD_FIELDS,
        ),
        core("podtemplates", "PodTemplate", True),
        core(
            "replicationcontrollers",
            "ReplicationController",
            True,
            short="rc",
            categories="all",
            status=True,
            subs=(SCALE,),
            fields=("status.replicas",),
        ),
        core("resourcequotas", "ResourceQuota", True, short="quota", status=True),
        core("secrets", "Secret", True, fields=("type",)),
        core("serviceaccounts", "ServiceAccount", True, short="sa", subs=(token,)),
        core(
            "services",
            "Service",
            True,
            short="svc",
            categories="all",
            status=True,
            fields=("spec.clusterIP", "spec.type"),
        ),
    ]


def _workloads() -> list[Kind]:
    return [
        kind_of("apps", "v1", "controllerrevisions", "ControllerRevision", True),
        kind_of(
            "apps", "v1", "daemonsets", "DaemonSet", True, short="ds", categories="all", status=True
        ),
        kind_of(
            "apps",
            "v1",
            "deployments",
            "Deployment",
            True,
            short="deploy",
            categories="all",
            status=True,
            subs=(SCALE,),
        ),
        kind_of(
            "apps",
            "v1",
            "replicasets",
            "ReplicaSet",
            True,
            short="rs",
            categories="all",
            status=True,
            subs=(SCALE,),
        ),
        kind_of(
            "apps",
            "v1",
            "statefulsets",
            "StatefulSet",
            True,
            short="sts",
            categories="all",
            status=True,
            subs=(SCALE,),
        ),
        kind_of(
            "batch", "v1", "cronjobs", "CronJob", True, short="cj", categories="all", status=True
        ),
        kind_of(
            "batch",
            "v1",
            "jobs",
            "Job",
            True,
            categories="all",
            status=True,
            fields=("status.successful",),
        ),
        kind_of(
            "policy",
            "v1",
            "poddisruptionbudgets",
            "PodDisruptionBudget",
            True,
            short="pdb",
            status=True,
        ),
    ]


def _cluster() -> list[Kind]:
    rbac = "rbac.authorization.k8s.io"
    storage = "storage.k8s.io"
    resource = "resource.k8s.io"
    network = "networking.k8s.io"
    slices = ("spec.nodeName", "spec.driver")
    return [
        kind_of(
            "events.k8s.io",
            "v1",
            "events",
            "Event",
            True,
            short="ev",
            fields=NEW_EVENT_FIELDS,
            storage=("", "events"),
        ),
        kind_of(rbac, "v1", "clusterrolebindings", "ClusterRoleBinding", False),
        kind_of(rbac, "v1", "clusterroles", "ClusterRole", False),
        kind_of(rbac, "v1", "rolebindings", "RoleBinding", True),
        kind_of(rbac, "v1", "roles", "Role", True),
        kind_of(network, "v1", "ingressclasses", "IngressClass", False),
        kind_of(network, "v1", "ingresses", "Ingress", True, short="ing", status=True),
        kind_of(network, "v1", "networkpolicies", "NetworkPolicy", True, short="netpol"),
        kind_of(storage, "v1", "csidrivers", "CSIDriver", False),
        kind_of(storage, "v1", "csinodes", "CSINode", False),
        kind_of(storage, "v1", "csistoragecapacities", "CSIStorageCapacity", True),
        kind_of(storage, "v1", "storageclasses", "StorageClass", False, short="sc"),
        kind_of(storage, "v1", "volumeattachments", "VolumeAttachment", False, status=True),
        kind_of(
            storage, "v1", "volumeattributesclasses", "VolumeAttributesClass", False, short="vac"
        ),
        kind_of(
            "apiextensions.k8s.io",
            "v1",
            "customresourcedefinitions",
            "CustomResourceDefinition",
            False,
            short="crd crds",
            categories="api-extensions",
            status=True,
        ),
        kind_of("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False, short="pc"),
        kind_of("coordination.k8s.io", "v1", "leases", "Lease", True),
        kind_of("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", False),
        kind_of("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", True),
        kind_of(resource, "v1", "deviceclasses", "DeviceClass", False),
        kind_of(resource, "v1", "resourceclaims", "ResourceClaim", True, status=True),
        kind_of(resource, "v1", "resourceclaimtemplates", "ResourceClaimTemplate", True),
        kind_of(resource, "v1", "resourceslices", "ResourceSlice", False, fields=slices),
    ]


def _policies() -> list[Kind]:
    """Kinds that tell other parts of a control plane what to do."""
    admission, flow = "admissionregistration.k8s.io", "flowcontrol.apiserver.k8s.io"
    network = "networking.k8s.io"

    def policy(resource: str, kind: str, *, status: bool = False) -> Kind:
        return kind_of(
            admission, "v1", resource, kind, False, status=status, categories="api-extensions"
        )

    autoscaler = kind_of(
        "autoscaling",
        "v2",
        "horizontalpodautoscalers",
        "HorizontalPodAutoscaler",
        True,
        short="hpa",
        categories="all",
        status=True,
    )
    older = msgspec.structs.replace(autoscaler, version="v1", view=to_v1, unview=to_v2, hub="v2")
    return [
        autoscaler,
        older,
        kind_of(
            "certificates.k8s.io",
            "v1",
            "certificatesigningrequests",
            "CertificateSigningRequest",
            False,
            short="csr",
            status=True,
            subs=(Subresource("approval", "CertificateSigningRequest"),),
            fields=("spec.signerName",),
        ),
        kind_of(network, "v1", "ipaddresses", "IPAddress", False, short="ip", fields=_PARENT),
        kind_of(network, "v1", "servicecidrs", "ServiceCIDR", False, status=True),
        policy("mutatingadmissionpolicies", "MutatingAdmissionPolicy"),
        policy("mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding"),
        policy("mutatingwebhookconfigurations", "MutatingWebhookConfiguration"),
        policy("validatingadmissionpolicies", "ValidatingAdmissionPolicy", status=True),
        policy("validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding"),
        policy("validatingwebhookconfigurations", "ValidatingWebhookConfiguration"),
        kind_of(
            "apiregistration.k8s.io",
            "v1",
            "apiservices",
            "APIService",
            False,
            status=True,
            categories="api-extensions",
        ),
        kind_of(flow, "v1", "flowschemas", "FlowSchema", False, status=True),
        kind_of(
            flow,
            "v1",
            "prioritylevelconfigurations",
            "PriorityLevelConfiguration",
            False,
            status=True,
        ),
    ]


def _reviews() -> list[Kind]:
    """Kinds that answer a question and are never stored."""

    def review(group: str, resource: str, kind: str, namespaced: bool = False) -> Kind:
        return kind_of(group, "v1", resource, kind, namespaced, verbs=CREATE_ONLY, stored=False)

    who, may = "authentication.k8s.io", "authorization.k8s.io"
    return [
        review(who, "selfsubjectreviews", "SelfSubjectReview"),
        review(who, "tokenreviews", "TokenReview"),
        review(may, "localsubjectaccessreviews", "LocalSubjectAccessReview", True),
        review(may, "selfsubjectaccessreviews", "SelfSubjectAccessReview"),
        review(may, "selfsubjectrulesreviews", "SelfSubjectRulesReview"),
        review(may, "subjectaccessreviews", "SubjectAccessReview"),
    ]


METRICS_GROUP = "metrics.k8s.io"


def metrics() -> list[Kind]:
    """Return the kinds that are served where somebody knows what pods and nodes use."""
    reads = ("get", "list")
    return [
        kind_of(METRICS_GROUP, "v1beta1", name, kind, namespaced, verbs=reads, stored=False)
        for name, kind, namespaced in (
            ("nodes", "NodeMetrics", False),
            ("pods", "PodMetrics", True),
        )
    ]


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


def built_in() -> list[Kind]:
    """Return every kind that the server knows without definitions."""
    return [*_core(), *_workloads(), *_cluster(), *_policies(), *_reviews()]


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
        return next(
            (
                k
                for k in self._kinds.values()
                if k.kind == kind and k.group == group and k.version == version
            ),
            None,
        )

    def group_versions(self) -> dict[str, list[str]]:
        """Return the versions of every group, groups in upstream's order, custom ones last."""
        found: dict[str, list[str]] = {}
        for kind in self._kinds.values():
            versions = found.setdefault(kind.group, [])
            if kind.version not in versions:
                versions.append(kind.version)
        known = [group for group in GROUP_PRIORITIES if group in found]
        rest = sorted(group for group in found if group not in GROUP_PRIORITIES)
        return {group: found[group] for group in (*known, *rest)}
