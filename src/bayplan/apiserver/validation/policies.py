"""LimitRange, ResourceQuota, PodDisruptionBudget, PriorityClass and RBAC."""

from __future__ import annotations

from bayplan.api import quantity
from bayplan.api.defaults.json_types import Object
from bayplan.api.names import dns1123_subdomain, qualified_name
from bayplan.apiserver.validation.causes import (
    Causes,
    allowed,
    forbidden,
    immutable,
    invalid,
    known,
    not_supported,
    once,
    one_of,
    required,
)
from bayplan.apiserver.validation.formats import check, named, path_segment
from bayplan.apiserver.validation.labels import validate_label_selector
from bayplan.apiserver.validation.resources import (
    QUOTA_NAMES,
    is_overcommittable,
    is_quota_hugepages,
    validate_amount,
    validate_container_resource_name,
    validate_quota_resource_name,
    validate_resource_name,
)
from bayplan.apiserver.validation.templates import (
    at_most_100_percent,
    int_or_percent,
    validate_counts,
)

SYSTEM_CLASSES = {"system-node-critical": 2000001000, "system-cluster-critical": 2000000000}
_HIGHEST_USER_PRIORITY = 1000000000
_RBAC = "rbac.authorization.k8s.io"
_LIMIT_TYPES = ("Container", "PersistentVolumeClaim", "Pod")
_POD_SCOPES = (
    "Terminating",
    "NotTerminating",
    "NotBestEffort",
    "PriorityClass",
    "CrossNamespacePodAffinity",
)
_SCOPES = (*_POD_SCOPES, "BestEffort", "VolumeAttributesClass")
_COMPUTE = ("cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory")


def validate_limit_range(obj: Object) -> Causes:
    causes: Causes = []
    seen: set[str] = set()
    for i, item in enumerate((obj.get("spec") or {}).get("limits") or ()):
        path, kind = f"spec.limits[{i}]", item.get("type", "")
        found = check(f"{path}.type", kind, qualified_name)
        if not found and "/" not in kind and kind not in _LIMIT_TYPES:
            text = "must be a standard limit type or fully qualified"
            found.append(invalid(f"{path}.type", kind, text))
        causes += found
        causes += once(f"{path}.type", kind, seen)
        causes += _validate_limit_item(path, kind, item)
    return causes


def _validate_limit_item(path: str, kind: str, item: Object) -> Causes:
    causes: Causes = []
    in_pod = kind in ("Pod", "Container")
    check_name = validate_container_resource_name if in_pod else validate_resource_name
    parts = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
    for part in parts:
        entries = item.get(part) or {}
        if kind == "Pod" and part.startswith("default"):
            if entries:
                text = "may not be specified when `type` is 'Pod'"
                causes.append(forbidden(f"{path}.{part}", text))
            continue
        for name in entries:
            causes += check_name(f"{path}.{part}[{name}]", name)
    bounds = {**(item.get("min") or {}), **(item.get("max") or {})}
    if kind == "PersistentVolumeClaim" and "storage" not in bounds:
        text = "either minimum or maximum storage value is required, but neither was provided"
        causes.append(required(f"{path}.limits", text))
    names = {name for part in parts for name in item.get(part) or ()}
    for name in sorted(names):
        causes += _validate_limit_order(path, name, item)
    return causes


def _validate_limit_order(path: str, name: str, item: Object) -> Causes:
    """Demand min ≤ default request ≤ default ≤ max, as far as they are given."""
    causes: Causes = []

    def value(part: str) -> str | None:
        if item.get("type") == "Pod" and part.startswith("default"):
            return None
        found: str | None = (item.get(part) or {}).get(name)
        return found

    low, high = value("min"), value("max")
    default, request = value("default"), value("defaultRequest")
    words = {"min": "min", "max": "max", "default": "default", "defaultRequest": "default request"}
    for smaller, a, larger, b, blamed in (
        ("min", low, "max", high, "min"),
        ("min", low, "defaultRequest", request, "defaultRequest"),
        ("defaultRequest", request, "max", high, "defaultRequest"),
        ("defaultRequest", request, "default", default, "defaultRequest"),
        ("min", low, "default", default, "default"),
        ("default", default, "max", high, "default"),
    ):
        if a is not None and b is not None and quantity.compare(a, b) > 0:
            other = "default limit" if smaller == "defaultRequest" else words[larger]
            other = words[larger] if larger != "default" else other
            text = f"{words[smaller]} value {a} is greater than {other} value {b}"
            shown = b if smaller == "default" else a  # as upstream, which shows the maximum here
            causes.append(invalid(f"{path}.{blamed}[{name}]", shown, text))
    ratio = value("maxLimitRequestRatio")
    if ratio is not None and quantity.compare(ratio, "1") < 0:
        where = f"{path}.maxLimitRequestRatio[{name}]"
        causes.append(invalid(where, ratio, f"ratio {ratio} is less than 1"))
    if ratio is not None and low is not None and high is not None:
        bound = quantity.nanos(high) / max(quantity.nanos(low), 1)
        if quantity.nanos(ratio) / quantity.NANO > bound:
            where = f"{path}.maxLimitRequestRatio[{name}]"
            text = f"ratio {ratio} is greater than max/min = {bound:f}"
            causes.append(invalid(where, ratio, text))
    if default and request and not is_overcommittable(name) and quantity.compare(default, request):
        text = f"default value {default} must equal to defaultRequest value {request} in {name}"
        causes.append(invalid(f"{path}.defaultRequest[{name}]", request, text))
    return causes


