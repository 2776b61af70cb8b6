"""Acting as somebody else: the `Impersonate-*` headers.

Every part of the other identity (user or service account, groups, uid, extra values) needs the
verb `impersonate` on it. From then on the request is the other user's and nobody else's.
"""

from __future__ import annotations

from urllib.parse import unquote

from bayplan.api.user import ANONYMOUS, User
from bayplan.apiserver.auth import AUTHENTICATED, UNAUTHENTICATED, service_account_groups
from bayplan.apiserver.authorization import Action, Authorizer
from bayplan.apiserver.errors import bad_request
from bayplan.apiserver.permission import demand_action

PREFIX = "impersonate-"
EXTRA = "impersonate-extra-"
AUTHENTICATION = "authentication.k8s.io"
SERVICE_ACCOUNT = "system:serviceaccount:"


def impersonate(authorizer: Authorizer, user: User, headers: list[tuple[str, str]]) -> User:
    """Return whom the headers name. Raises a 403 if the user may not act as that one."""
    name = next((value for key, value in headers if key == "impersonate-user"), "")
    uid = next((value for key, value in headers if key == "impersonate-uid"), "")
    groups = [value for key, value in headers if key == "impersonate-group"]
    extra: dict[str, list[str]] = {}
    for key, value in headers:
        if key.startswith(EXTRA):
            extra.setdefault(unquote(key.removeprefix(EXTRA)), []).append(value)
    if not name:
        if groups or uid or extra:
            raise bad_request("requested groups, uid or extra without impersonating a user")
        return user
    actions = [_identity(name), *(_thing("groups", group) for group in groups)]
    actions += [
        Action("impersonate", AUTHENTICATION, "userextras", key, name=value)
        for key, values in extra.items()
        for value in values
    ]
    if uid:
        actions.append(Action("impersonate", AUTHENTICATION, "uids", name=uid))
    for action in actions:
        demand_action(authorizer, user, action)
    return User(name, _groups(name, groups), uid, tuple((k, tuple(v)) for k, v in extra.items()))


def _thing(resource: str, name: str) -> Action:
    return Action("impersonate", resource=resource, name=name)


def _service_account(name: str) -> tuple[str, str] | None:
    if not name.startswith(SERVICE_ACCOUNT):
        return None
    namespace, _, account = name.removeprefix(SERVICE_ACCOUNT).partition(":")
    return (namespace, account) if namespace and account and ":" not in account else None


def _identity(name: str) -> Action:
    account = _service_account(name)
    if account is None:
        return _thing("users", name)
    return Action("impersonate", resource="serviceaccounts", namespace=account[0], name=account[1])


def _groups(name: str, given: list[str]) -> tuple[str, ...]:
    """Return the groups of the other one; what everybody is a member of is added."""
    account = _service_account(name)
    groups = tuple(given)
    if not groups and account is not None:
        groups = service_account_groups(account[0])
    if name == ANONYMOUS.name:
        return groups if UNAUTHENTICATED in groups else (*groups, UNAUTHENTICATED)
    known = AUTHENTICATED in groups or UNAUTHENTICATED in groups
    return groups if known else (*groups, AUTHENTICATED)
