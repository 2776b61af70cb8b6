"""API servers behind this one: APIServices that name a Service.

The APIServices in the store are followed. Whether the server behind one answers is looked at in
the background, often while it does not, and written into its status; a request to one that does not
is refused at once, and discovery tells what was last seen of it, so nobody waits for the dead.
`passing` speaks to the servers. Websockets are not passed on.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

import structlog

from bayplan.api.user import User
from bayplan.apiserver.backend import Backend
from bayplan.apiserver.codec import Codec
from bayplan.apiserver.following import Following
from bayplan.apiserver.front_proxy import FrontProxy
from bayplan.apiserver.http import Connection, plain_text
from bayplan.apiserver.remotes import GROUP, RESOURCE, Remote
from bayplan.apiserver.responses import Answer, Stream
from bayplan.store import Conflict, Event, NotFound, StoreError
from bayplan.supervised import end, supervised

if TYPE_CHECKING:
    from bayplan.apiserver.passing import Passing

log = structlog.get_logger(__name__)
UNAVAILABLE = "service unavailable\n"
AGAIN_DEAD, AGAIN_ALIVE = 1.0, 30.0  # seconds between looks at a server


class Aggregator:
    """Follows the APIServices of other servers and passes requests on."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.identity: FrontProxy | None = None
        self._passed: Passing | None = None  # what speaks to servers is loaded with the first one
        self._following: Following | None = None
        self._checks: dict[str, asyncio.Task[None]] = {}
        self._look_now: dict[str, asyncio.Event] = {}

    @property
    def _remotes(self) -> dict[tuple[str, str], Remote]:
        return self._backend.remotes.known

    @property
    def _codec(self) -> Codec:
        codec = self._backend.codec_of(GROUP, RESOURCE)
        assert codec is not None
        return codec

    @property
    def _passing(self) -> Passing:
        if self._passed is None:
            from bayplan.apiserver.passing import Passing

            self._passed = Passing(self._backend.caller, self.identity)
        return self._passed

    async def start(self) -> None:
        """Learn what is stored, and follow changes."""
        backend, prefix = self._backend, self._codec.prefix
        self._following = Following(
            backend.store, prefix, self._sync, self._heard, backend.background_failures
        )
        await self._following.start()

    async def close(self) -> None:
        if self._following is not None:
            await self._following.close()
        await end(*self._checks.values())

    async def _heard(self, batch: list[Event]) -> None:
        await self._sync()

    async def _sync(self) -> int:
        found = await self._backend.store.range(self._codec.prefix)
        wanted: dict[str, Remote] = {}
        for kv in found.items:
            obj = self._codec.decode(kv)
            # Who answers for APIServices themselves stays, or nobody could correct a mistake.
            if obj["spec"].get("service") is not None and obj["spec"].get("group") != GROUP:
                wanted[obj["metadata"]["name"]] = Remote(obj)
        for name in [name for name in self._checks if name not in wanted]:
            self._checks.pop(name).cancel()
            self._look_now.pop(name)
        if self._backend.remotes.replace(wanted.values()):
            self._backend.registry.generation += 1
        for name, remote in wanted.items():
            if name in self._checks:
                self._look_now[name].set()
                continue
            self._look_now[name] = asyncio.Event()
            self._checks[name] = supervised(
                f"looking at {name}",
                partial(self._watch_over, name, remote.key),
                self._backend.background_failures,
            )
        return found.revision

    async def _watch_over(self, name: str, key: tuple[str, str]) -> None:
        """Look at one server again and again."""
        now = self._look_now[name]
        while True:
            now.clear()
            remote = self._remotes.get(key)
            if remote is None:
                return
            try:
                await self._look(remote)
            except (StoreError, OSError) as error:
                log.warning("an APIService cannot be looked at", name=name, error=str(error))
            pause = AGAIN_ALIVE if remote.available else AGAIN_DEAD
            try:
                async with asyncio.timeout(pause):
                    await now.wait()
            except TimeoutError:
                continue

    async def _write_status(self, remote: Remote) -> None:
        for _ in range(4):
            kv = await self._backend.store.get(self._codec.key("", remote.name))
            if kv is None:
                return
            obj = self._codec.decode(kv)
            status = obj.setdefault("status", {})
            status["conditions"] = remote.conditions(status.get("conditions"), self._backend.now())
            value = self._codec.encode(obj)
            if value == kv.value:
                return
            try:
                await self._backend.store.put(kv.key, value, expect=kv.mod_revision)
            except (Conflict, NotFound):
                continue
            return

    async def _look(self, remote: Remote) -> None:
        before = remote.told()
        await self._passing.look(remote)
        if remote.told() != before:
            self._backend.registry.generation += 1  # discovery is to be made anew
            await self._write_status(remote)

    async def pass_on(
        self, remote: Remote, connection: Connection, user: User, body: bytes, *, watch: bool
    ) -> Answer | Stream:
        """Answer a request by the server behind an APIService."""
        answer = await self._passing.pass_on(remote, connection, user, body, watch=watch)
        if answer is None:
            self._look_again(remote)
            return plain_text(503, UNAVAILABLE)
        return answer

    def _look_again(self, remote: Remote) -> None:
        if (now := self._look_now.get(remote.name)) is not None:
            now.set()
