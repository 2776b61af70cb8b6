"""Nobody grants by RBAC what they do not have.

Who writes a role needs all that it grants, or the verb `escalate` on it; who binds one needs all
that it grants, or the verb `bind` on it. Members of system:masters may do both. Rules are compared
beside the event loop, and so many at most: a role whose rules are too many to compare cannot be
granted by those who need one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

from bayplan.apiserver.aside import beside
from bayplan.apiserver.auth import MASTERS
from bayplan.apiserver.authorization import RBAC, Action, Authorizer
from bayplan.apiserver.codec import Object
from bayplan.apiserver.errors import ApiError, forbidden, not_found
from bayplan.apiserver.request import Request

ROLES, BINDINGS = ("roles", "clusterroles"), ("rolebindings", "clusterrolebindings")
MAX_COST = 1_000_000  # values that are looked up while rules are compared: half a second
NEEDS_ALL = "must have cluster-admin privileges to use the aggregationRule"
_EVERYTHING = (
    {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
    {"nonResourceURLs": ["*"], "verbs": ["*"]},
)
# What the garbage collector may change without a thought.
_COLLECTED = ("ownerReferences", "finalizers", "managedFields", "resourceVersion", "generation")


async def check(authorizer: Authorizer, request: Request, obj: Object, old: Object | None) -> None:
    """Raise a 403 if writing this role or binding would grant more than the writer has."""
    kind = request.kind
    if kind.group != RBAC or request.subresource or MASTERS in request.user.groups:
        return
    if old is not None and _content(obj) == _content(old):
        return
    if kind.resource in ROLES:
        await _check_role(authorizer, request, obj, old)
    elif kind.resource in BINDINGS:
        await _check_binding(authorizer, request, obj)


def _content(obj: Object) -> Object:
    metadata = {key: value for key, value in obj["metadata"].items() if key not in _COLLECTED}
    return {**obj, "metadata": metadata}


async def _check_role(
    authorizer: Authorizer, request: Request, obj: Object, old: Object | None
) -> None:
    kind = request.kind
    asked = Action("escalate", RBAC, kind.resource, "", request.namespace, request.name)
    if authorizer.allows(request.user, asked)[0]:
        return
    await _confirm(authorizer, request, obj, obj.get("rules") or [])
    if _aggregates(obj) or (old is not None and _aggregates(old)):
        owned = authorizer.rules(request.user, request.namespace)
        if await beside(_missing, owned, list(_EVERYTHING)):
            raise forbidden(RBAC, kind.resource, obj["metadata"].get("name", ""), NEEDS_ALL)


def _aggregates(role: Object) -> bool:
    return bool((role.get("aggregationRule") or {}).get("clusterRoleSelectors"))


_RESOURCES = {"Role": "roles", "ClusterRole": "clusterroles"}


async def _check_binding(authorizer: Authorizer, request: Request, obj: Object) -> None:
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
        raise not_found(RBAC, request.kind.resource, name)  # in upstream's words
    await _confirm(authorizer, request, obj, rules)


async def _confirm(
    authorizer: Authorizer, request: Request, obj: Object, rules: list[Object]
) -> None:
    user = request.user
    lacking = await beside(_lacking, authorizer.rules(user, request.namespace), rules)
    if lacking:
        groups = " ".join(map(json.dumps, user.groups))
        why = (
            f'user "{user.name}" (groups=[{groups}]) is attempting to grant RBAC permissions '
            f"not currently held:\n{lacking}"
        )
        raise _refused(request, obj, why)


def _lacking(owned: list[Object], wanted: list[Object]) -> str:
    """Return the permissions of `wanted` that `owned` does not hold, a line each."""
    return "\n".join(sorted(set(map(_shown, _compact(_missing(owned, wanted))))))


def _refused(request: Request, obj: Object, why: str) -> ApiError:
    return forbidden(RBAC, request.kind.resource, obj["metadata"].get("name", ""), why)


class _Sets(NamedTuple):
    """A rule as what is looked up in it."""

    verbs: frozenset[str]
    groups: frozenset[str]
    resources: frozenset[str]
    names: frozenset[str]
    paths: frozenset[str]


def _sets(rule: Object) -> _Sets:
    return _Sets(*(frozenset(rule.get(field) or ()) for field in _FIELDS))


_FIELDS = ("verbs", "apiGroups", "resources", "resourceNames", "nonResourceURLs")


class _TooMany(Exception):
    """There is more to compare than is compared."""


class _Owned:
    """The rules that somebody has."""

    def __init__(self, rules: list[Object]) -> None:
        self._rules = [_sets(rule) for rule in rules]
        self._left = MAX_COST

    def cover(self, rule: Object) -> bool:
        """Say whether one of them allows all that another rule does. Raises _TooMany."""
        wanted = _sets(rule)
        values = 1 + sum(map(len, wanted))
        self._spend(values)
        for own in self._rules:
            self._spend(values + len(wanted.paths) * len(own.paths))
            if _covers(own, wanted):
                return True
        return False

    def _spend(self, cost: int) -> None:
        self._left -= cost
        if self._left < 0:
            raise _TooMany


def _missing(owned: list[Object], wanted: list[Object]) -> list[Object]:
    """Return the single permissions of `wanted` that no rule of `owned` covers."""
    missing: list[Object] = []
    holder = _Owned(owned)
    for rule in wanted:
        try:
            if not holder.cover(rule):
                missing += [part for part in _single(rule) if not holder.cover(part)]
        except _TooMany:
            return [*missing, rule]
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


def _covers(own: _Sets, rule: _Sets) -> bool:
    """Say whether one rule allows all that another does."""
    return (
        ("*" in own.verbs or rule.verbs <= own.verbs)
        and ("*" in own.groups or rule.groups <= own.groups)
        and _resources_in(rule.resources, own.resources)
        and (not own.names or (bool(rule.names) and rule.names <= own.names))
        and all(any(_path_covers(each, path) for each in own.paths) for path in rule.paths)
    )


def _resources_in(resources: frozenset[str], own: frozenset[str]) -> bool:
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
            joined[key]["verbs"] += rule["verbs"]
        else:
            joined[key] = {**rule, "verbs": [*rule["verbs"]]}
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
