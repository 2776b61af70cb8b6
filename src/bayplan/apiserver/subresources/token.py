"""Tokens for service accounts: POST serviceaccounts/NAME/token.

Tokens are opaque, not JWTs, and are valid while the server runs; `kubectl create token` and clients
in simulated pods need no more. Bound objects are not looked at.
"""

from __future__ import annotations

from collections.abc import Callable

from bayplan.apiserver.backend import Backend, timestamp
from bayplan.apiserver.bodies import read_as
from bayplan.apiserver.request import Request, User
from bayplan.apiserver.responses import Answer, plain_answer

DEFAULT_SECONDS = 3600


async def issue_token(backend: Backend, request: Request, issue: Callable[[User], str]) -> Answer:
    """Answer a TokenRequest with a token for the service account."""
    asked = read_as(request, "authentication.k8s.io/v1", "TokenRequest")
    codec = backend.codec(request.kind)
    account = codec.decode(await backend.must_get(codec, request.namespace, request.name))
    spec = asked.setdefault("spec", {})
    seconds = spec.setdefault("expirationSeconds", DEFAULT_SECONDS)
    where = request.namespace
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{where}")
    name = f"system:serviceaccount:{where}:{request.name}"
    user = User(name, groups, account["metadata"].get("uid", ""))
    token = "" if request.dry_run else issue(user)
    expiry = timestamp(backend.clock() + seconds)
    asked["metadata"] = {
        "name": request.name,
        "namespace": where,
        "creationTimestamp": backend.now(),
    }
    asked["status"] = {"token": token, "expirationTimestamp": expiry}
    return plain_answer(request, asked, 201)
