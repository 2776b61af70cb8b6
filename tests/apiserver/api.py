"""An API server in this process, asked directly through ASGI."""

import asyncio
import json
from typing import Any, NamedTuple

from bayplan.apiserver.server import ApiServer
from bayplan.store import Store
from bayplan.store.memory import MemoryStore

MERGE = "application/merge-patch+json"
PODS = "/api/v1/namespaces/default/pods"
CONFIGMAPS = "/api/v1/namespaces/default/configmaps"


def pod(name: str, **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "registry.example/app:1"}
    return {"metadata": {"name": name}, "spec": {"containers": [container], **spec}}


def configmap(name: str, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, **metadata}, "data": {"a": "1"}}


class Answer(NamedTuple):
    status: int
    body: Any
    raw: bytes
    headers: dict[str, str]


class Api:
    """Sends requests to a server and reads answers; `Stream` is an open watch."""

    def __init__(self, server: ApiServer) -> None:
        self.server = server

    @classmethod
    async def start(cls, store: Store | None = None, **options: Any) -> "Api":
        server = ApiServer(store or MemoryStore(), **options)
        await server.start()
        return cls(server)

    async def close(self) -> None:
        await self.server.close()
        await self.server.store.close()

    def _scope(self, method: str, target: str, headers: dict[str, str | None]) -> dict[str, Any]:
        path, _, query = target.partition("?")
        every: dict[str, str | None] = {"authorization": f"Bearer {self.server.admin_token}"}
        every |= headers
        return {
            "type": "http",
            "method": method,
            "path": path,
            "query_string": query.encode(),
            "headers": [(k.encode(), v.encode()) for k, v in every.items() if v is not None],
        }

    async def exchange(
        self,
        method: str,
        target: str,
        body: bytes | None = None,
        headers: dict[str, str | None] | None = None,
    ) -> "Stream":
        """Send a request and wait for all of the answer, without looking into it."""
        given, stream = dict(headers or {}), Stream()
        if body is not None:
            stream.body = body
            default = MERGE if method == "PATCH" else "application/json"
            given.setdefault("content-type", default)
        await self.server(self._scope(method, target, given), stream.receive, stream.send)
        return stream

    async def call(
        self,
        method: str,
        target: str,
        body: Any = None,
        headers: dict[str, str | None] | None = None,
    ) -> Answer:
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        stream = await self.exchange(method, target, body, headers)
        raw = b"".join(stream.pieces)
        try:
            decoded = json.loads(raw)
        except ValueError:
            decoded = raw
        return Answer(stream.status, decoded, raw, stream.headers)

    async def ok(self, method: str, target: str, body: Any = None, **more: Any) -> Any:
        """Send a request that must succeed; return the decoded answer."""
        answer = await self.call(method, target, body, **more)
        assert answer.status < 300, answer.body
        return answer.body

    async def watch(self, target: str, headers: dict[str, str | None] | None = None) -> "Stream":
        stream = Stream()
        scope = self._scope("GET", target, headers or {})
        stream.task = asyncio.create_task(self._run(scope, stream))
        await stream.started.wait()
        return stream

    async def _run(self, scope: dict[str, Any], stream: "Stream") -> None:
        await self.server(scope, stream.receive, stream.send)


class Stream:
    """The client's end of one exchange."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body = b""
        self.pieces: list[bytes] = []
        self.started = asyncio.Event()
        self.left = asyncio.Event()
        self.arrived = asyncio.Event()
        self.open = asyncio.Event()  # cleared: the client does not read
        self.open.set()
        self.task: asyncio.Task[None] | None = None
        self._asked = False

    async def receive(self) -> dict[str, Any]:
        if not self._asked:
            self._asked = True
            return {"type": "http.request", "body": self.body, "more_body": False}
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: dict[str, Any]) -> None:
        await self.open.wait()
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {k.decode(): v.decode() for k, v in message["headers"]}
            self.started.set()
        else:
            self.pieces.append(message.get("body", b""))
            self.arrived.set()

    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in b"".join(self.pieces).splitlines()]

    async def until(self, count: int) -> list[dict[str, Any]]:
        """Wait until so many events have come."""
        async with asyncio.timeout(60):
            while len(self.events()) < count:
                self.arrived.clear()
                await self.arrived.wait()
        return self.events()

    async def leave(self) -> None:
        """Go away, as a client that closes the connection does."""
        assert self.task is not None
        self.left.set()
        await self.task


def shown(events: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Reduce events to (type, name)."""
    return [(e["type"], e["object"]["metadata"].get("name", "")) for e in events]
