"""Pod groups stay while pods use them; in 1.36 their workload must have their template."""

from __future__ import annotations

from typing import Any

from bayplan.apiserver.admission.types import UPDATE, Attributes, Reader, forbidden

GROUP = "scheduling.k8s.io"
FINALIZER = f"{GROUP}/podgroup-protection"


def protect(attrs: Attributes, _reader: Reader) -> None:
    """Give a pod group the finalizer that its controller takes off once no pod uses it."""
    if not attrs.writes("podgroups", GROUP):
        return
    metadata: dict[str, Any] = attrs.obj["metadata"]
    leaving = attrs.operation == UPDATE and metadata.get("deletionTimestamp")
    finalizers = metadata.get("finalizers") or []
    if FINALIZER not in finalizers and not leaving:
        metadata["finalizers"] = [*finalizers, FINALIZER]


def check_workload(attrs: Attributes, reader: Reader) -> None:
    """Refuse a pod group whose template is in no workload."""
    if not attrs.writes("podgroups", GROUP):
        return
    wanted = ((attrs.obj.get("spec") or {}).get("podGroupTemplateRef") or {}).get("workload")
    if wanted is None:
        return
    name, template = wanted["workloadName"], wanted["podGroupTemplateName"]
    found: dict[str, Any] | None = reader.get(GROUP, "workloads", attrs.namespace, name)
    if found is None:
        raise forbidden(attrs, f'PodGroup rejected: Workload "{name}" not found')
    if found["metadata"].get("deletionTimestamp"):
        raise forbidden(attrs, f'PodGroup rejected: Workload "{name}" is being deleted')
    templates = (found.get("spec") or {}).get("podGroupTemplates") or ()
    if not any(each["name"] == template for each in templates):
        raise forbidden(
            attrs,
            f'PodGroup rejected: PodGroupTemplate "{template}" not found in Workload "{name}"',
        )
