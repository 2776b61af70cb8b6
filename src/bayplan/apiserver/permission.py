"""Asks whether a request may do something, and says why not in upstream's words.

The server asks once for every request; verbs ask again for what they find out to be doing besides
(an apply or PUT that creates, a binding that grants).
"""

from __future__ import annotations

from bayplan.api.user import User
from bayplan.apiserver.authorization import Action, Authorizer
from bayplan.apiserver.errors import ApiError, forbidden
from bayplan.apiserver.request import Request
from bayplan.apiserver.selectors import exact_name


def action_of(request: Request, verb: str = "") -> Action:
    """Return what a request does; a list or watch of one name counts as naming it."""
    kind, name = request.kind, request.name
    if not name and request.verb in ("list", "watch") and "fieldSelector" in request.query:
        name = exact_name(request.query["fieldSelector"])
    of_namespaces = kind.resource == "namespaces" and not kind.group
    return Action(
        verb or request.verb,
        kind.group,
        kind.resource,
        request.subresource,
        request.name if of_namespaces else request.namespace,
        name,
    )


def demand(authorizer: Authorizer, request: Request, verb: str = "") -> None:
    """Raise the 403 unless the requester may do this."""
    demand_action(authorizer, request.user, action_of(request, verb))


def demand_action(authorizer: Authorizer, user: User, action: Action) -> None:
    if not authorizer.allows(user, action)[0]:
        raise denied(user, action)


def denied(user: User, action: Action) -> ApiError:
    whole = f"{action.resource}/{action.subresource}" if action.subresource else action.resource
    scope = f' in the namespace "{action.namespace}"' if action.namespace else ""
    why = (
        f'User "{user.name}" cannot {action.verb} resource "{whole}" '
        f'in API group "{action.group}"{scope or " at the cluster scope"}'
    )
    return forbidden(action.group, action.resource, action.name, why)
