"""The FlowSchemas and PriorityLevelConfigurations that every cluster starts with, as tables.

The values are upstream's: what they mean to a cluster that was set up elsewhere must not change.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Object = dict[str, Any]
GROUP = "flowcontrol.apiserver.k8s.io"
SCHEMAS, LEVELS = "flowschemas", "prioritylevelconfigurations"
EXEMPT, CATCH_ALL = "exempt", "catch-all"
MANDATORY = (EXEMPT, CATCH_ALL)
AUTO_UPDATE = {"apf.kubernetes.io/autoupdate-spec": "true"}
EVERYBODY = ("Group system:unauthenticated", "Group system:authenticated")
_KUBE_SYSTEM = "ServiceAccount kube-system/*"

# name → (shares, per cent lent, queues, hand, length of a queue); no queues: refuse at once
_LEVELS: dict[str, tuple[int, int, int, int, int]] = {
    CATCH_ALL: (5, 0, 0, 0, 0),
    "system": (30, 33, 64, 6, 50),
    "node-high": (40, 25, 64, 6, 50),
    "leader-election": (10, 0, 16, 4, 50),
    "workload-high": (40, 50, 128, 6, 50),
    "workload-low": (100, 90, 128, 6, 50),
    "global-default": (20, 50, 128, 6, 50),
}
_ALL = ("*", "*", "*", True)  # verbs, groups, resources, also what has no namespace
_LEASES = ("*", "coordination.k8s.io", "leases", False)
_ELECTION = ("get create update", "coordination.k8s.io", "leases", False)
_NODES = ("*", "", "nodes nodes/status", True)
_ANY_URL = ("*", "*")
_PROBES = ("get", "/healthz /readyz /livez")

# name → (level, precedence, how flows are told apart, subjects, resource rules, URL rules)
_SCHEMAS: dict[str, tuple[str, int, str, tuple[str, ...], tuple[Any, ...], tuple[Any, ...]]] = {
    EXEMPT: (EXEMPT, 1, "", ("Group system:masters",), (_ALL,), (_ANY_URL,)),
    "probes": (EXEMPT, 2, "", EVERYBODY, (), (_PROBES,)),
    "system-leader-election": (
        "leader-election",
        100,
        "ByUser",
        ("User system:kube-controller-manager", "User system:kube-scheduler", _KUBE_SYSTEM),
        (_ELECTION,),
        (),
    ),
    "system-node-high": (
        "node-high",
        400,
        "ByUser",
        ("Group system:nodes",),
        (_NODES, _LEASES),
        (),
    ),
    "system-nodes": ("system", 500, "ByUser", ("Group system:nodes",), (_ALL,), (_ANY_URL,)),
    "kube-controller-manager": (
        "workload-high",
        800,
        "ByNamespace",
        ("User system:kube-controller-manager",),
        (_ALL,),
        (_ANY_URL,),
    ),
    "kube-scheduler": (
        "workload-high",
        800,
        "ByNamespace",
        ("User system:kube-scheduler",),
        (_ALL,),
        (_ANY_URL,),
    ),
    "kube-system-service-accounts": (
        "workload-high",
        900,
        "ByNamespace",
        (_KUBE_SYSTEM,),
        (_ALL,),
        (_ANY_URL,),
    ),
    "service-accounts": (
        "workload-low",
        9000,
        "ByUser",
        ("Group system:serviceaccounts",),
        (_ALL,),
        (_ANY_URL,),
    ),
    "global-default": ("global-default", 9900, "ByUser", EVERYBODY, (_ALL,), (_ANY_URL,)),
    CATCH_ALL: (CATCH_ALL, 10000, "ByUser", EVERYBODY, (_ALL,), (_ANY_URL,)),
}


def levels() -> list[Object]:
    """Return the PriorityLevelConfigurations."""
    exempt = {"nominalConcurrencyShares": 0, "lendablePercent": 0}
    found = [_named(EXEMPT, {"type": "Exempt", "exempt": exempt})]
    for name, (shares, lent, queues, hand, length) in _LEVELS.items():
        response: Object = {"type": "Queue" if queues else "Reject"}
        if queues:
            queuing = {"queues": queues, "handSize": hand, "queueLengthLimit": length}
            response["queuing"] = queuing
        limited = {
            "nominalConcurrencyShares": shares,
            "lendablePercent": lent,
            "limitResponse": response,
        }
        found.append(_named(name, {"type": "Limited", "limited": limited}))
    return found


def schemas() -> list[Object]:
    """Return the FlowSchemas."""
    found = []
    for name, (level, precedence, method, subjects, resources, urls) in _SCHEMAS.items():
        rule: Object = {"subjects": [_subject(each) for each in subjects]}
        if resources:
            rule["resourceRules"] = [_resources(*each) for each in resources]
        if urls:
            rule["nonResourceRules"] = [
                {"verbs": verbs.split(), "nonResourceURLs": paths.split()} for verbs, paths in urls
            ]
        spec: Object = {
            "priorityLevelConfiguration": {"name": level},
            "matchingPrecedence": precedence,
            "rules": [rule],
        }
        if method:
            spec["distinguisherMethod"] = {"type": method}
        found.append(_named(name, spec))
    return found


def objects() -> Iterator[tuple[str, str, str, Object]]:
    """Yield (group, resource, namespace, object) of all of them."""
    for resource, found in ((LEVELS, levels()), (SCHEMAS, schemas())):
        for each in found:
            yield GROUP, resource, "", each


def _named(name: str, spec: Object) -> Object:
    return {"metadata": {"name": name, "annotations": dict(AUTO_UPDATE)}, "spec": spec}


def _subject(text: str) -> Object:
    kind, _, name = text.partition(" ")
    if kind != "ServiceAccount":
        return {"kind": kind, kind.lower(): {"name": name}}
    namespace, _, name = name.partition("/")
    return {"kind": kind, "serviceAccount": {"namespace": namespace, "name": name}}


def _resources(verbs: str, group: str, resources: str, everywhere: bool) -> Object:
    rule: Object = {
        "verbs": verbs.split(),
        "apiGroups": [group],
        "resources": resources.split(),
        "namespaces": ["*"],
    }
    return {**rule, "clusterScope": True} if everywhere else rule
