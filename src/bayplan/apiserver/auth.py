"""Who is asking: bearer tokens, from a generated admin token and from a file.

Tokens are kept as digests and found by digest, so a lookup takes the same time whatever was sent,
and no token can be printed by accident. Service account tokens that this server issued are known
while the process lives. Client certificates and OIDC are not understood.
"""

from __future__ import annotations

import csv
import hashlib
import secrets
from pathlib import Path

from bayplan.apiserver.errors import unauthorized
from bayplan.apiserver.request import ANONYMOUS, User
from bayplan.errors import ConfigError

AUTHENTICATED = "system:authenticated"
MASTERS = "system:masters"
ADMIN = User("admin", (MASTERS, AUTHENTICATED))


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


class Authenticator:
    """Turns an Authorization header into a user."""

    def __init__(self, *, anonymous: bool = True) -> None:
        self.anonymous = anonymous
        self._users: dict[bytes, User] = {}
        self._seen: dict[str, User] = {}  # whole headers, so that a repeated one needs no hashing

    def add(self, token: str, user: User) -> None:
        """Let a token stand for a user."""
        groups = user.groups if AUTHENTICATED in user.groups else (*user.groups, AUTHENTICATED)
        self._users[_digest(token)] = user._replace(groups=groups)

    def issue(self, user: User) -> str:
        """Return a new token that stands for a user."""
        token = secrets.token_urlsafe(32)
        self.add(token, user)
        return token

    def lookup(self, token: str) -> User | None:
        return self._users.get(_digest(token))

    def authenticate(self, header: str | None) -> User:
        """Return who asks. No header means anonymous; a bad one is a 401."""
        if header is None:
            return ANONYMOUS
        known = self._seen.get(header)
        if known is not None:
            return known
        scheme, token = (*header.split(" ", 2), "")[:2]
        user = self.lookup(token) if scheme.lower() == "bearer" and token else None
        if user is None:
            raise unauthorized()
        if len(self._seen) < 1024:
            self._seen[header] = user
        return user


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
    return found


def new_token() -> str:
    return secrets.token_urlsafe(32)
