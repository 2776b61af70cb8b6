"""What is not a resource: health, version, discovery, OpenAPI and metrics."""

from __future__ import annotations

import platform
from hashlib import sha512

from bayplan import __version__
from bayplan.apiserver import health
from bayplan.apiserver.backend import Backend
from bayplan.apiserver.discovery import AGGREGATED_TYPE, Discovery
from bayplan.apiserver.errors import ApiError
from bayplan.apiserver.http import Connection, plain_text
from bayplan.apiserver.negotiate import DISCOVERY, accept
from bayplan.apiserver.responses import Answer, dump
from bayplan.apiserver.tokens import Tokens


def version_info(release: str) -> dict[str, str]:
    """Return what `kubectl version` shows as the server's version."""
    major, minor, _ = release.lstrip("v").split(".")
    return {
        "major": major,
        "minor": minor,
        "emulationMajor": major,
        "emulationMinor": minor,
        "minCompatibilityMajor": major,
        "minCompatibilityMinor": str(int(minor) - 1),
        "gitVersion": f"{release}+bayplan-{__version__}",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": f"python{platform.python_version()}",
        "platform": f"linux/{_machine()}",
    }


def _machine() -> str:
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())


class Documents:
    """Answers plain paths."""

    def __init__(self, backend: Backend, tokens: Tokens) -> None:
        self._backend = backend
        self._tokens = tokens
        self._health = health.Health(backend)
        self._discovery = Discovery(backend.registry, backend.remotes)

    async def answer(self, connection: Connection) -> Answer | None:
        """Return the document of a path, or None if there is none."""
        path = connection.path
        if path.startswith(health.PATHS):
            return await self._health.answer(path, connection.query)
        if path == "/version" or path == "/version/":
            return Answer(200, dump(version_info(self._backend.release), pretty=True))
        if path == "/" or path == "":
            return self._index(connection)
        if path.startswith("/openapi/"):
            return await self._openapi(connection)
        if path == "/openid/v1/jwks":
            return Answer(200, dump(self._tokens.key_set()), b"application/jwk-set+json")
        if path == "/.well-known/openid-configuration":
            return Answer(200, dump(self._tokens.discovery()), b"application/json")
        if path == "/metrics":
            return plain_text(200, self._metrics())
        if path.partition("/")[2].partition("/")[0] in ("api", "apis"):
            return self._discover(connection)
        return None

    def _index(self, connection: Connection) -> Answer:
        groups = self._backend.registry.group_versions()
        paths = ["/api", "/apis", *health.PATHS, "/openapi/v2", "/openapi/v3", "/version"]
        for group, versions in groups.items():
            base = f"/apis/{group}" if group else "/api"
            paths += [base, *(f"{base}/{version}" for version in versions)]
        return Answer(200, dump({"paths": sorted(set(paths))}, pretty=True))

    def _discover(self, connection: Connection) -> Answer | None:
        output = accept(connection.headers.get("accept"), forms=False, aggregated=True)
        path = connection.path.rstrip("/")
        aggregated = output.form == DISCOVERY and path in ("/api", "/apis")
        document = self._discovery.document(path, aggregated=aggregated)
        if document is None:
            if path.startswith("/apis/") and path.count("/") == 2:
                return None
            group = path.split("/")[2] if path.startswith("/apis/") else ""
            if group not in self._backend.registry.group_versions():
                return None
            raise ApiError(404, "NotFound", "the server could not find the requested resource")
        body = dump(document, output.media)
        if not aggregated:
            return Answer(200, body, output.content_type)
        etag = f'"{sha512(body).hexdigest().upper()}"'
        headers = ((b"etag", etag.encode()), (b"vary", b"Accept"), (b"cache-control", b"public"))
        if connection.headers.get("if-none-match") == etag:
            return Answer(304, b"", AGGREGATED_TYPE, headers)
        return Answer(200, body, AGGREGATED_TYPE, headers)

    async def _openapi(self, connection: Connection) -> Answer | None:
        from bayplan.apiserver import openapi

        found = await openapi.document_aside(
            self._backend.registry,
            connection.path,
            connection.headers.get("accept"),
            self._backend.remotes,
        )
        if found is None:
            return plain_text(404, "") if connection.path.startswith("/openapi/v3/") else None
        etag = f'"{found.digest}"'
        headers = ((b"etag", etag.encode()),)
        if connection.headers.get("if-none-match") == etag:
            return Answer(304, b"", found.content_type.encode(), headers)
        return Answer(200, found.body, found.content_type.encode(), headers)

    def _metrics(self) -> str:
        revision, own = self._backend.store.revision, self._backend.store.failures
        failed = self._backend.background_failures.total() + own.total()
        return (
            self._backend.metrics.text()
            + (
                "# HELP bayplan_apiserver_store_revision Newest revision of the store.\n"
                "# TYPE bayplan_apiserver_store_revision gauge\n"
                f"bayplan_apiserver_store_revision {revision}\n"
                "# HELP bayplan_apiserver_background_failures_total Work that was begun again.\n"
                "# TYPE bayplan_apiserver_background_failures_total counter\n"
                f"bayplan_apiserver_background_failures_total {failed}\n"
            )
            + self._backend.watchdog.metrics()
        )
