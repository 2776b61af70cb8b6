"""FlowSchemas as the server asks them: does this one hold for a request, and for which flow."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bayplan.api.user import User
from bayplan.apiserver.authorization import Action

Object = dict[str, Any]
ACCOUNT = "system:serviceaccount:"


class Schema:
    """One FlowSchema."""

    def __init__(self, obj: Object) -> None:
        spec = obj["spec"]
        self.name: str = obj["metadata"]["name"]
        self.uid: str = obj["metadata"].get("uid", "")
        self.level: str = (spec.get("priorityLevelConfiguration") or {}).get("name", "")
        self.precedence: int = spec.get("matchingPrecedence", 1000)
        self._method = (spec.get("distinguisherMethod") or {}).get("type", "")
        self._rules: list[Object] = spec.get("rules") or []

    def matches(self, user: User, action: Action) -> bool:
        return any(_names(rule, user) and _covers(rule, action) for rule in self._rules)

    def flow(self, user: User, action: Action) -> str:
        """Return what tells this request's flow from others of the schema."""
        if self._method == "ByUser":
            return user.name
        return action.namespace if self._method == "ByNamespace" else ""


def ordered(schemas: Iterable[Schema]) -> list[Schema]:
    """Return schemas in the order in which they are asked."""
    return sorted(schemas, key=lambda each: (each.precedence, each.name))


def _names(rule: Object, user: User) -> bool:
    return any(_is(subject, user) for subject in rule.get("subjects") or ())


def _is(subject: Object, user: User) -> bool:
    kind = subject.get("kind")
    if kind == "User":
        return (subject.get("user") or {}).get("name") in ("*", user.name)
    if kind == "Group":
        name = (subject.get("group") or {}).get("name")
        return name == "*" or name in user.groups
    account = subject.get("serviceAccount") or {}
    if not user.name.startswith(ACCOUNT):
        return False
    namespace, _, name = user.name.removeprefix(ACCOUNT).partition(":")
    return account.get("namespace") == namespace and account.get("name") in ("*", name)


def _covers(rule: Object, action: Action) -> bool:
    if action.path:
        return any(_url(each, action) for each in rule.get("nonResourceRules") or ())
    return any(_resource(each, action) for each in rule.get("resourceRules") or ())


def _url(rule: Object, action: Action) -> bool:
    if not _in(action.verb, rule.get("verbs")):
        return False
    for path in rule.get("nonResourceURLs") or ():
        if path in ("*", action.path):
            return True
        if path.endswith("/*") and action.path.startswith(path[:-1]):
            return True
    return False


def _resource(rule: Object, action: Action) -> bool:
    whole = f"{action.resource}/{action.subresource}" if action.subresource else action.resource
    if not (
        _in(action.verb, rule.get("verbs"))
        and _in(action.group, rule.get("apiGroups"))
        and _in(whole, rule.get("resources"))
    ):
        return False
    if not action.namespace:
        return bool(rule.get("clusterScope"))
    return _in(action.namespace, rule.get("namespaces"))


def _in(value: str, wanted: list[str] | None) -> bool:
    return wanted is not None and ("*" in wanted or value in wanted)
