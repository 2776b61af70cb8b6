"""Webhooks of tests: a real HTTPS server whose answers are functions."""

import asyncio
import base64
import json
import ssl
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from bayplan.apiserver import tls
from bayplan.apiserver.calling import Caller

HOOKS = "/apis/admissionregistration.k8s.io/v1"
LARGEST = 8 << 20
Handler = Callable[[dict[str, Any]], dict[str, Any]]


class Hooks:
    """Answers admission and conversion reviews by path; remembers what it was asked."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.handlers: dict[str, Handler] = {}
        self.asked: list[dict[str, Any]] = []
        self.url = ""
        self.authority = self.certificate = ""

    async def __aenter__(self) -> "Hooks":
        files = tls.generate(self.folder, ["localhost", "127.0.0.1", "hook.default.svc"])
        self.authority = base64.b64encode(_bytes(files.authority)).decode()
        self.certificate = base64.b64encode(_bytes(files.certificate)).decode()
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(files.certificate, files.key)
        app = web.Application(client_max_size=LARGEST)
        app.router.add_post("/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=context)
        await site.start()
        self.port = self._runner.addresses[0][1]
        self.url = f"https://127.0.0.1:{self.port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    @property
    def connections(self) -> int:
        return len(self._runner.server.connections)

    async def _answer(self, request: web.Request) -> web.Response:
        return await self.answered(request)

    async def answered(self, request: web.Request) -> web.Response:
        """Answer a review by the handler of its path; a test may put itself in front."""
        review = await request.json()
        self.asked.append(review["request"])
        response = self.handlers["/" + request.match_info["path"]](review["request"])
        if "raw" in response:
            return web.Response(**response["raw"])
        answer = {
            "apiVersion": review["apiVersion"],
            "kind": review["kind"],
            "response": {"uid": review["request"]["uid"], **response},
        }
        return web.json_response(answer)

    def config(self, kind: str, *hooks: dict[str, Any], name: str = "test") -> dict[str, Any]:
        """A configuration; each hook is given by its path and what differs from the usual."""
        made = []
        for hook in hooks:
            path = hook.pop("path")
            made.append(
                {
                    "name": f"{path.strip('/')}.example.com",
                    "clientConfig": {"url": self.url + path, "caBundle": self.authority},
                    "rules": [
                        {
                            "operations": ["*"],
                            "apiGroups": [""],
                            "apiVersions": ["v1"],
                            "resources": ["configmaps"],
                        }
                    ],
                    "sideEffects": "None",
                    "admissionReviewVersions": ["v1"],
                    "timeoutSeconds": 5,
                    **hook,
                }
            )
        return {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": kind,
            "metadata": {"name": name},
            "webhooks": made,
        }


@asynccontextmanager
async def elsewhere(hooks: Hooks, caller: Caller) -> AsyncIterator[Hooks]:
    """Let webhooks answer in a thread, so that their work is no step of this event loop."""
    ready, done = threading.Event(), threading.Event()

    async def serve() -> None:
        async with hooks:
            ready.set()
            await asyncio.to_thread(done.wait)
            while hooks.connections:  # a loop that ends leaves them open
                await asyncio.sleep(0.01)

    serving = asyncio.create_task(asyncio.to_thread(asyncio.run, serve()))
    await asyncio.to_thread(ready.wait)
    try:
        yield hooks
    finally:
        await caller.close()
        done.set()
        await serving


def _bytes(path: Path) -> bytes:
    return path.read_bytes()


def allow(request: dict[str, Any]) -> dict[str, Any]:
    return {"allowed": True}


def patching(*operations: dict[str, Any]) -> Handler:
    text = base64.b64encode(json.dumps(operations).encode()).decode()
    return lambda request: {"allowed": True, "patchType": "JSONPatch", "patch": text}