def validate_quota(obj: Object) -> Causes:
    spec = obj.get("spec") or {}
    causes = _validate_quota_amounts("spec.hard", spec.get("hard") or {})
    causes += _validate_scopes(spec)
    selector = spec.get("scopeSelector")
    if selector is not None:
        causes += _validate_scope_selector(selector, spec)
    return causes


def _validate_quota_amounts(field: str, amounts: dict[str, str]) -> Causes:
    causes: Causes = []
    for name, value in amounts.items():
        path = f"{field}[{name}]"
        causes += validate_quota_resource_name(path, name) + validate_amount(path, name, value)
    return causes


def _scope_fits(scope: str, name: str) -> bool:
    if name not in QUOTA_NAMES and not is_quota_hugepages(name):
        return True
    if scope in _POD_SCOPES:
        return name == "pods" or name in _COMPUTE
    if scope == "BestEffort":
        return name == "pods"
    if scope == "VolumeAttributesClass":
        return name in ("persistentvolumeclaims", "requests.storage")
    return True


def _validate_scopes(spec: Object) -> Causes:
    causes: Causes = []
    scopes = spec.get("scopes") or []
    for scope in scopes:
        if scope not in _SCOPES:
            causes.append(invalid("spec.scopes", scopes, "unsupported scope"))
        for name in spec.get("hard") or ():
            if not _scope_fits(scope, name):
                text = "unsupported scope applied to resource"
                causes.append(invalid("spec.scopes", scopes, text))
    for pair in (("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating")):
        if set(pair) <= set(scopes):
            causes.append(invalid("spec.scopes", scopes, "conflicting scopes"))
    return causes


def _validate_scope_selector(selector: Object, spec: Object) -> Causes:
    field = "spec.scopeSelector.matchExpressions"
    causes: Causes = []
    for requirement in selector.get("matchExpressions") or ():
        scope, operator = requirement.get("scopeName", ""), requirement.get("operator", "")
        values = requirement.get("values") or []
        if scope not in _SCOPES:
            causes.append(invalid(f"{field}.scopeName", scope, "unsupported scope"))
        for name in spec.get("hard") or ():
            if not _scope_fits(scope, name):
                text = "unsupported scope applied to resource"
                causes.append(invalid(field, selector, text))
        if operator in ("In", "NotIn"):
            if not values:
                text = "must be at least one value when `operator` is 'In' or 'NotIn' "
                causes.append(required(f"{field}.values", f"{text}for scope selector"))
        elif operator in ("Exists", "DoesNotExist"):
            if values:
                text = "must be no value when `operator` is 'Exist' or 'DoesNotExist' "
                causes.append(invalid(f"{field}.values", values, f"{text}for scope selector"))
        else:
            text = "not a valid selector operator"
            causes.append(invalid(f"{field}.operator", operator, text))
    return causes


def validate_quota_update(obj: Object, old: Object) -> Causes:
    new = set((obj.get("spec") or {}).get("scopes") or ())
    if new == set((old.get("spec") or {}).get("scopes") or ()):
        return []
    return [invalid("spec.scopes", sorted(new), "field is immutable")]


def validate_quota_status(obj: Object, old: Object) -> Causes:
    status = obj.get("status") or {}
    causes = _validate_quota_amounts("status.hard", status.get("hard") or {})
    return causes + _validate_quota_amounts("status.used", status.get("used") or {})


def validate_disruption_budget(obj: Object) -> Causes:
    spec = obj.get("spec") or {}
    low, high = spec.get("minAvailable"), spec.get("maxUnavailable")
    causes: Causes = []
    if low is not None and high is not None:
        text = "minAvailable and maxUnavailable cannot be both set"
        causes.append(invalid("spec", spec, text))
    for name, value in (("minAvailable", low), ("maxUnavailable", high)):
        if value is not None:
            causes += int_or_percent(f"spec.{name}", value)
            causes += at_most_100_percent(f"spec.{name}", value)
    causes += validate_label_selector("spec.selector", spec.get("selector"))
    policy = spec.get("unhealthyPodEvictionPolicy")
    policies = ("AlwaysAllow", "IfHealthyBudget")
    causes += allowed("spec.unhealthyPodEvictionPolicy", policy, policies)
    return causes


