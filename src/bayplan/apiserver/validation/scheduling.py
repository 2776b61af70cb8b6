"""What steers placement: node and pod affinity, spread constraints, tolerations, gates."""

from __future__ import annotations

from bayplan.api.defaults.json_types import Object
from bayplan.api.names import dns1123_label, dns1123_subdomain, label_value, qualified_name
from bayplan.apiserver.validation.causes import (
    Causes,
    allowed,
    duplicate,
    forbidden,
    invalid,
    known,
    not_supported,
    once,
    positive,
    repeated,
    required,
)
from bayplan.apiserver.validation.formats import check
from bayplan.apiserver.validation.labels import (
    validate_label_name,
    validate_label_selector,
    validate_values,
)

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_BAD_OPERATOR = "not a valid selector operator"


def validate_affinity(field: str, affinity: Object) -> Causes:
    causes: Causes = []
    node = affinity.get("nodeAffinity")
    if node:
        causes += _validate_node_affinity(f"{field}.nodeAffinity", node)
    for kind in ("podAffinity", "podAntiAffinity"):
        terms = affinity.get(kind)
        if terms:
            causes += _validate_pod_affinity(f"{field}.{kind}", terms)
    return causes


def _validate_node_affinity(field: str, affinity: Object) -> Causes:
    causes: Causes = []
    if affinity.get(_REQUIRED) is not None:
        causes += validate_node_selector(f"{field}.{_REQUIRED}", affinity[_REQUIRED])
    for i, term in enumerate(affinity.get(_PREFERRED) or ()):
        path = f"{field}.{_PREFERRED}[{i}]"
        causes += _validate_weight(path, term)
        # Values that no node can have are allowed here: they only cost points.
        preference = term.get("preference") or {}
        causes += _validate_node_term(f"{path}.preference", preference, check_values=False)
    return causes


def _validate_weight(field: str, term: Object) -> Causes:
    weight = term.get("weight", 0)
    if 0 < weight <= 100:
        return []
    return [invalid(f"{field}.weight", weight, "must be in the range 1-100")]


def validate_node_selector(field: str, selector: Object) -> Causes:
    """Validate a list of node selector terms (also of PersistentVolumes and device classes)."""
    path = f"{field}.nodeSelectorTerms"
    terms = selector.get("nodeSelectorTerms")
    if not terms:
        return [required(path, "must have at least one node selector term")]
    causes: Causes = []
    for i, term in enumerate(terms):
        causes += _validate_node_term(f"{path}[{i}]", term, check_values=True)
    return causes


def _validate_node_term(field: str, term: Object, *, check_values: bool) -> Causes:
    causes: Causes = []
    for i, requirement in enumerate(term.get("matchExpressions") or ()):
        path = f"{field}.matchExpressions[{i}]"
        causes += _validate_node_requirement(path, requirement, check_values)
    for i, requirement in enumerate(term.get("matchFields") or ()):
        causes += _validate_node_field(f"{field}.matchFields[{i}]", requirement)
    return causes


def _validate_node_requirement(field: str, requirement: Object, check_values: bool) -> Causes:
    operator, values = requirement.get("operator", ""), requirement.get("values") or []
    causes = validate_values(field, operator, values)
    if causes is None and operator in ("Gt", "Lt"):
        text = "must be specified single value when `operator` is 'Lt' or 'Gt'"
        causes = [] if len(values) == 1 else [required(f"{field}.values", text)]
    elif causes is None:
        causes = [invalid(f"{field}.operator", operator, _BAD_OPERATOR)]
    causes += validate_label_name(f"{field}.key", requirement.get("key", ""))
    if check_values:
        for i, value in enumerate(values):
            causes += check(f"{field}.values[{i}]", value, label_value)
    return causes


def _validate_node_field(field: str, requirement: Object) -> Causes:
    causes: Causes = []
    operator, values = requirement.get("operator", ""), requirement.get("values") or []
    if operator not in ("In", "NotIn"):
        causes.append(invalid(f"{field}.operator", operator, _BAD_OPERATOR))
    elif len(values) != 1:
        text = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        causes.append(required(f"{field}.values", text))
    key = requirement.get("key", "")
    if key != "metadata.name":
        return [*causes, invalid(f"{field}.key", key, "not a valid field selector key")]
    for i, value in enumerate(values):
        causes += check(f"{field}.values[{i}]", value, dns1123_subdomain)
    return causes


def _validate_pod_affinity(field: str, affinity: Object) -> Causes:
    causes: Causes = []
    for i, term in enumerate(affinity.get(_REQUIRED) or ()):
        causes += _validate_pod_term(f"{field}.{_REQUIRED}[{i}]", term)
    for i, weighted in enumerate(affinity.get(_PREFERRED) or ()):
        path = f"{field}.{_PREFERRED}[{i}]"
        causes += _validate_weight(path, weighted)
        term = weighted.get("podAffinityTerm") or {}
        causes += _validate_pod_term(f"{path}.podAffinityTerm", term)
    return causes


