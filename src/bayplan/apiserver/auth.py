"""Who is asking: bearer tokens, from a generated admin token and from a file.

Given tokens are kept as digests and found by digest, so a lookup takes the same time whatever was
sent, and no token can be printed by accident. Tokens of service accounts are checked by `tokens`.
Tokens of other issuers are not understood.
"""

from __future__ import annotations

import csv
import hashlib
import secrets
from pathlib import Path

from bayplan.api.user import ANONYMOUS, User
from bayplan.apiserver.errors import unauthorized
from bayplan.apiserver.tokens import TokenError, Tokens, service_account_groups
from bayplan.errors import ConfigError

AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
MASTERS = "system:masters"
ADMIN = User("admin", (MASTERS, AUTHENTICATED))


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


class Authenticator:
    """Turns an Authorization header into a user."""

    def __init__(self, tokens: Tokens, *, anonymous: bool = True) -> None:
        self.tokens = tokens
        self.anonymous = anonymous
        self._users: dict[bytes, User] = {}
        self._seen: dict[str, User] = {}  # whole headers, so that a repeated one needs no hashing

    def add(self, token: str, user: User) -> None:
        """Let a token stand for a user."""
        self._users[_digest(token)] = _authenticated(user)

    def review(self, token: str, audiences: tuple[str, ...] = ()) -> tuple[User, list[str]]:
        """Return whose token it is, and for which audiences. Raises TokenError."""
        user = self._users.get(_digest(token))
        if user is None:
            user, shared = self.tokens.check(token, audiences)
            return _authenticated(user), shared
        known = self.tokens.audiences
        shared = [name for name in audiences or known if name in known]
        if not shared:
            raise TokenError("invalid bearer token")
        return user, shared

    def authenticate(self, header: str | None) -> User:
        """Return who asks. No header means anonymous; a bad one is a 401."""
        if header is None:
            return ANONYMOUS
        known = self._seen.get(header)
        if known is not None:
            return known
        scheme, token = (*header.split(" ", 2), "")[:2]
        if scheme.lower() != "bearer" or not token:
            raise unauthorized()
        try:
            user, _ = self.review(token)
        except TokenError:
            raise unauthorized() from None
        if len(self._seen) < 1024 and _digest(token) in self._users:
            self._seen[header] = user
        return user


def _authenticated(user: User) -> User:
    if AUTHENTICATED in user.groups:
        return user
    return user._replace(groups=(*user.groups, AUTHENTICATED))


def load_tokens(path: Path) -> list[tuple[str, User]]:
    """Read kube-apiserver's token file: `token,user,uid,"group1,group2"` a line."""
    found: list[tuple[str, User]] = []
    try:
        with path.open(newline="", encoding="utf-8") as file:
            for number, row in enumerate(csv.reader(file), 1):
                cells = [cell.strip() for cell in row]
                if not cells or cells[0].startswith("#"):
                    continue
                if len(cells) < 3 or not cells[0] or not cells[1]:
                    raise ConfigError(
                        f'reading token file "{path}" line {number}: want token,user,uid[,"groups"]'
                    )
                groups = tuple(g.strip() for g in ",".join(cells[3:]).split(",") if g.strip())
                found.append((cells[0], User(cells[1], groups, cells[2])))
    except OSError as error:
        raise ConfigError(f'reading token file "{path}": {error.strerror}') from error
    except UnicodeDecodeError as error:
        raise ConfigError(f'reading token file "{path}": it is not text') from error
    return found


def new_token() -> str:
    return secrets.token_urlsafe(32)


__all__ = [
    "ADMIN",
    "AUTHENTICATED",
    "MASTERS",
    "UNAUTHENTICATED",
    "Authenticator",
    "load_tokens",
    "new_token",
    "service_account_groups",
]
