"""Answers `/livez`, `/readyz` and `/healthz` with what was really looked at.

Ready means: the store takes writes, what is mirrored in memory has been read, and the server is not
ending. Alive means only that it answers: without its store a restart would not help. As upstream,
`?verbose` lists the checks, `?exclude=NAME` leaves one out, and `/readyz/NAME` asks a single one.
Why something failed is in the log; whoever asks needs no token.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from urllib.parse import parse_qsl

import structlog

from bayplan.apiserver.backend import Backend
from bayplan.apiserver.http import plain_text
from bayplan.apiserver.responses import Answer
from bayplan.store import StoreError

log = structlog.get_logger(__name__)
CHECK_SECONDS, CHECK_TIMEOUT = 1.0, 3.0
PATHS = ("/healthz", "/livez", "/readyz")
_READY = ("ping", "etcd", "informer-sync", "shutdown")
_CHECKS = {"healthz": _READY, "livez": ("ping",), "readyz": _READY}


class Health:
    """Checks one server; the store is asked at most once a second."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._asked: tuple[float, asyncio.Future[bool]] | None = None
        self._checks: dict[str, Callable[[], Awaitable[bool]]] = {
            "ping": self._answers,
            "etcd": self._store_works,
            "informer-sync": self._has_read,
            "shutdown": self._stays,
        }

    async def answer(self, path: str, query: bytes) -> Answer | None:
        """Return what a path asks for, None if there is no such check."""
        base, _, name = path.strip("/").partition("/")
        if base not in _CHECKS or (name and name not in self._checks):
            return None
        asked = parse_qsl(query.decode("latin-1"), keep_blank_values=True)
        excluded = {value for key, value in asked if key == "exclude"}
        lines, healthy = [], True
        for check in (name,) if name else _CHECKS[base]:
            if check in excluded:
                lines.append(f"[+]{check} excluded: ok")
            elif await self._checks[check]():
                lines.append(f"[+]{check} ok")
            else:
                healthy = False
                lines.append(f"[-]{check} failed: reason withheld")
        if healthy and (name or not any(key == "verbose" for key, _ in asked)):
            return plain_text(200, "ok")
        unknown = ", ".join(f'"{word}"' for word in sorted(excluded - set(_CHECKS[base])))
        if unknown:
            lines.append(f"warn: some health checks cannot be excluded: no matches for {unknown}")
        lines.append(f"{base} check {'passed' if healthy else 'failed'}")
        return plain_text(200 if healthy else 500, "\n".join(lines) + "\n")

    async def _answers(self) -> bool:
        return True

    async def _has_read(self) -> bool:
        return self._backend.started

    async def _stays(self) -> bool:
        return not self._backend.ending

    async def _store_works(self) -> bool:
        now = asyncio.get_running_loop().time()
        if self._asked is None or now - self._asked[0] >= CHECK_SECONDS:
            self._asked = (now, asyncio.ensure_future(self._check_store()))
        return await asyncio.shield(self._asked[1])

    async def _check_store(self) -> bool:
        try:
            async with asyncio.timeout(CHECK_TIMEOUT):
                await self._backend.store.check()
        except (StoreError, TimeoutError) as error:
            log.warning("the store does not work", error=str(error) or type(error).__name__)
            return False
        return True
