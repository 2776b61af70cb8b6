"""Resource lists: names, amounts, and requests against limits."""

from __future__ import annotations

from collections.abc import Callable, Collection

from bayplan.api import quantity
from bayplan.api.defaults.json_types import Object
from bayplan.api.names import dns1123_label, qualified_name
from bayplan.api.remembered import remembered
from bayplan.apiserver.validation.causes import (
    NOT_NEGATIVE,
    Cause,
    Causes,
    bounded,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from bayplan.apiserver.validation.formats import check

HUGEPAGES = "hugepages-"

_CONTAINER = frozenset(("cpu", "memory", "ephemeral-storage"))
_COUNTS = frozenset(
    (
        "pods",
        "resourcequotas",
        "services",
        "replicationcontrollers",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "services.nodeports",
        "services.loadbalancers",
    )
)
QUOTA_NAMES = (
    _CONTAINER
    | _COUNTS
    | frozenset(f"requests.{name}" for name in ("cpu", "memory", "storage", "ephemeral-storage"))
    | frozenset(f"limits.{name}" for name in ("cpu", "memory", "ephemeral-storage"))
)
_STANDARD = QUOTA_NAMES | {"storage"}
_POD_LEVEL = ("cpu", "hugepages-", "memory")


def is_native(name: str) -> bool:
    return "/" not in name or "kubernetes.io/" in name


@remembered(4096)
def is_extended(name: str) -> bool:
    """Say whether a name is an extended resource (`vendor.example/chip`)."""
    if is_native(name) or name.startswith("requests."):
        return False
    return not qualified_name(f"requests.{name}")


def is_integer(name: str) -> bool:
    """Say whether amounts of this resource must be whole numbers."""
    return name in _COUNTS or is_extended(name)


def is_hugepages(name: str) -> bool:
    return name.startswith(HUGEPAGES)


def is_overcommittable(name: str) -> bool:
    return is_native(name) and not is_hugepages(name)


def is_quota_hugepages(name: str) -> bool:
    return name.startswith((HUGEPAGES, f"requests.{HUGEPAGES}"))


def validate_resource_name(field: str, name: str) -> Causes:
    causes = check(field, name, qualified_name)
    if not causes and "/" not in name and name not in _STANDARD and not is_quota_hugepages(name):
        causes.append(invalid(field, name, "must be a standard resource type or fully qualified"))
    return causes


def validate_container_resource_name(field: str, name: str) -> Causes:
    if name in _CONTAINER:
        return []
    causes = validate_resource_name(field, name)
    if "/" not in name:
        if not is_hugepages(name):
            causes.append(invalid(field, name, "must be a standard resource for containers"))
    elif not is_native(name) and not is_extended(name):
        causes.append(invalid(field, name, "doesn't follow extended resource name standard"))
    return causes


def validate_quota_resource_name(field: str, name: str) -> Causes:
    causes = validate_resource_name(field, name)
    if "/" not in name and name not in QUOTA_NAMES and not is_quota_hugepages(name):
        causes.append(invalid(field, name, "must be a standard resource for quota"))
    return causes


def _validate_pod_resource_name(field: str, name: str) -> Causes:
    causes = validate_resource_name(field, name)
    if not causes and name not in ("cpu", "memory") and not is_hugepages(name):
        causes.append(not_supported(field, name, _POD_LEVEL))
    return causes


def validate_amount(field: str, name: str, value: str) -> Causes:
    """Demand an amount that is not negative, and whole where the resource is counted."""
    causes: Causes = []
    nanos = quantity.nanos(value)
    if nanos < 0:
        causes.append(invalid(field, value, NOT_NEGATIVE))
    if nanos % quantity.NANO and is_integer(name):
        causes.append(invalid(field, value, "must be an integer"))
    return causes


def _validate_hugepages(field: str, name: str, value: str) -> Causes:
    try:
        page = quantity.nanos(name.removeprefix(HUGEPAGES))
    except quantity.QuantityError:
        page = 0
    if page > 0 and not page % quantity.NANO and not quantity.nanos(value) % page:
        return []
    text = f"{value} is not positive integer multiple of {name}"
    return [invalid(field, value, text)]


def validate_requirements(
    field: str,
    requirements: Object,
    claim_names: Collection[str],
    *,
    pod_level: bool = False,
) -> Causes:
    """Validate `resources` of a container (or, with `pod_level`, of a pod)."""
    name_checker = _validate_pod_resource_name if pod_level else validate_container_resource_name
    limits = requirements.get("limits") or {}
    requests = requirements.get("requests") or {}
    causes: Causes = []
    for name, value in limits.items():
        causes += _validate_entry(f"{field}.limits[{name}]", name, value, name_checker)
    for name, value in requests.items():
        causes += _validate_entry(f"{field}.requests[{name}]", name, value, name_checker)
        causes += _compare_with_limit(field, name, value, limits.get(name))
    names = {*limits, *requests}
    if not names & {"cpu", "memory"} and any(map(is_hugepages, names)):
        causes.append(forbidden(field, "HugePages require cpu or memory"))
    if requirements.get("claims"):
        causes += _validate_claims(f"{field}.claims", requirements["claims"], claim_names)
    return causes


def _validate_entry(
    field: str, name: str, value: str, name_checker: Callable[[str, str], Causes]
) -> Causes:
    causes = name_checker(field, name) + validate_amount(field, name, value)
    if is_hugepages(name):
        causes += _validate_hugepages(field, name, value)
    return causes


def _compare_with_limit(field: str, name: str, value: str, limit: str | None) -> Causes:
    if limit is None:
        if is_overcommittable(name):
            return []
        text = "Limit must be set for non overcommitable resources"
        return [required(f"{field}.limits", text)]
    order = quantity.compare(value, limit)
    if order and not is_overcommittable(name):
        return [invalid(f"{field}.requests", value, f"must be equal to {name} limit of {limit}")]
    if order > 0:
        text = f"must be less than or equal to {name} limit of {limit}"
        return [invalid(f"{field}.requests", value, text)]
    return []


def _validate_claims(field: str, claims: list[Object], known: Collection[str]) -> Causes:
    causes: Causes = []
    seen: set[str] = set()
    parts: set[str] = set()  # claims of which some request is named
    for i, claim in enumerate(claims):
        path, name, request = f"{field}[{i}]", claim.get("name", ""), claim.get("request", "")
        if not name:
            causes.append(required(path))
            continue
        key = f"{name}/{request}" if request else name
        if name in seen or key in seen:
            causes.append(duplicate(path, key if key in seen else name))
        else:
            if request:
                causes += check(f"{path}.request", request, dns1123_label)
            elif name in parts:
                causes.append(duplicate(path, name))
            if request:
                parts.add(name)
            seen.add(key)
        if name not in known:
            text = f'Not found: "{name}": must be one of the names in pod.spec.resourceClaims'
            causes.append(Cause("FieldValueNotFound", path, text + bounded(lambda: _listed(known))))
    return causes


def _listed(names: Collection[str]) -> str:
    return f": {', '.join(sorted(names))}" if names else " which is empty"
