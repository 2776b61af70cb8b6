"""CustomResourceDefinitions themselves: defaults, validation, and accepting their names.

The real server has a controller that accepts names and establishes a definition a moment later;
here `establish` does it in the same breath as the write. A definition whose names are taken stays
unestablished, with the conditions that say so, and is not served.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import Any

from bayplan.api.meta import with_condition
from bayplan.api.names import dns1035_label, dns1123_subdomain
from bayplan.apiserver.crd.custom_kind import Object
from bayplan.apiserver.crd.structural import validate_schema
from bayplan.apiserver.validation.callers import validate_client_config
from bayplan.apiserver.validation.causes import (
    Cause,
    forbidden,
    immutable,
    invalid,
    not_supported,
    quote,
    repeated,
    required,
)
from bayplan.apiserver.validation.formats import check

SCOPES = ("Cluster", "Namespaced")
WEBHOOK = "Webhook"
STRATEGIES = ("None", WEBHOOK)
REVIEW_VERSIONS = ("v1", "v1beta1")
COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
SIMPLE_PATH = "must be a simple json path starting with ."
GROUP = "apiextensions.k8s.io"
RESOURCE = "customresourcedefinitions"


def default(obj: Object) -> None:
    """Fill in the names that follow from others, and the conversion."""
    spec = obj.setdefault("spec", {})
    names = spec.setdefault("names", {})
    kind = names.get("kind")
    if kind:
        names.setdefault("singular", kind.lower())
        names.setdefault("listKind", f"{kind}List")
    if not (spec.get("conversion") or {}).get("strategy"):
        spec["conversion"] = {**(spec.get("conversion") or {}), "strategy": "None"}
    hook = spec["conversion"].get("webhook") or {}
    service = (hook.get("clientConfig") or {}).get("service")
    if service is not None and not service.get("port"):
        service["port"] = 443


def prepare_for_create(obj: Object) -> None:
    """Start the status: the storage version is the first stored version."""
    obj["status"] = {
        "conditions": [],
        "acceptedNames": {"plural": "", "kind": ""},
        "storedVersions": [],
    }
    obj["metadata"]["generation"] = 1
    _remember_storage(obj)


def prepare_for_update(obj: Object, old: Object, subresource: str = "") -> None:
    """Keep spec and status apart; count generations; remember stored versions."""
    if subresource == "status":
        obj["spec"] = old["spec"]
        return
    obj["status"] = old.get("status") or {}
    if obj["spec"] != old["spec"]:
        obj["metadata"]["generation"] = old["metadata"].get("generation", 1) + 1
    _remember_storage(obj)


def _remember_storage(obj: Object) -> None:
    status = obj["status"]
    stored = list(status.get("storedVersions") or ())
    for version in (obj.get("spec") or {}).get("versions") or ():
        if version.get("storage"):
            stored += [version["name"]] if version.get("name") not in stored else []
            break
    obj["status"] = {**status, "storedVersions": stored}


# -- validation ----------------------------------------------------------------------------------


def validate_create(obj: Object) -> list[Cause]:
    """Every problem of a new definition, apart from its metadata's own."""
    return [*_validate_definition(obj), *_validate_approval(obj, None)]


def _validate_definition(obj: Object) -> list[Cause]:
    spec = obj.get("spec") or {}
    names = spec.get("names") or {}
    causes = _validate_spec(spec)
    wanted = f"{names.get('plural', '')}.{spec.get('group', '')}"
    if obj["metadata"].get("name") != wanted:
        name = obj["metadata"].get("name", "")
        text = 'must be spec.names.plural+"."+spec.group'
        causes.insert(0, invalid("metadata.name", name, text))
    return causes + _validate_stored(obj)


PROTECTED = ("k8s.io", "kubernetes.io")
APPROVAL = "api-approved.kubernetes.io"
_SEE = "see https://github.com/kubernetes/enhancements/pull/1111"
MISSING, BYPASSED, APPROVED, WRONG = "missing", "bypassed", "approved", "wrong"


def _approval(obj: Object) -> tuple[str, str]:
    """Return whether a group that belongs to Kubernetes is approved of, and why."""
    given = (obj["metadata"].get("annotations") or {}).get(APPROVAL, "")
    words = f'protected groups must have approval annotation "{APPROVAL}"'
    if not given:
        return MISSING, f"{words}, {_SEE}"
    if given.startswith("unapproved"):
        return BYPASSED, f"not approved: {quote(given)}"
    scheme, separator, rest = given.partition("://")
    if separator and scheme and rest.partition("/")[0]:
        return APPROVED, f"approved in {given}"
    return WRONG, f'{words} with either a URL or a reason starting with "unapproved", {_SEE}'


