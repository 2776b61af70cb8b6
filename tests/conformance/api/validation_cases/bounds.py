"""What a LimitRange does to the pods and claims of its namespace."""

# ruff: noqa: E501  one case a line is easier to read

from __future__ import annotations

from tests.conformance.api.validation_cases.build import Body, Step, pod

_NAMESPACE = "bounded"
_ROOT = f"/api/v1/namespaces/{_NAMESPACE}"
_LIMITS: Body = {"spec": {"limits": [
    {"type": "Container", "default": {"cpu": "1", "memory": "1Gi"}, "defaultRequest": {"cpu": "500m"}, "min": {"cpu": "100m"}, "max": {"cpu": "2"},
     "maxLimitRequestRatio": {"cpu": "4"}},
    {"type": "Pod", "max": {"cpu": "3"}},
    {"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "5Gi"}}]}}  # fmt: skip


def _resources(**parts: Body) -> Body:
    return pod({"resources": parts})


PODS: dict[str, Body] = {
    "defaults": pod(),
    "partly": _resources(requests={"cpu": "300m"}),
    "own": _resources(requests={"cpu": "1", "memory": "1Mi"}, limits={"cpu": "2", "memory": "1Gi"}),
    "too-much": _resources(limits={"cpu": "3"}),
    "too-little": _resources(requests={"cpu": "50m"}),
    "ratio": _resources(requests={"cpu": "100m"}, limits={"cpu": "2"}),
    "pod-max": {"spec": {"containers": [{"name": n, "image": "i:1", "resources": {"limits": {"cpu": "2"}}} for n in ("a", "b")]}},
    "init": pod(initContainers=[{"name": "i", "image": "i:1"}]),
    "invalid-first": pod({"name": "Bad!", "resources": {"limits": {"cpu": "3"}}}),
}  # fmt: skip
CLAIMS = {"small": "1Mi", "big": "6Gi", "good": "2Gi"}


def _post(case: str, resource: str, body: Body) -> Step:
    return {"id": f"bounds/{case}", "method": "POST", "path": f"{_ROOT}/{resource}", "body": body}


def steps(namespace: str) -> list[Step]:
    def named(case: str, kind: str, body: Body) -> Body:
        return {"apiVersion": "v1", "kind": kind, "metadata": {"name": case}, **body}

    out = [_post("limits", "limitranges", named("limits", "LimitRange", _LIMITS))]
    out += [_post(case, "pods", named(case, "Pod", body)) for case, body in PODS.items()]
    for case, size in CLAIMS.items():
        spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
        out.append(
            _post(
                case, "persistentvolumeclaims", named(case, "PersistentVolumeClaim", {"spec": spec})
            )
        )
    for step in out:
        step["compare"] = {"message": True}
    return out
