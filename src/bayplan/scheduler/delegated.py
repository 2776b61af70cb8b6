"""Who may read metrics: authentication and authorisation delegated to the API server.

A bearer token is shown to the API server in a TokenReview, a client certificate was checked by TLS;
then a SubjectAccessReview asks whether that user may `get` (or `post` to) the path. Answers are
kept for a short time. A token given to this process itself (`--metrics-token-file`) passes unasked.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Sequence

import msgspec
import structlog

from bayplan.api.user import User
from bayplan.client import Client, ClientError
from bayplan.client.resources import SUBJECT_ACCESS_REVIEWS, TOKEN_REVIEWS

log = structlog.get_logger(__name__)

TTL = 10.0
CACHE_LIMIT = 1000


class _UserInfo(msgspec.Struct, frozen=True):
    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()


class _TokenStatus(msgspec.Struct, frozen=True):
    authenticated: bool = False
    user: _UserInfo = _UserInfo()


class _TokenReview(msgspec.Struct, frozen=True):
    status: _TokenStatus = _TokenStatus()


class _AccessStatus(msgspec.Struct, frozen=True):
    allowed: bool = False


class _AccessReview(msgspec.Struct, frozen=True):
    status: _AccessStatus = _AccessStatus()


class Gatekeeper:
    """Answers whether a request may pass."""

    def __init__(
        self,
        authentication: Client | None,
        authorization: Client | None,
        *,
        local_token: str = "",
        always_allow: Sequence[str] = ("/healthz", "/readyz", "/livez"),
    ) -> None:
        self._authentication = authentication
        self._authorization = authorization
        self._local_token = local_token
        self._always_allow = tuple(always_allow)
        self._cache: dict[tuple[str, str, str], tuple[float, int]] = {}

    async def check(
        self, path: str, token: str, user: User | None = None, *, verb: str = "get"
    ) -> int:
        """Return 200 when the request may pass, else 401 or 403."""
        if self._open(path):
            return 200
        if token and self._local_token and hmac.compare_digest(token, self._local_token):
            return 200
        if not token and user is None:
            return 401
        now = asyncio.get_running_loop().time()
        key = (token or f"cert:{user}", path, verb)
        known = self._cache.get(key)
        if known is not None and known[0] > now:
            return known[1]
        verdict = await self._ask(path, verb, token, user)
        if len(self._cache) > CACHE_LIMIT:
            self._cache.clear()
        self._cache[key] = (now + TTL, verdict)
        return verdict

    def _open(self, path: str) -> bool:
        return any(
            path == allowed or (allowed.endswith("/*") and path.startswith(allowed[:-1]))
            for allowed in self._always_allow
        )

    async def _ask(self, path: str, verb: str, token: str, user: User | None) -> int:
        try:
            if token:
                user = await self._who(token)
            if user is None:
                return 401
            return 200 if await self._may(user, path, verb) else 403
        except ClientError as problem:
            log.warning("asking the API server about a request failed", err=str(problem))
            return 401 if user is None else 403

    async def _who(self, token: str) -> User | None:
        if self._authentication is None:
            return None
        review = {
            "apiVersion": TOKEN_REVIEWS.api_version,
            "kind": TOKEN_REVIEWS.kind,
            "spec": {"token": token},
        }
        raw = await self._authentication.create(TOKEN_REVIEWS, review)
        status = msgspec.json.decode(raw, type=_TokenReview).status
        if not status.authenticated:
            return None
        return User(status.user.username, status.user.groups, status.user.uid)

    async def _may(self, user: User, path: str, verb: str) -> bool:
        if self._authorization is None:
            return False
        review = {
            "apiVersion": SUBJECT_ACCESS_REVIEWS.api_version,
            "kind": SUBJECT_ACCESS_REVIEWS.kind,
            "spec": {
                "user": user.name,
                "uid": user.uid,
                "groups": user.groups,
                "nonResourceAttributes": {"path": path, "verb": verb},
            },
        }
        raw = await self._authorization.create(SUBJECT_ACCESS_REVIEWS, review)
        return msgspec.json.decode(raw, type=_AccessReview).status.allowed