def _validate_pod_term(field: str, term: Object) -> Causes:
    selector = term.get("labelSelector")
    causes = validate_label_selector(f"{field}.labelSelector", selector)
    causes += validate_label_selector(f"{field}.namespaceSelector", term.get("namespaceSelector"))
    for name in term.get("namespaces") or ():
        causes += check(f"{field}.namespace", name, dns1123_label)
    causes += _validate_label_keys(
        field, term.get("matchLabelKeys"), term.get("mismatchLabelKeys"), selector
    )
    key = term.get("topologyKey", "")
    if not key:
        causes.append(required(f"{field}.topologyKey", "can not be empty"))
    return causes + validate_label_name(f"{field}.topologyKey", key)


def _validate_label_keys(
    field: str, match: list[str] | None, mismatch: list[str] | None, selector: Object | None
) -> Causes:
    """Check matchLabelKeys, which were merged into the selector before validation."""
    causes: Causes = []
    for name, keys in (("matchLabelKeys", match), ("mismatchLabelKeys", mismatch)):
        if keys and selector is None:
            text = "must not be specified when labelSelector is not set"
            causes.append(forbidden(f"{field}.{name}", text))
        elif keys:
            for i, key in enumerate(keys):
                causes += validate_label_name(f"{field}.{name}[{i}]", key)
    if not match:
        return causes
    first = {key: i for i, key in reversed(list(enumerate(match)))}
    if selector is not None:
        seen = set(selector.get("matchLabels") or ())
        for expression in selector.get("matchExpressions") or ():
            key = expression.get("key", "")
            if key in first and key in seen:
                text = "exists in both matchLabelKeys and labelSelector"
                causes.append(invalid(f"{field}[{first[key]}]", key, text))
            seen.add(key)
    others = set(mismatch or ())
    for i, key in enumerate(match):
        if key in others:
            text = "exists in both matchLabelKeys and mismatchLabelKeys"
            causes.append(invalid(f"{field}.matchLabelKeys[{i}]", key, text))
    return causes


def validate_spread(field: str, constraints: list[Object]) -> Causes:
    causes: Causes = []
    actions = ("DoNotSchedule", "ScheduleAnyway")
    kinds = [(c.get("topologyKey", ""), c.get("whenUnsatisfiable", "")) for c in constraints]
    later = {len(kinds) - 1 - i for i in repeated(reversed(kinds))}
    for i, constraint in enumerate(constraints):
        path = f"{field}[{i}]"
        key, action = kinds[i]
        causes += positive(f"{path}.maxSkew", constraint.get("maxSkew", 0))
        if not key:
            causes.append(required(f"{path}.topologyKey", "can not be empty"))
        causes += known(f"{path}.whenUnsatisfiable", action, actions)
        if i in later:
            pair = f"{path}.{{topologyKey, whenUnsatisfiable}}"
            causes.append(duplicate(pair, f"{{{key}, {action}}}"))
        causes += _validate_min_domains(f"{path}.minDomains", constraint.get("minDomains"), action)
        for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            value = constraint.get(policy)
            causes += allowed(f"{path}.{policy}", value, ("Honor", "Ignore"))
        selector = constraint.get("labelSelector")
        causes += _validate_label_keys(path, constraint.get("matchLabelKeys"), None, selector)
        causes += validate_label_selector(f"{path}.labelSelector", selector)
    return causes


def _validate_min_domains(field: str, domains: int | None, action: str) -> Causes:
    if domains is None:
        return []
    causes = positive(field, domains)
    if action != "DoNotSchedule":
        text = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
        causes.append(invalid(field, domains, text))
    return causes


def validate_tolerations(field: str, tolerations: list[Object]) -> Causes:
    causes: Causes = []
    for i, toleration in enumerate(tolerations):
        causes += _validate_toleration(f"{field}[{i}]", toleration)
    return causes


def _validate_toleration(field: str, toleration: Object) -> Causes:
    causes: Causes = []
    key, operator = toleration.get("key", ""), toleration.get("operator", "")
    value, effect = toleration.get("value", ""), toleration.get("effect", "")
    if key:
        causes += validate_label_name(f"{field}.key", key)
    elif operator != "Exists":
        text = "operator must be Exists when `key` is empty, "
        text += 'which means "match all values and all keys"'
        causes.append(invalid(f"{field}.operator", operator, text))
    if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
        text = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        causes.append(invalid(f"{field}.effect", effect, text))
    if operator in ("Equal", ""):
        problems = label_value(value)
        if problems:
            causes.append(invalid(f"{field}.operator", value, ";".join(problems)))
    elif operator == "Exists":
        if value:
            text = "value must be empty when `operator` is 'Exists'"
            causes.append(invalid(f"{field}.operator", value, text))
    else:
        known = ("Equal", "Exists", "Lt", "Gt") if operator in ("Lt", "Gt") else ("Equal", "Exists")
        causes.append(not_supported(f"{field}.operator", operator, known))
    causes += allowed(f"{field}.effect", effect or None, EFFECTS)
    return causes


def validate_gates(field: str, gates: list[Object]) -> Causes:
    causes: Causes = []
    seen: set[str] = set()
    for i, gate in enumerate(gates):
        name = gate.get("name", "")
        causes += check(f"{field}[{i}]", name, qualified_name)
        causes += once(f"{field}[{i}]", name, seen)
    return causes
