"""Nobody grants by RBAC what they do not have.

Who writes a role needs all that it grants, or the verb `escalate` on it; who binds one needs all
that it grants, or the verb `bind` on it. Members of system:masters may do both. The comparison
is bounded: a role whose rules are too many to compare cannot be granted by those who need one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import product

from bayplan.apiserver.auth import MASTERS
from bayplan.apiserver.authorization import RBAC, Action, Authorizer
from bayplan.apiserver.codec import Object
from bayplan.apiserver.errors import ApiError, forbidden, not_found
from bayplan.apiserver.request import Request

ROLES, BINDINGS = ("roles", "clusterroles"), ("rolebindings", "clusterrolebindings")
MAX_COMPARISONS = 100_000
NEEDS_ALL = "must have cluster-admin privileges to use the aggregationRule"
_EVERYTHING = (
    {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
    {"nonResourceURLs": ["*"], "verbs": ["*"]},
)
# What the garbage collector may change without a thought.
_COLLECTED = ("ownerReferences", "finalizers", "managedFields", "resourceVersion", "generation")


def check(authorizer: Authorizer, request: Request, obj: Object, old: Object | None) -> None:
    """Raise a 403 if writing this role or binding would grant more than the writer has."""
    kind = request.kind
    if kind.group != RBAC or request.subresource or MASTERS in request.user.groups:
        return
    if old is not None and _content(obj) == _content(old):
        return
    if kind.resource in ROLES:
        _check_role(authorizer, request, obj, old)
    elif kind.resource in BINDINGS:
        _check_binding(authorizer, request, obj)


def _content(obj: Object) -> Object:
    metadata = {key: value for key, value in obj["metadata"].items() if key not in _COLLECTED}
    return {**obj, "metadata": metadata}


def _check_role(authorizer: Authorizer, request: Request, obj: Object, old: Object | None) -> None:
    kind = request.kind
    asked = Action("escalate", RBAC, kind.resource, "", request.namespace, request.name)
    if authorizer.allows(request.user, asked)[0]:
        return
    _confirm(authorizer, request, obj, obj.get("rules") or [])
    if _aggregates(obj) or (old is not None and _aggregates(old)):
        owned = authorizer.rules(request.user, request.namespace)
        if _missing(owned, list(_EVERYTHING)):
            raise forbidden(RBAC, kind.resource, obj["metadata"].get("name", ""), NEEDS_ALL)


def _aggregates(role: Object) -> bool:
    return bool((role.get("aggregationRule") or {}).get("clusterRoleSelectors"))


_RESOURCES = {"Role": "roles", "ClusterRole": "clusterroles"}


def _check_binding(authorizer: Authorizer, request: Request, obj: Object) -> None:
    reference = obj.get("roleRef") or {}
    resource, name = _RESOURCES.get(reference.get("kind", ""), ""), reference.get("name", "")
    if not resource:
        return  # validation refuses it
    group = reference.get("apiGroup", RBAC)
    asked = Action("bind", group, resource, "", request.namespace, name)
    if authorizer.allows(request.user, asked)[0]:
        return
    rules = authorizer.rules_of(reference, request.namespace)
    if rules is None:
        raise not_found(RBAC, resource, name)
    _confirm(authorizer, request, obj, rules)


def _confirm(authorizer: Authorizer, request: Request, obj: Object, rules: list[Object]) -> None:
    user = request.user
    missing = _missing(authorizer.rules(user, request.namespace), rules)
    if missing:
        groups = " ".join(map(json.dumps, user.groups))
        why = (
            f'user "{user.name}" (groups=[{groups}]) is attempting to grant RBAC permissions '
            "not currently held:\n" + "\n".join(sorted(set(map(_shown, _compact(missing)))))
        )
        raise _refused(request, obj, why)


def _refused(request: Request, obj: Object, why: str) -> ApiError:
    return forbidden(RBAC, request.kind.resource, obj["metadata"].get("name", ""), why)


def _missing(owned: list[Object], wanted: list[Object]) -> list[Object]:
    """Return the single permissions of `wanted` that no rule of `owned` covers."""
    missing: list[Object] = []
    left = MAX_COMPARISONS
    for rule in wanted:
        if any(rule_covers(other, rule) for other in owned):
            continue
        for part in _single(rule):
            left -= len(owned) + 1
            if left < 0:
                return [*missing, rule]
            if not any(rule_covers(other, part) for other in owned):
                missing.append(part)
    return missing


def _single(rule: Object) -> Iterator[Object]:
    """Break a rule down into rules of one verb, one group, one resource and one name."""
    names = rule.get("resourceNames") or [None]
    keys = (rule.get("apiGroups") or (), rule.get("resources") or (), rule.get("verbs") or ())
    for group, resource, verb, name in product(*keys, names):
        part: Object = {"apiGroups": [group], "resources": [resource], "verbs": [verb]}
        yield part if name is None else {**part, "resourceNames": [name]}
    for path, verb in product(rule.get("nonResourceURLs") or (), rule.get("verbs") or ()):
        yield {"nonResourceURLs": [path], "verbs": [verb]}


def rule_covers(owner: Object, rule: Object) -> bool:
    """Say whether one rule allows all that another does."""
    names, own_names = set(rule.get("resourceNames") or ()), set(owner.get("resourceNames") or ())
    return (
        _all_in(rule, owner, "verbs")
        and _all_in(rule, owner, "apiGroups")
        and _resources_in(rule.get("resources") or (), set(owner.get("resources") or ()))
        and (not own_names or (bool(names) and names <= own_names))
        and all(
            any(_path_covers(own, path) for own in owner.get("nonResourceURLs") or ())
            for path in rule.get("nonResourceURLs") or ()
        )
    )


def _all_in(rule: Object, owner: Object, field: str) -> bool:
    own = owner.get(field) or ()
    return "*" in own or set(rule.get(field) or ()) <= set(own)


def _resources_in(resources: Iterable[str], own: set[str]) -> bool:
    if "*" in own:
        return True
    return all(
        resource in own or ("/" in resource and f"*/{resource.partition('/')[2]}" in own)
        for resource in resources
    )


def _path_covers(own: str, path: str) -> bool:
    return own == path or (own.endswith("*") and path.startswith(own.rstrip("*")))


def _compact(rules: list[Object]) -> list[Object]:
    """Join single permissions that differ only by verb."""
    joined: dict[tuple[str, ...], Object] = {}
    for rule in rules:
        key = tuple(f"{field} {values}" for field, values in rule.items() if field != "verbs")
        if key in joined:
            joined[key]["verbs"] = [*joined[key]["verbs"], *rule["verbs"]]
        else:
            joined[key] = dict(rule)
    return list(joined.values())


_WORDS = {
    "apiGroups": "APIGroups",
    "resources": "Resources",
    "nonResourceURLs": "NonResourceURLs",
    "resourceNames": "ResourceNames",
    "verbs": "Verbs",
}


def _shown(rule: Object) -> str:
    """Write a rule as Go does: `{APIGroups:["apps"], Resources:["*"], Verbs:["get"]}`."""
    parts = []
    for field, word in _WORDS.items():
        values = rule.get(field) or []
        if values:
            parts.append(f"{word}:[{' '.join(map(json.dumps, values))}]")
    return "{" + ", ".join(parts) + "}"
