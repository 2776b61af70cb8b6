"""Questions about identity and permission: kinds that are answered and never stored.

`kubectl auth can-i` and `whoami` ask for oneself; kube-scheduler and other components delegate
their own requests' authentication and authorization by TokenReview and SubjectAccessReview.
"""

from __future__ import annotations

from collections.abc import Callable

from bayplan.api.user import User
from bayplan.apiserver.auth import Authenticator
from bayplan.apiserver.authorization import Action, Authorizer
from bayplan.apiserver.bodies import read_object
from bayplan.apiserver.codec import Object
from bayplan.apiserver.errors import ApiError, bad_request, invalid, not_acceptable
from bayplan.apiserver.negotiate import WHOLE
from bayplan.apiserver.request import Request
from bayplan.apiserver.responses import Answer, plain_answer
from bayplan.apiserver.tokens import TokenError
from bayplan.apiserver.validation.causes import invalid as invalid_value

WHO_AM_I = "selfsubjectreviews"


class Reviews:
    """Answers reviews."""

    def __init__(
        self, authenticator: Authenticator, authorizer: Authorizer, now: Callable[[], str]
    ) -> None:
        self._authenticator = authenticator
        self._authorizer = authorizer
        self._now = now
        self._handlers = {
            WHO_AM_I: self._who_am_i,
            "tokenreviews": self._whose_token,
            "selfsubjectaccessreviews": self._may_i,
            "subjectaccessreviews": self._may_they,
            "localsubjectaccessreviews": self._may_they_here,
            "selfsubjectrulesreviews": self._my_rules,
        }

    def answer(self, request: Request) -> Answer:
        """Fill in the status of the review in the body. A review has no other form."""
        if request.output.form != WHOLE:
            raise not_acceptable(["application/json", "application/yaml"])
        review = read_object(request, request.kind)
        if request.kind.resource != WHO_AM_I:  # which has no spec
            review.setdefault("spec", {})
        review["status"] = self._handlers[request.kind.resource](request, review)
        return plain_answer(request, review, 201)

    def _who_am_i(self, request: Request, review: Object) -> Object:
        review["metadata"] = {"creationTimestamp": self._now()}
        return {"userInfo": user_info(request.user)}

    def _whose_token(self, request: Request, review: Object) -> Object:
        token = review["spec"].get("token", "")
        if not token:
            raise bad_request("token is required for TokenReview in authentication")
        audiences = tuple(review["spec"].get("audiences") or ())
        try:
            user, shared = self._authenticator.review(token, audiences)
        except TokenError as error:
            return {"user": {}, "error": str(error)}
        return {"authenticated": True, "user": user_info(user), "audiences": shared}

    def _may_i(self, request: Request, review: Object) -> Object:
        self._check_attributes(request, review)
        return self._decide(request.user, review["spec"])

    def _may_they(self, request: Request, review: Object) -> Object:
        self._check_attributes(request, review)
        spec = review["spec"]
        if not spec.get("user") and not spec.get("groups"):
            text = "at least one of user or group must be specified"
            raise _refused(request, "spec.user", spec.get("user", ""), text)
        user = User(spec.get("user", ""), tuple(spec.get("groups") or ()), spec.get("uid", ""))
        return self._decide(user, spec)

    def _may_they_here(self, request: Request, review: Object) -> Object:
        attributes = review["spec"].get("resourceAttributes") or {}
        where = attributes.get("namespace", "")
        if where != request.namespace:
            text = "must match metadata.namespace"
            raise _refused(request, "spec.resourceAttributes.namespace", where, text)
        return self._may_they(request, review)

    def _check_attributes(self, request: Request, review: Object) -> None:
        spec = review["spec"]
        has_resource, has_path = "resourceAttributes" in spec, "nonResourceAttributes" in spec
        if has_resource and has_path:
            text = "cannot be specified in combination with resourceAttributes"
            field = "spec.nonResourceAttributes"
            raise _refused(request, field, spec["nonResourceAttributes"], text)
        if not has_resource and not has_path:
            text = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
            raise _refused(request, "spec.resourceAttributes", None, text)

    def _decide(self, user: User, spec: Object) -> Object:
        allowed, reason = self._authorizer.allows(user, action_of(spec))
        status: Object = {"allowed": allowed}
        if reason:
            status["reason"] = reason
        return status

    def _my_rules(self, request: Request, review: Object) -> Object:
        namespace = review["spec"].get("namespace", "")
        if not namespace:
            raise bad_request("no namespace on request")
        rules = self._authorizer.rules(request.user, namespace)
        review["spec"] = {}  # kube-apiserver answers with a new review
        return {
            "resourceRules": [rule for rule in rules if not rule.get("nonResourceURLs")],
            "nonResourceRules": [
                {"verbs": rule.get("verbs", []), "nonResourceURLs": rule["nonResourceURLs"]}
                for rule in rules
                if rule.get("nonResourceURLs")
            ],
            "incomplete": False,
        }


def _refused(request: Request, field: str, value: object, text: str) -> ApiError:
    return invalid(request.kind.group, "", "", [invalid_value(field, value, text)])


def user_info(user: User) -> Object:
    out: Object = {"username": user.name}
    if user.uid:
        out["uid"] = user.uid
    out["groups"] = list(user.groups)
    if user.extra:
        out["extra"] = {key: list(values) for key, values in user.extra}
    return out


def action_of(spec: Object) -> Action:
    """Turn the attributes of an access review into an action."""
    other = spec.get("nonResourceAttributes")
    if other:
        return Action(other.get("verb", ""), path=other.get("path", ""))
    asked = spec.get("resourceAttributes") or {}
    return Action(
        asked.get("verb", ""),
        asked.get("group", ""),
        asked.get("resource", ""),
        asked.get("subresource", ""),
        asked.get("namespace", ""),
        asked.get("name", ""),
    )
