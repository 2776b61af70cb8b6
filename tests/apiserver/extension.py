"""A small API server to stand behind another: HTTPS, answers that are functions."""

import asyncio
import base64
import ssl
from pathlib import Path
from typing import Any

from aiohttp import web

from bayplan.apiserver import tls
from tests.apiserver.api import Api

GROUP = "ext.example.com"
NAMED = "/api/v1/namespaces/default/services"
SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
ONE = f"{SERVICES}/v1.{GROUP}"
RESOURCES = {
    "kind": "APIResourceList",
    "apiVersion": "v1",
    "groupVersion": f"{GROUP}/v1",
    "resources": [
        {
            "name": "tides",
            "singularName": "tide",
            "namespaced": True,
            "kind": "Tide",
            "verbs": ["create", "get", "list", "watch"],
            "shortNames": ["td"],
        },
        {
            "name": "tides/status",
            "singularName": "",
            "namespaced": True,
            "kind": "Tide",
            "verbs": ["get"],
        },
    ],
}
DESCRIPTION = {"openapi": "3.0.0", "paths": {f"/apis/{GROUP}/v1/": {}}, "components": {}}


class Extension:
    """Serves one group; remembers the requests for its resources."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked: list[dict[str, Any]] = []
        self.authority = ""
        self.port = 0
        self.trusted: str = ""  # whose certificates must be shown, if any must

    async def __aenter__(self) -> "Extension":
        files = tls.generate(self.folder, ["localhost", "127.0.0.1", "ext.default.svc"])
        self.authority = base64.b64encode(_bytes(files.authority)).decode()
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=self.trusted or None)
        if self.trusted:
            context.verify_mode = ssl.CERT_REQUIRED
        context.load_cert_chain(files.certificate, files.key)
        app = web.Application()
        app.router.add_get(f"/apis/{GROUP}/v1", self._resources)
        app.router.add_get(f"/openapi/v3/apis/{GROUP}/v1", self._description)
        app.router.add_route("*", f"/apis/{GROUP}/v1/{{rest:.+}}", self._answer)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port, ssl_context=context)
        await site.start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def _resources(self, request: web.Request) -> web.Response:
        return web.json_response(RESOURCES)

    async def _description(self, request: web.Request) -> web.Response:
        return web.json_response(DESCRIPTION)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        asked = {
            "method": request.method,
            "path": request.path_qs,
            "body": (await request.read()).decode(),
            "user": request.headers.getall("X-Remote-User", []),
            "groups": request.headers.getall("X-Remote-Group", []),
            "authorization": request.headers.get("Authorization"),
        }
        self.asked.append(asked)
        if request.query.get("watch"):
            return await self._watch(request)
        status = 418 if "teapot" in request.path else 200
        return web.json_response(asked, status=status, headers={"X-Tide": "high"})

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Type": "application/json"})
        await answer.prepare(request)
        for name in ("a", "b"):
            line = f'{{"type":"ADDED","object":{{"metadata":{{"name":"{name}"}}}}}}\n'
            await answer.write(line.encode())
        return answer

    def service(self, **spec: Any) -> dict[str, Any]:
        """The APIService that names this server."""
        wanted = {
            "group": GROUP,
            "version": "v1",
            "groupPriorityMinimum": 100,
            "versionPriority": 10,
            "caBundle": self.authority,
            "service": {"namespace": "default", "name": "ext", "port": self.port},
        }
        return {"metadata": {"name": f"v1.{GROUP}"}, "spec": {**wanted, **spec}}

    def named(self) -> dict[str, Any]:
        """The Service that leads here by a name."""
        spec = {"type": "ExternalName", "externalName": "localhost"}
        return {"metadata": {"name": "ext"}, "spec": spec}

    def chosen(self, port: int) -> dict[str, Any]:
        """The Service that leads here by endpoints."""
        ports = [{"name": "https", "port": port, "protocol": "TCP"}]
        return {"metadata": {"name": "ext"}, "spec": {"ports": ports}}

    def endpoints(self) -> dict[str, Any]:
        """Endpoints on loopback; the API does not take them, a store does."""
        labels = {"kubernetes.io/service-name": "ext"}
        return {
            "metadata": {"name": "ext-1", "namespace": "default", "labels": labels},
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["127.0.0.1"], "conditions": {"ready": True}}],
            "ports": [{"name": "https", "port": self.port, "protocol": "TCP"}],
        }


def _bytes(path: Path) -> bytes:
    return path.read_bytes()


async def condition(api: Api, reason: str):
    """Wait until the APIService says this."""
    async with asyncio.timeout(60):
        while True:
            found = (await api.ok("GET", ONE)).get("status", {}).get("conditions") or [{}]
            if found[0].get("reason") == reason:
                return found[0]
            await asyncio.sleep(0.01)
