"""A server behind the real kube-apiserver and behind ours is treated alike.

It is reached by an ExternalName, so neither needs a network of its own. The same steps are taken on
both; what the two answered, and what the server behind them was asked, must be equal.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager

import pytest

from bayplan.testing.servers import start_embedded, start_kube
from tests.apiserver.extension import GROUP, NAMED, SERVICES, Extension
from tests.kube.operators import until
from tests.kube.twins import Connection, normal

pytestmark = pytest.mark.kube
ONE = f"{SERVICES}/v1.{GROUP}"
TIDES = f"/apis/{GROUP}/v1/namespaces/default/tides"
AGGREGATED = {"Accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}


class Behind:
    """The server behind, on a loop of its own."""

    def __init__(self, folder):
        self.extension = Extension(folder)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._run(self.extension.__aenter__())

    def _run(self, work):
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    def leave(self):
        self._run(self.extension.__aexit__())

    def close(self):
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@contextmanager
def behind(folder):
    folder.mkdir()
    started = Behind(folder)
    try:
        yield started
    finally:
        started.close()


def condition(api, reason):
    """Wait until the APIService says this; return what else it says."""

    def found():
        told = api.ask("GET", ONE)[1].get("status", {}).get("conditions") or [{}]
        return told[0] if told[0].get("reason") == reason else None

    told = until(found, reason)
    return {key: told[key] for key in ("type", "status", "reason")}


def told(api):
    """What discovery says of the group, in all its forms."""
    groups = api.ask("GET", "/apis")[1]["groups"]
    aggregated = api.ask("GET", "/apis", extra=AGGREGATED)[1]["items"]
    return {
        "group": [each for each in groups if each["name"] == GROUP],
        "aggregated": normal([e for e in aggregated if e["metadata"]["name"] == GROUP]),
        "alone": api.ask("GET", f"/apis/{GROUP}"),
        "version": api.ask("GET", f"/apis/{GROUP}/v1"),
    }


def asked(extension):
    """What the server behind was asked, without the name of who asked."""
    found = [{**each, "user": len(each["user"])} for each in extension.asked]
    extension.asked.clear()
    return found


def life(api, server):
    """Everything that is compared, in order."""
    extension = server.extension
    out = {}
    made = api.ask("POST", SERVICES, extension.service())
    out["made"] = (
        made[0],
        {k: v for k, v in made[1]["spec"].items() if k not in ("caBundle", "service")},
    )
    out["missing"] = condition(api, "ServiceNotFound"), api.ask("GET", TIDES, plain=True)
    out["named"] = api.ask("POST", NAMED, extension.named())[0]
    out["there"] = condition(api, "Passed")
    until(lambda: api.ask("GET", f"/apis/{GROUP}/v1")[0] == 200, "discovery")
    until(lambda: told(api)["aggregated"], "aggregated discovery")
    out["discovery"] = told(api)
    extension.asked.clear()
    claims = {"X-Remote-User": "eve", "X-Remote-Group": "system:masters"}
    answers = [
        api.ask(method, TIDES + rest, body, extra=claims)
        for method, rest, body in (
            ("GET", "", None),
            ("GET", "/a?x=1&x=2", None),
            ("POST", "?dryRun=All", {"kind": "Tide"}),
            ("DELETE", "/a", None),
            ("GET", "/teapot", None),
        )
    ]
    out["answers"] = [(code, {**body, "user": len(body["user"])}) for code, body in answers]
    out["another version"] = api.ask("GET", f"/apis/{GROUP}/v2/tides", plain=True)
    out["asked"] = asked(extension)
    server.leave()
    out["lost"] = condition(api, "FailedDiscoveryCheck"), api.ask("GET", TIDES, plain=True)
    out["removed"] = api.ask("DELETE", ONE)[0]
    until(lambda: api.ask("GET", TIDES, plain=True)[0] == 404, "the end of the group")
    out["gone"] = [each for each in api.ask("GET", "/apis")[1]["groups"] if each["name"] == GROUP]
    return out


@pytest.mark.timeout(300)
def test_a_server_behind_both_sees_and_is_seen_alike(tmp_path):
    lives = []
    for name, start in (("real", start_kube), ("ours", start_embedded)):
        (tmp_path / name).mkdir()
        with start(tmp_path / name) as cluster, behind(tmp_path / f"{name}-behind") as server:
            api = Connection(cluster)
            lives.append(life(api, server))
            api.close()
    real, ours = lives
    assert {} == {part: (real[part], ours[part]) for part in real if real[part] != ours[part]}
