"""The real kube-apiserver and ours, asked the same things over kept connections."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from bayplan.testing.servers import ServedCluster, start_embedded, start_kube

Json = Any
# What two servers never share, and what each run makes anew.
VOLATILE = ("uid", "resourceVersion", "creationTimestamp", "selfLink")
MEDIA = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}


class Connection:
    """One kept connection to an API server."""

    def __init__(self, cluster: ServedCluster) -> None:
        parts = urlsplit(cluster.server)
        assert parts.hostname is not None
        if parts.scheme == "https":
            context = ssl._create_unverified_context()
            self._http: http.client.HTTPConnection = http.client.HTTPSConnection(
                parts.hostname, parts.port, context=context, timeout=60
            )
        else:
            self._http = http.client.HTTPConnection(parts.hostname, parts.port, timeout=60)
        self._token = cluster.token

    def ask(
        self,
        method: str,
        path: str,
        body: Json = None,
        media: str = "application/json",
        extra: dict[str, str] | None = None,
        *,
        plain: bool = False,
    ) -> tuple[int, Json]:
        """Send one request; return the status and the answer, decoded unless `plain`."""
        headers = {"Content-Type": media, **(extra or {})}
        data = None if body is None else json.dumps(body).encode()
        answer = self.open(method, path, data, headers)
        text = answer.read()
        return answer.status, text if plain else json.loads(text)

    def open(
        self,
        method: str,
        path: str,
        data: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> http.client.HTTPResponse:
        """Send one request; return the answer as soon as it begins."""
        allowed = {"Authorization": f"Bearer {self._token}", **(headers or {})}
        self._http.request(method, path, data, allowed)
        return self._http.getresponse()

    def patch(self, kind: str, path: str, body: Json, query: str = "") -> tuple[int, Json]:
        return self.ask("PATCH", path + query, body, MEDIA[kind])

    def close(self) -> None:
        self._http.close()


def normal(value: Json) -> Json:
    """An object without what two servers do not share, null lists, and times of managers."""
    if isinstance(value, dict):
        return {
            key: normal(item)
            for key, item in value.items()
            if (item is not None or key.endswith(("Time", "Timestamp", "At")))
            and key not in VOLATILE
            and not (key == "time" and "fieldsType" in value)
        }
    if isinstance(value, list):
        return [normal(item) for item in value]
    return value


def managers(obj: Json) -> list[Json]:
    """managedFields in an order that does not depend on the second they were written in."""
    entries = normal(obj["metadata"].get("managedFields", []))
    return sorted(entries, key=lambda e: (e["operation"], e["manager"], e.get("subresource", "")))


def without_managers(obj: Json) -> Json:
    shown = normal(obj)
    shown["metadata"].pop("managedFields", None)
    return shown


@contextmanager
def guarded_twins(prepare: Callable[[Connection], None]) -> Iterator[tuple[Connection, Connection]]:
    """Both servers with RBAC, each prepared alike."""
    with (
        start_kube(authorization="RBAC") as kube,
        start_embedded(None, "--authorization-mode=RBAC") as ours,
    ):
        both = Connection(kube), Connection(ours)
        for each in both:
            prepare(each)
        yield both
        for each in both:
            each.close()