def _is_protected(group: str) -> bool:
    return group.endswith(tuple(f".{name}" for name in PROTECTED)) or group in PROTECTED


def _validate_approval(obj: Object, old: Object | None) -> list[Cause]:
    if not _is_protected((obj.get("spec") or {}).get("group", "")):
        return []
    state, why = _approval(obj)
    if old is not None and _approval(old)[0] == state:
        return []
    field = f"metadata.annotations[{APPROVAL}]"
    if state == MISSING:
        return [required(field, why)]
    if state == WRONG:
        return [invalid(field, obj["metadata"]["annotations"][APPROVAL], why)]
    return []


def validate_update(obj: Object, old: Object, subresource: str = "") -> list[Cause]:
    """Every problem of a changed definition; group, scope and the main names stay as they are."""
    causes = [*_validate_definition(obj), *_validate_approval(obj, old)]
    before, after = old["spec"], obj["spec"]
    causes += immutable("spec.group", after.get("group"), before.get("group"))
    conditions = (old.get("status") or {}).get("conditions") or ()
    if any(c["type"] == "Established" and c["status"] == "True" for c in conditions):
        causes += immutable("spec.scope", after.get("scope"), before.get("scope"))
        for name in ("kind", "plural"):
            new = (after.get("names") or {}).get(name)
            causes += immutable(f"spec.names.{name}", new, before["names"].get(name))
    return causes


def _validate_stored(obj: Object) -> list[Cause]:
    stored = (obj.get("status") or {}).get("storedVersions") or []
    if not stored:
        return [invalid("status.storedVersions", stored, "must have at least one stored version")]
    versions = obj["spec"].get("versions") or ()
    wanted = [v.get("name") for v in versions if v.get("storage")]
    if wanted and wanted[-1] not in stored:
        text = f"must have the storage version {wanted[-1]}"
        return [invalid("status.storedVersions", stored, text)]
    known = {v.get("name") for v in versions}
    return [
        invalid(f"status.storedVersions[{index}]", name, "must appear in spec.versions")
        for index, name in enumerate(stored)
        if name not in known
    ]


def _validate_spec(spec: Mapping[str, Any]) -> list[Cause]:
    causes: list[Cause] = []
    group = spec.get("group", "")
    if not group:
        causes.append(required("spec.group"))
    elif problems := check("spec.group", group, dns1123_subdomain):
        causes += problems
    elif "." not in group:
        causes.append(invalid("spec.group", group, "should be a domain with at least one dot"))
    scope = spec.get("scope", "")
    if scope not in SCOPES:
        causes.append(
            not_supported("spec.scope", scope, SCOPES) if scope else required("spec.scope")
        )
    causes += _validate_names(spec.get("names") or {})
    causes += _validate_conversion(spec.get("conversion") or {})
    return causes + _validate_versions(spec.get("versions") or [])


def _validate_names(names: Mapping[str, Any]) -> list[Cause]:
    causes = []
    for field in ("plural", "singular", "kind", "listKind"):
        path, name = f"spec.names.{field}", names.get(field, "")
        if not name:
            causes.append(required(path))
        else:
            causes += check(path, name.lower(), dns1035_label)
    if names.get("kind") and names.get("kind") == names.get("listKind"):
        text = "kind and listKind may not be the same"
        causes.append(invalid("spec.names.listKind", names["listKind"], text))
    for index, name in enumerate(names.get("shortNames") or ()):
        causes += check(f"spec.names.shortNames[{index}]", name, dns1035_label)
    return causes


def _validate_conversion(conversion: Mapping[str, Any]) -> list[Cause]:
    """Judge the conversion; the fields have the names of the internal form, as upstream's."""
    causes: list[Cause] = []
    field, strategy = "spec.conversion", conversion.get("strategy", "")
    if strategy not in STRATEGIES:
        causes.append(not_supported(f"{field}.strategy", strategy, STRATEGIES))
    hook = conversion.get("webhook") or {}
    config, versions = hook.get("clientConfig"), hook.get("conversionReviewVersions") or []
    if strategy == WEBHOOK:
        where = f"{field}.webhookClientConfig"
        if config is None:
            causes.append(required(where, "required when strategy is set to Webhook"))
        else:
            causes += validate_client_config(where, _as_upstream_reads(config))
        return causes + _validate_review_versions(f"{field}.conversionReviewVersions", versions)
    unwanted = "should not be set when strategy is not set to Webhook"
    if config is not None:
        causes.append(forbidden(f"{field}.webhookClientConfig", unwanted))
    if versions:
        causes.append(forbidden(f"{field}.conversionReviewVersions", unwanted))
    return causes


