"""A tiny API server as an ASGI application: enough of list, watch and writes to test a client.

It keeps every change in `log`, so a watch from any version replays what came after it; `expire()`
forgets the log, and watches from older versions get 410.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from urllib.parse import parse_qs


class FakeApi:
    """Objects under their full path; versions count up by one."""

    def __init__(self) -> None:
        self.objects: dict[str, dict] = {}
        self.log: list[tuple[int, str, str, dict]] = []
        self.version = 10
        self.oldest = 0
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        self.answers: list[tuple[int, dict, dict[str, str]]] = []
        self.changed = asyncio.Condition()
        self.streams: set[asyncio.Task] = set()
        self.fault: Callable[[str, str], tuple[int, dict, dict[str, str]] | None] = (
            lambda method, path: None
        )

    # -- for tests

    async def put(self, path: str, **fields: object) -> dict:
        self.version += 1
        old = self.objects.get(path)
        parts = path.split("/")
        meta = {"name": parts[-1], "uid": f"uid-{self.version}"}
        if "namespaces" in parts:
            meta["namespace"] = parts[parts.index("namespaces") + 1]
        if old:
            meta = dict(old["metadata"])
        item = {**(old or {}), **fields, "metadata": {**meta, **fields.get("metadata", {})}}
        item["metadata"]["resourceVersion"] = str(self.version)
        self.objects[path] = item
        await self._record("MODIFIED" if old else "ADDED", path, item)
        return item

    async def remove(self, path: str) -> None:
        self.version += 1
        item = self.objects.pop(path)
        item = {**item, "metadata": {**item["metadata"], "resourceVersion": str(self.version)}}
        await self._record("DELETED", path, item)

    async def emit(self, kind: str, path: str, item: dict) -> None:
        """Send an event to watchers without changing anything."""
        await self._record(kind, path, item)

    async def expire(self) -> None:
        self.oldest = self.version
        self.log.clear()

    async def break_streams(self) -> None:
        for task in list(self.streams):
            task.cancel()
        await asyncio.sleep(0)

    async def _record(self, kind: str, path: str, item: dict) -> None:
        async with self.changed:
            self.log.append((self.version, kind, path, item))
            self.changed.notify_all()

    # -- ASGI

    async def __call__(self, scope, receive, send) -> None:
        method, path = scope["method"], scope["path"]
        query = {key: values[0] for key, values in parse_qs(scope["query_string"].decode()).items()}
        headers = {k.decode(): v.decode() for k, v in scope["headers"]}
        self.requests.append((method, path, {**query, "-headers": json.dumps(headers)}))
        body = (await receive()).get("body") or b""
        canned = self.answers.pop(0) if self.answers else self.fault(method, path)
        if canned is not None:
            return await self._answer(send, *canned)
        if method == "GET" and query.get("watch") == "true":
            return await self._watch(send, path, int(query.get("resourceVersion") or 0))
        return await self._answer(send, *await self._plain(method, path, body))

    async def _plain(self, method: str, path: str, body: bytes) -> tuple[int, dict]:
        if method == "POST":
            item = json.loads(body)
            path = f"{path}/{item['metadata']['name']}"
            if path in self.objects:
                return status(409, "AlreadyExists")
            return 201, await self.put(path, **item)
        if method == "PUT":
            item = json.loads(body)
            if path not in self.objects:
                return status(404, "NotFound")
            known = self.objects[path]["metadata"]["resourceVersion"]
            if item["metadata"].get("resourceVersion", known) != known:
                return status(409, "Conflict")
            return 200, await self.put(path, **item)
        if method == "GET" and path in self.objects:
            return 200, self.objects[path]
        if method == "GET" and path.rsplit("/", 1)[-1].endswith("s"):
            items = [item for key, item in self.objects.items() if key.startswith(f"{path}/")]
            return 200, {"metadata": {"resourceVersion": str(self.version)}, "items": items}
        return status(404, "NotFound")

    async def _watch(self, send, path: str, version: int) -> None:
        if version < self.oldest:
            return await self._answer(send, *status(410, "Expired"))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        task = asyncio.current_task()
        self.streams.add(task)
        index = 0
        try:
            while True:
                async with self.changed:
                    while index >= len(self.log):
                        if not self.log:
                            index = 0
                        await self.changed.wait()
                    fresh, index = self.log[index:], len(self.log)
                for at, kind, where, item in fresh:
                    if at > version and (where.startswith(f"{path}/") or kind == "BOOKMARK"):
                        line = json.dumps({"type": kind, "object": item}).encode() + b"\n"
                        await send({"type": "http.response.body", "body": line, "more_body": True})
        finally:
            self.streams.discard(task)

    async def _answer(self, send, code: int, body: dict, headers: dict | None = None) -> None:
        pairs = [(k.encode(), v.encode()) for k, v in (headers or {}).items()]
        await send({"type": "http.response.start", "status": code, "headers": pairs})
        await send({"type": "http.response.body", "body": json.dumps(body).encode()})


def status(code: int, reason: str) -> tuple[int, dict]:
    return code, {"kind": "Status", "code": code, "reason": reason, "message": reason}
