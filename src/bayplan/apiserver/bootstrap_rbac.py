"""The roles that a cluster with RBAC starts with.

Named as upstream's, so that manifests that bind them work: `cluster-admin`, `admin`, `edit` and
`view` for people, `system:discovery` and `system:basic-user` for everyone who is authenticated,
and `system:kube-scheduler` for schedulers. Written where missing; what was changed stays.
"""

from __future__ import annotations

from collections.abc import Iterator

from bayplan.apiserver.codec import Object

RBAC = "rbac.authorization.k8s.io"
READ = ["get", "list", "watch"]
WRITE = ["create", "delete", "deletecollection", "patch", "update"]
_CORE = ["configmaps", "endpoints", "events", "limitranges", "persistentvolumeclaims", "pods"]
_CORE += ["pods/log", "pods/status", "replicationcontrollers", "replicationcontrollers/scale"]
_CORE += ["resourcequotas", "serviceaccounts", "services"]
_APPS = ["controllerrevisions", "daemonsets", "deployments", "deployments/scale", "replicasets"]
_APPS += ["replicasets/scale", "statefulsets", "statefulsets/scale"]


def _rule(groups: list[str], resources: list[str], verbs: list[str]) -> Object:
    return {"apiGroups": groups, "resources": resources, "verbs": verbs}


def _workload_rules(verbs: list[str]) -> list[Object]:
    return [
        _rule([""], _CORE, verbs),
        _rule(["apps"], _APPS, verbs),
        _rule(["batch"], ["cronjobs", "jobs"], verbs),
        _rule(["policy"], ["poddisruptionbudgets"], verbs),
        _rule(["networking.k8s.io"], ["ingresses", "networkpolicies"], verbs),
        _rule(["resource.k8s.io"], ["resourceclaims", "resourceclaimtemplates"], verbs),
    ]


def _scheduler_rules() -> list[Object]:
    storage = ["csidrivers", "csinodes", "csistoragecapacities", "storageclasses"]
    storage.append("volumeattachments")
    events = _rule(["", "events.k8s.io"], ["events"], ["create", "patch", "update"])
    review = ["create"]
    claims = ["resourceclaims", "resourceclaims/status"]
    return [
        events,
        _rule(["coordination.k8s.io"], ["leases"], ["create", "get", "list", "update", "watch"]),
        _rule([""], ["nodes", "namespaces"], READ),
        _rule([""], ["pods"], [*READ, "delete"]),
        _rule([""], ["bindings", "pods/binding"], review),
        _rule([""], ["pods/status"], ["patch", "update"]),
        _rule([""], ["replicationcontrollers", "services", "configmaps"], READ),
        _rule(["apps"], ["replicasets", "statefulsets"], READ),
        _rule(["policy"], ["poddisruptionbudgets"], READ),
        _rule([""], ["persistentvolumeclaims", "persistentvolumes"], [*READ, "patch", "update"]),
        _rule(["storage.k8s.io"], storage, READ),
        _rule(["resource.k8s.io"], [*claims, "deviceclasses", "resourceslices"], READ),
        _rule(["resource.k8s.io"], claims, ["patch", "update"]),
        _rule(["authentication.k8s.io"], ["tokenreviews"], review),
        _rule(["authorization.k8s.io"], ["subjectaccessreviews"], review),
    ]


def roles() -> dict[str, list[Object]]:
    """Return the rules of every role by name."""
    everything = [_rule(["*"], ["*"], ["*"]), {"nonResourceURLs": ["*"], "verbs": ["*"]}]
    secrets = _rule([""], ["secrets"], [*READ, *WRITE])
    paths = ["/api", "/api/*", "/apis", "/apis/*", "/healthz", "/livez", "/openapi", "/openapi/*"]
    paths += ["/readyz", "/version", "/version/"]
    selves = ["selfsubjectaccessreviews", "selfsubjectrulesreviews"]
    own = [_rule([RBAC], ["rolebindings", "roles"], [*READ, *WRITE])]
    return {
        "cluster-admin": everything,
        "admin": [*_workload_rules([*READ, *WRITE]), secrets, *own],
        "edit": [*_workload_rules([*READ, *WRITE]), secrets],
        "view": _workload_rules(READ),
        "system:discovery": [{"nonResourceURLs": paths, "verbs": ["get"]}],
        "system:basic-user": [
            _rule(["authorization.k8s.io"], selves, ["create"]),
            _rule(["authentication.k8s.io"], ["selfsubjectreviews"], ["create"]),
        ],
        "system:kube-scheduler": _scheduler_rules(),
    }


BINDINGS: dict[str, Object] = {
    "cluster-admin": {"kind": "Group", "name": "system:masters"},
    "system:discovery": {"kind": "Group", "name": "system:authenticated"},
    "system:basic-user": {"kind": "Group", "name": "system:authenticated"},
    "system:kube-scheduler": {"kind": "User", "name": "system:kube-scheduler"},
}


def objects() -> Iterator[tuple[str, str, str, Object]]:
    """Yield (group, resource, namespace, object) of the roles and their bindings."""
    for name, rules in roles().items():
        yield RBAC, "clusterroles", "", {**_named(name), "rules": rules}
    for name, subject in BINDINGS.items():
        binding = {
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": RBAC, **subject}],
        }
        yield RBAC, "clusterrolebindings", "", {**_named(name), **binding}


def _named(name: str) -> Object:
    metadata = {
        "name": name,
        "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
        "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
    }
    return {"metadata": metadata}