def _as_upstream_reads(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The real server confuses a Service's name and namespace here: it blames the other one."""
    service = config.get("service")
    if service is None:
        return config
    swapped = {"name": service.get("namespace"), "namespace": service.get("name")}
    return {**config, "service": {**service, **swapped}}


def _validate_review_versions(field: str, versions: list[str]) -> list[Cause]:
    if not versions:
        return [required(field)]
    causes: list[Cause] = []
    again = repeated(versions)
    for index, version in enumerate(versions):
        if index in again:
            causes.append(invalid(f"{field}[{index}]", version, "duplicate version"))
        else:
            causes += check(f"{field}[{index}]", version, dns1035_label)
    if not set(versions) & set(REVIEW_VERSIONS):
        text = f"must include at least one of {', '.join(REVIEW_VERSIONS)}"
        causes.append(invalid(field, versions, text))
    return causes


def _validate_versions(versions: list[Mapping[str, Any]]) -> list[Cause]:
    causes: list[Cause] = []
    common = _common(versions)
    for index, version in enumerate(versions):
        path = f"spec.versions[{index}]"
        name = version.get("name", "")
        causes += check(f"{path}.name", name, dns1035_label)
        causes += _validate_version(version, _places(common, path))
    shown = [dict(version) for version in versions]
    stored = sum(bool(version.get("storage")) for version in versions)
    names = [version.get("name", "") for version in versions]
    if versions:
        causes += check("spec.version", names[0], dns1035_label)
    if len(set(names)) < len(names):
        causes.append(invalid("spec.versions", shown, "must contain unique version names"))
    if not versions:
        causes.append(required("spec.versions", "must have at least one version"))
    elif stored != 1:
        text = "must have exactly one version marked as storage version"
        causes.append(invalid("spec.versions", shown, text))
    return causes


SHARED = {
    "schema": ("spec.validation.openAPIV3Schema", "schema.openAPIV3Schema"),
    "additionalPrinterColumns": ("spec.additionalPrinterColumns", "additionalPrinterColumns"),
    "subresources": ("spec.subresources", "subresources"),
}


def _common(versions: list[Mapping[str, Any]]) -> Set[str]:
    """Return what all versions have in common."""
    return {n for n in SHARED if all(v.get(n) == versions[0].get(n) for v in versions)}


def _places(common: Set[str], path: str) -> dict[str, str]:
    """Where problems of a version are reported.

    What all versions have in common stands at the top of the internal form of a definition, and
    that is the form which the real server validates.
    """
    where = {
        name: top if name in common else f"{path}.{own}" for name, (top, own) in SHARED.items()
    }
    return {**where, "own": path}


def _validate_version(version: Mapping[str, Any], places: Mapping[str, str]) -> list[Cause]:
    causes = []
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    if schema is None:
        where = f"{places['own']}.schema.openAPIV3Schema"
        causes.append(required(where, ""))
    else:
        causes += validate_schema(schema, places["schema"])
    for index, column in enumerate(version.get("additionalPrinterColumns") or ()):
        causes += _validate_column(column, f"{places['additionalPrinterColumns']}[{index}]")
    scale = (version.get("subresources") or {}).get("scale")
    if scale is not None:
        for name, prefix in (("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")):
            field = f"{places['subresources']}.scale.{name}"
            causes += _validate_scale_path(field, scale.get(name, ""), prefix)
    return causes


def _validate_scale_path(field: str, value: str, prefix: str) -> list[Cause]:
    if not value:
        return [required(field)]
    if not value.startswith("."):
        return [invalid(field, value, SIMPLE_PATH)]
    if not value.startswith(prefix):
        return [invalid(field, value, f"should be a json path under {prefix[:-1]}")]
    return []


def _validate_column(column: Mapping[str, Any], path: str) -> list[Cause]:
    causes = []
    if not column.get("name"):
        causes.append(required(f"{path}.name"))
    kind = column.get("type", "")
    if not kind:
        causes.append(required(f"{path}.type"))
    elif kind not in COLUMN_TYPES:
        causes.append(invalid(f"{path}.type", kind, f"must be one of {','.join(COLUMN_TYPES)}"))
    json_path = column.get("jsonPath", "")
    if not json_path:
        return [*causes, required(f"{path}.JSONPath")]
    from bayplan.apiserver.tables import compile_path

    try:
        compile_path(json_path)
    except ValueError as error:
        return [*causes, invalid(f"{path}.JSONPath", json_path, str(error))]
    if not json_path.startswith("."):
        causes.append(invalid(f"{path}.JSONPath", json_path, SIMPLE_PATH))
    return causes


# -- status --------------------------------------------------------------------------------------


Names = tuple[Set[str], Set[str]]  # of resources, of kinds
NO_NAMES: Names = (frozenset(), frozenset())


def establish(
    obj: Object, others: Iterable[Object], now: str, built_in: Names = NO_NAMES
) -> Object:
    """Return the definition with accepted names and conditions; `others` are all that exist."""
    resources, kinds = _names_in_use(obj, others)
    taken = (resources | built_in[0], kinds | built_in[1])
    names = obj["spec"]["names"]
    status = dict(obj.get("status") or {})
    accepted, problem = _accept(names, taken)
    status["acceptedNames"] = accepted
    if problem is None:
        named = _condition("NamesAccepted", "True", "NoConflicts", "no conflicts found", now)
        text = "the initial names have been accepted"
        established = _condition("Established", "True", "InitialNamesAccepted", text, now)
    else:
        named = _condition("NamesAccepted", "False", *problem, now)
        text = "not all names are accepted"
        established = _condition("Established", "False", "NotAccepted", text, now)
    found = [named, established]
    if _is_protected(obj["spec"].get("group", "")):
        found.append(_approval_condition(obj, now))
    for each in found:
        status["conditions"] = with_condition(status.get("conditions"), each, now)
    return {**obj, "status": status}


def _approval_condition(obj: Object, now: str) -> Object:
    state, why = _approval(obj)
    status, reason = {
        APPROVED: ("True", "ApprovedAnnotation"),
        BYPASSED: ("False", "UnapprovedAnnotation"),
        MISSING: ("False", "MissingAnnotation"),
    }.get(state, ("False", "InvalidAnnotation"))
    return _condition("KubernetesAPIApprovalPolicyConformant", status, reason, why, now)


def terminate(obj: Object, now: str) -> None:
    """Say in the status that the objects of a definition are to go."""
    text = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
    condition = _condition("Terminating", "True", "InstanceDeletionPending", text, now)
    status = obj.setdefault("status", {})
    status["conditions"] = with_condition(status.get("conditions"), condition, now)


def is_established(obj: Object) -> bool:
    """Whether the kinds of a definition are to be served."""
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)