def validate_disruption_budget_status(obj: Object, old: Object) -> Causes:
    names = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
    return validate_counts("status", obj.get("status") or {}, names)


def validate_priority_class(obj: Object) -> Causes:
    causes: Causes = []
    name, value = obj["metadata"].get("name", ""), obj.get("value", 0)
    if name.startswith("system-"):
        if SYSTEM_CLASSES.get(name) != value or obj.get("globalDefault"):
            text = "priority class names with 'system-' prefix are reserved for system use only."
            why = f"{name} is not a known system priority class"
            causes.append(forbidden("metadata.name", f"{text} error: {why}"))
    elif value > _HIGHEST_USER_PRIORITY:
        text = f"maximum allowed value of a user defined priority is {_HIGHEST_USER_PRIORITY}"
        causes.append(forbidden("value", text))
    policies = ("PreemptLowerPriority", "Never")
    return causes + one_of("preemptionPolicy", obj.get("preemptionPolicy"), policies)


def validate_priority_class_update(obj: Object, old: Object) -> Causes:
    causes: Causes = []
    if obj.get("value", 0) != old.get("value", 0):
        causes.append(forbidden("value", "may not be changed in an update."))
    name = "preemptionPolicy"
    return causes + immutable(name, obj.get(name), old.get(name))


def validate_role(obj: Object) -> Causes:
    return _validate_rules(obj.get("rules") or [], namespaced=True)


def validate_cluster_role(obj: Object) -> Causes:
    causes = _validate_rules(obj.get("rules") or [], namespaced=False)
    aggregation = obj.get("aggregationRule")
    if aggregation is not None:
        field = "aggregationRule.clusterRoleSelectors"
        selectors = aggregation.get("clusterRoleSelectors") or []
        if not selectors:
            text = "at least one clusterRoleSelector required if aggregationRule is non-nil"
            causes.append(required(field, text))
        for i, selector in enumerate(selectors):
            found = validate_label_selector(f"{field}[{i}]", selector)
            if found:
                found.append(invalid(f"{field}[{i}]", None, "invalid label selector."))
            causes += found
    return causes


def _validate_rules(rules: list[Object], *, namespaced: bool) -> Causes:
    causes: Causes = []
    for i, rule in enumerate(rules):
        path, urls = f"rules[{i}]", rule.get("nonResourceURLs")
        if not rule.get("verbs"):
            causes.append(required(f"{path}.verbs", "verbs must contain at least one value"))
        if urls:
            if namespaced:
                text = "namespaced rules cannot apply to non-resource URLs"
                causes.append(invalid(f"{path}.nonResourceURLs", urls, text))
            if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
                text = "rules cannot apply to both regular resources and non-resource URLs"
                causes.append(invalid(f"{path}.nonResourceURLs", urls, text))
            continue
        if not rule.get("apiGroups"):
            text = "resource rules must supply at least one api group"
            causes.append(required(f"{path}.apiGroups", text))
        if not rule.get("resources"):
            text = "resource rules must supply at least one resource"
            causes.append(required(f"{path}.resources", text))
    return causes


def validate_role_binding(obj: Object) -> Causes:
    return _validate_binding(obj, ("Role", "ClusterRole"), namespaced=True)


def validate_cluster_role_binding(obj: Object) -> Causes:
    return _validate_binding(obj, ("ClusterRole",), namespaced=False)


def _validate_binding(obj: Object, kinds: tuple[str, ...], *, namespaced: bool) -> Causes:
    role = obj.get("roleRef") or {}
    causes = known("roleRef.apiGroup", role.get("apiGroup", ""), (_RBAC,))
    causes += known("roleRef.kind", role.get("kind", ""), kinds)
    causes += named("roleRef.name", role.get("name"), path_segment)
    for i, subject in enumerate(obj.get("subjects") or ()):
        causes += _validate_subject(f"subjects[{i}]", subject, namespaced)
    return causes


def _validate_subject(path: str, subject: Object, namespaced: bool) -> Causes:
    causes: Causes = []
    name, kind, group = subject.get("name"), subject.get("kind", ""), subject.get("apiGroup", "")
    if not name:
        causes.append(required(f"{path}.name"))
    if kind == "ServiceAccount":
        if name:
            causes += check(f"{path}.name", name, dns1123_subdomain)
        causes += known(f"{path}.apiGroup", group or "", ("",))
        if not namespaced and not subject.get("namespace"):
            causes.append(required(f"{path}.namespace"))
    elif kind in ("User", "Group"):
        causes += known(f"{path}.apiGroup", group, (_RBAC,))
    else:
        causes.append(not_supported(f"{path}.kind", kind, ("ServiceAccount", "User", "Group")))
    return causes


def role_is_immutable(obj: Object, old: Object) -> Causes:
    if obj.get("roleRef") == old.get("roleRef"):
        return []
    return [invalid("roleRef", obj.get("roleRef"), "cannot change roleRef")]
