"""What admission writes into pods besides their priority: tolerations and topology labels."""

from __future__ import annotations

from typing import Any

from bayplan.apiserver.admission.types import CREATE, Attributes, Reader, forbidden

_NOT_READY = "node.kubernetes.io/not-ready"
_UNREACHABLE = "node.kubernetes.io/unreachable"
_SECONDS = 300
TOPOLOGY = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")


def default_tolerations(attrs: Attributes, reader: Reader) -> None:
    """Let pods stay five minutes on nodes that are not ready or cannot be reached."""
    if not attrs.writes("pods"):
        return
    spec: dict[str, Any] = attrs.obj["spec"]
    tolerations: list[dict[str, Any]] = spec.get("tolerations") or []
    missing = [key for key in (_NOT_READY, _UNREACHABLE) if not _tolerates(tolerations, key)]
    if missing:
        spec["tolerations"] = tolerations + [
            {
                "key": key,
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": _SECONDS,
            }
            for key in missing
        ]


def _tolerates(tolerations: list[dict[str, Any]], key: str) -> bool:
    for toleration in tolerations:
        if toleration.get("key", "") in (key, "") and toleration.get("effect", "") in (
            "NoExecute",
            "",
        ):
            return True
    return False


def topology_labels(attrs: Attributes, reader: Reader) -> None:
    """Copy zone and region of the node onto a pod that is being bound to it."""
    if attrs.operation != CREATE or attrs.group:
        return
    if attrs.subresource == "binding" or attrs.resource == "bindings":
        target: dict[str, Any] = attrs.obj.get("target") or {}
        if target.get("kind") != "Node":
            return
        name = target.get("name")
    elif attrs.resource == "pods" and not attrs.subresource:
        spec: dict[str, Any] = attrs.obj.get("spec") or {}
        name = spec.get("nodeName")
    else:
        return
    if not name:
        return
    node: dict[str, Any] | None = reader.get("", "nodes", "", name)
    labels = ((node or {}).get("metadata") or {}).get("labels") or {}
    copied = {key: labels[key] for key in TOPOLOGY if key in labels}
    if copied:
        metadata: dict[str, Any] = attrs.obj.setdefault("metadata", {})
        metadata["labels"] = {**(metadata.get("labels") or {}), **copied}


def runtime_class(attrs: Attributes, reader: Reader) -> None:
    """Refuse a pod whose runtime class does not exist; take over its overhead and node selector."""
    if attrs.resource != "pods" or attrs.group or attrs.subresource or attrs.operation != CREATE:
        return
    spec: dict[str, Any] = attrs.obj["spec"]
    name = spec.get("runtimeClassName")
    if not name:
        return
    found: dict[str, Any] | None = reader.get("node.k8s.io", "runtimeclasses", "", name)
    if found is None:
        raise forbidden(attrs, f'pod rejected: RuntimeClass "{name}" not found')
    overhead = (found.get("overhead") or {}).get("podFixed")
    if overhead:
        spec["overhead"] = dict(overhead)
    selector = (found.get("scheduling") or {}).get("nodeSelector")
    if selector:
        spec["nodeSelector"] = {**selector, **(spec.get("nodeSelector") or {})}


def check_overhead(attrs: Attributes, reader: Reader) -> None:
    """Refuse an overhead that no runtime class defines."""
    if attrs.resource != "pods" or attrs.group or attrs.subresource or attrs.operation != CREATE:
        return
    spec: dict[str, Any] = attrs.obj["spec"]
    if spec.get("overhead") is not None and not spec.get("runtimeClassName"):
        why = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
        raise forbidden(attrs, why)
