"""The least that reading a cluster needs, as a ClusterRole made from the table of kinds."""

from __future__ import annotations

from bayplan.api import yaml
from bayplan.inspect.kinds import KINDS

NAME = "bayplan-inspect"


def cluster_role() -> str:
    """YAML of the ClusterRole; `deploy/inspect/cluster-role.yaml` is this."""
    groups: dict[str, list[str]] = {}
    for kind in KINDS:
        groups.setdefault(kind.resource.group, []).append(kind.resource.plural)
    rules: list[dict[str, object]] = [
        {"apiGroups": [group], "resources": sorted(names), "verbs": ["get", "list"]}
        for group, names in sorted(groups.items())
    ]
    rules.append({"nonResourceURLs": ["/version"], "verbs": ["get"]})
    body = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": NAME},
        "rules": rules,
    }
    return yaml.dump(body)
