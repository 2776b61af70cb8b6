"""Names for shell completion, from the cluster that the options mean; silent if there is none."""

from __future__ import annotations

from typing import Any

from bayplan.errors import BayplanError


def pod_names(params: dict[str, Any], start: str) -> list[str]:
    """Names of pods that begin with what was typed."""
    from bayplan.cli._source import load_cluster

    try:
        cluster = load_cluster(
            tuple(params.get("sources") or ()),
            params.get("kubeconfig") or "",
            params.get("context") or "",
            params.get("namespace") or "",
            "",
            (),
        )
    except BayplanError:
        return []
    where = cluster.origin.namespace
    names = [pod.name for pod in cluster.pods.values() if pod.namespace == where]
    return sorted(name for name in names if name.startswith(start))