def _names_in_use(obj: Object, others: Iterable[Object]) -> tuple[set[str], set[str]]:
    resources: set[str] = set()
    kinds: set[str] = set()
    for other in others:
        same_object = other["metadata"]["name"] == obj["metadata"]["name"]
        if same_object or other["spec"]["group"] != obj["spec"]["group"]:
            continue
        names = (other.get("status") or {}).get("acceptedNames") or {}
        resources |= {names.get("plural", ""), names.get("singular", "")}
        resources |= set(names.get("shortNames") or ())
        kinds |= {names.get("kind", ""), names.get("listKind", "")}
    return resources - {""}, kinds - {""}


def _accept(
    names: Object, taken: tuple[set[str], set[str]]
) -> tuple[Object, tuple[str, str] | None]:
    resources, kinds = taken
    accepted = dict(names)
    problem: tuple[str, str] | None = None
    for field, used, reason in (
        ("plural", resources, "PluralConflict"),
        ("singular", resources, "SingularConflict"),
        ("kind", kinds, "KindConflict"),
        ("listKind", kinds, "ListKindConflict"),
    ):
        if names.get(field) in used:
            problem = (reason, f'"{names[field]}" is already in use')
            accepted[field] = ""
    clash = [name for name in names.get("shortNames") or () if name in resources]
    if clash:
        problem = ("ShortNamesConflict", f'"{clash[0]}" is already in use')
        accepted.pop("shortNames", None)
    return accepted, problem


def _condition(kind: str, status: str, reason: str, message: str, now: str) -> Object:
    return {
        "type": kind,
        "status": status,
        "lastTransitionTime": now,
        "reason": reason,
        "message": message,
    }
