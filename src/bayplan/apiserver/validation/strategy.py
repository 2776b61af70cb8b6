"""The strategies of the kinds, as data: what is validated, prepared and kept.

A `Strategy` says how one resource is named and validated, and what the server itself writes. The
generic parts (status is kept on update, the generation rises with the spec) are flags.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from bayplan.api.defaults.json_types import Object, keep
from bayplan.api.names import Checker, dns1123_subdomain
from bayplan.apiserver.validation.batch import CONTROLLER_LABELS, NAME_LABELS
from bayplan.apiserver.validation.causes import Causes

Validate = Callable[[Object], Causes]
ValidateUpdate = Callable[[Object, Object], Causes]
Prepare = Callable[[Object], None]
PrepareUpdate = Callable[[Object, Object], None]


class Strategy(msgspec.Struct, frozen=True, kw_only=True):
    """How one resource is prepared and validated.

    `gate` runs before all other checks, and what it finds is reported alone.
    `name` is None where only the generic metadata checks apply. `validate` gets the object without
    its metadata's checks; `update` the additional checks of a change. `revalidate` says that a
    change is validated like a new object too (metadata included with `revalidate_meta`), and
    `meta_update` that the kind checks changed metadata itself, besides the generic check.
    `update_first` orders the messages: what may not change before what is wrong in itself.
    `new_status` is what a new object's status becomes (None: the kind has none, or keeps it).
    """

    name: Checker | None = dns1123_subdomain
    namespaced: bool = True
    gate: Validate | None = None
    validate: Validate | None = None
    update: ValidateUpdate | None = None
    revalidate: bool = True
    revalidate_meta: bool = False
    meta_update: bool = True
    update_first: bool = False
    standard_finalizers: bool = True
    new_status: Object | None = None
    generation: bool = False
    update_generation: bool = True
    prepare_create: Prepare | None = None
    prepare_update: PrepareUpdate | None = None
    status: ValidateUpdate | None = None
    prepare_status: PrepareUpdate | None = None
    prepare_approval: PrepareUpdate | None = None
    phase_time: bool = False
    """Whether the status says when its phase changed."""
    canonicalize: Prepare | None = None
    create_on_update: bool = False
    unconditional: bool = True


def prepare_namespace_create(obj: Object) -> None:
    obj["status"] = {"phase": "Active"}
    finalizers = obj.setdefault("spec", {}).setdefault("finalizers", [])
    if "kubernetes" not in finalizers:
        finalizers.append("kubernetes")


def prepare_namespace_update(obj: Object, old: Object) -> None:
    before = (old.get("spec") or {}).get("finalizers")
    spec = obj.setdefault("spec", {})
    if before is None:
        spec.pop("finalizers", None)
    else:
        spec["finalizers"] = before


def name_namespace(obj: Object) -> None:
    """Write the label that names a namespace; nobody can remove or falsify it."""
    meta = obj["metadata"]
    if meta.get("labels") is None:
        meta["labels"] = {}
    meta["labels"]["kubernetes.io/metadata.name"] = meta.get("name", "")


def prepare_volume_create(obj: Object) -> None:
    obj["status"] = {"phase": "Pending"}
    if created := obj["metadata"].get("creationTimestamp"):
        obj["status"]["lastPhaseTransitionTime"] = created


def stamp_phase(obj: Object, old: Object, now: str) -> None:
    """Note when the phase changed, unless the writer says so itself."""
    status, before = obj.setdefault("status", {}), old.get("status") or {}
    field = "lastPhaseTransitionTime"
    if status.get("phase") == before.get("phase"):
        if not status.get(field) and before.get(field):
            status[field] = before[field]
    elif not status.get(field) or status.get(field) == before.get(field):
        status[field] = now


def prepare_claim_create(obj: Object) -> None:
    obj["status"] = {"phase": "Pending"}
    _drop_unknown_source(obj["spec"])
    _normalize_data_sources(obj["spec"])


def prepare_claim_update(obj: Object, old: Object) -> None:
    before = old.get("spec") or {}
    if before.get("dataSource") is None and before.get("dataSourceRef") is None:
        _drop_unknown_source(obj["spec"])
    _normalize_data_sources(obj["spec"])


def _drop_unknown_source(spec: Object) -> None:
    """The older field takes claims and snapshots only; anything else is ignored, not refused."""
    source = spec.get("dataSource")
    if source is None or spec.get("dataSourceRef") is not None:
        return
    kind = (source.get("apiGroup") or "", source.get("kind"))
    if kind not in (("", "PersistentVolumeClaim"), ("snapshot.storage.k8s.io", "VolumeSnapshot")):
        spec.pop("dataSource")


def _normalize_data_sources(spec: Object) -> None:
    """Keep the two ways of naming a data source equal."""
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if source is not None and reference is None:
        spec["dataSourceRef"] = dict(source)
    elif reference is not None and source is None and not reference.get("namespace"):
        spec["dataSource"] = dict(reference)


def prepare_daemon_set_create(obj: Object) -> None:
    annotations = obj["metadata"].setdefault("annotations", {})
    annotations.setdefault("deprecated.daemonset.template.generation", "1")


def prepare_daemon_set_update(obj: Object, old: Object) -> None:
    """Count the changes of the template in an annotation, as old clients expect."""
    key = "deprecated.daemonset.template.generation"
    before = (old["metadata"].get("annotations") or {}).get(key, "1")
    changed = obj["spec"].get("template") != old["spec"].get("template")
    count = int(before) + changed if before.isdecimal() else 1
    obj["metadata"].setdefault("annotations", {})[key] = str(count)


def prepare_job_create(obj: Object) -> None:
    """Generate the selector of a job from its uid."""
    spec, meta = obj["spec"], obj["metadata"]
    if spec.get("manualSelector"):
        return
    template_meta = spec["template"].setdefault("metadata", {})
    labels = template_meta.setdefault("labels", {})
    for keys, value in ((CONTROLLER_LABELS, meta.get("uid")), (NAME_LABELS, meta.get("name"))):
        for key in keys:
            labels[key] = value or ""
    if spec.get("selector") is None:
        spec["selector"] = {}
    match = spec["selector"].setdefault("matchLabels", {})
    match.setdefault(CONTROLLER_LABELS[0], meta.get("uid") or "")


def label_job(obj: Object) -> None:
    """Give a job without labels those of its template.

    Upstream's defaults do it, once more when the stored job is read, so after validation.
    """
    labels = (obj["spec"]["template"].get("metadata") or {}).get("labels")
    if labels and not obj["metadata"].get("labels"):
        obj["metadata"]["labels"] = dict(labels)


def keep_labels(obj: Object, old: Object) -> None:
    """The status path of a Deployment does not write its labels."""
    labels = old["metadata"].get("labels")
    if labels:
        obj["metadata"]["labels"] = labels
    else:
        obj["metadata"].pop("labels", None)


def keep_metadata(obj: Object, old: Object) -> None:
    """Keep all metadata that a status write has no business with."""
    names = ("labels", "annotations", "finalizers", "ownerReferences")
    keep(obj["metadata"], old["metadata"], *names)


def bump_generation(obj: Object, old: Object) -> None:
    """Raise the generation with the spec, for kinds that start without one."""
    if obj.get("spec") != old.get("spec"):
        obj["metadata"]["generation"] = (old["metadata"].get("generation") or 0) + 1


def prepare_secret_update(obj: Object, old: Object) -> None:
    if not obj.get("type"):
        obj["type"] = old.get("type", "")


def prepare_service_account(obj: Object) -> None:
    """Only the name of a referenced secret is kept."""
    secrets = obj.get("secrets")
    if secrets:
        obj["secrets"] = [
            {"name": secret["name"]} if secret.get("name") else {} for secret in secrets
        ]


def drop_empty_rules(obj: Object) -> None:
    """A list without entries is stored like none."""
    if not obj.get("rules"):
        obj.pop("rules", None)


def prepare_node_create(obj: Object) -> None:
    obj.setdefault("spec", {}).pop("configSource", None)
    obj.setdefault("status", {}).pop("config", None)
