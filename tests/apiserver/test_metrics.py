"""What the server tells of itself: metrics under upstream's names, health that was looked at."""

import gzip
import re

import pytest

from bayplan.apiserver.metrics import BUCKETS, Metrics, TimedStore
from bayplan.apiserver.protobuf import decode
from bayplan.store import StoreError
from bayplan.store.memory import MemoryStore
from tests.apiserver.api import CONFIGMAPS, configmap

LINE = re.compile(r'(\w+)(?:\{((?:\w+="[^"]*",?)*)\})? ([0-9.e+-]+|\+Inf)$')
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def parsed(text):
    """Every sample as (name, labels) and its value; a line that is none fails."""
    found = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            name, labels, value = LINE.match(line).groups()
            pairs = tuple(re.findall(r'(\w+)="([^"]*)"', labels or ""))
            found[name, pairs] = float(value)
    return found


async def metrics(api):
    return parsed((await api.call("GET", "/metrics")).raw.decode())


def about(found, name, **labels):
    """The sum of a metric over all series that have these labels."""
    wanted = set(labels.items())
    return sum(value for (n, pairs), value in found.items() if n == name and wanted <= set(pairs))


async def test_requests_are_counted_by_what_was_asked(api):
    await api.ok("POST", CONFIGMAPS, configmap("a"))
    await api.ok("POST", f"{CONFIGMAPS}?dryRun=All", configmap("b"))
    await api.ok("GET", f"{CONFIGMAPS}/a")
    await api.ok("GET", CONFIGMAPS)
    await api.ok("GET", "/api/v1/configmaps")
    await api.call("GET", f"{CONFIGMAPS}/absent")
    await api.call("GET", f"{CONFIGMAPS}/a/invented")
    found = await metrics(api)

    name, kind = "apiserver_request_total", {"resource": "configmaps", "version": "v1"}
    assert 1 == about(found, name, verb="POST", code="201", dry_run="", scope="resource", **kind)
    assert 1 == about(found, name, verb="POST", dry_run="All", **kind)
    assert 1 == about(found, name, verb="GET", code="200", scope="resource", **kind)
    assert 1 == about(found, name, verb="LIST", scope="namespace", **kind)
    assert 1 == about(found, name, verb="LIST", scope="cluster", **kind)
    assert 2 == about(found, name, code="404", **kind)
    assert "invented" not in str(found)
    seconds = "apiserver_request_duration_seconds"
    assert 7 == about(found, f"{seconds}_count", **kind)
    assert 7 == about(found, f"{seconds}_bucket", le="+Inf", **kind)
    assert len(BUCKETS) + 1 == len({dict(p)["le"] for n, p in found if n == f"{seconds}_bucket"})


async def test_watches_and_their_events(api):
    stream = await api.watch(f"{CONFIGMAPS}?watch=1&resourceVersion=0")
    await api.ok("POST", CONFIGMAPS, configmap("a"))
    await stream.until(1)
    open_ = await metrics(api)
    await stream.leave()
    closed = await metrics(api)

    name = "apiserver_longrunning_requests"
    assert 1 == about(open_, name, resource="configmaps", verb="WATCH", scope="namespace")
    assert 0 == about(closed, name, resource="configmaps", verb="WATCH")
    events = "apiserver_watch_events_total"
    assert len(stream.events()) == about(closed, events, resource="configmaps", version="v1")
    assert 1 == about(closed, "apiserver_request_total", verb="WATCH", code="200")


async def test_the_store_is_timed_by_kind():
    counted = Metrics()
    store = TimedStore(MemoryStore(), counted)
    kv = await store.put("core/pods/default/a", b"{}", expect=0)
    await store.put("core/pods/default/a", b"{}", expect=kv.mod_revision)
    await store.get("core/pods/default/a")
    await store.range("apps/deployments/")
    await store.delete("core/pods/default/a")
    await store.close()
    found = parsed(counted.text())

    for operation in ("create", "update", "get", "delete"):
        assert 1 == about(found, "etcd_requests_total", operation=operation, resource="pods")
    name = "etcd_request_duration_seconds_count"
    assert 1 == about(found, name, operation="list", group="apps", resource="deployments")


def test_inflight_is_the_most_since_the_last_reading():
    counted = Metrics()
    for reading in (True, True, False):
        counted.enter(reading)
    counted.leave(True)
    counted.leave(True)
    name = "apiserver_current_inflight_requests"

    first, second = parsed(counted.text()), parsed(counted.text())

    assert (2, 1) == tuple(about(first, name, request_kind=k) for k in ("readOnly", "mutating"))
    assert (0, 1) == tuple(about(second, name, request_kind=k) for k in ("readOnly", "mutating"))


# -- health --------------------------------------------------------------------------------------


class Broken(MemoryStore):
    async def check(self):
        raise StoreError("the disk is gone")


async def test_readiness_lists_what_was_looked_at(api):
    ready = await api.call("GET", "/readyz?verbose")
    without = await api.call("GET", "/readyz?verbose&exclude=etcd")
    alive = await api.call("GET", "/livez?verbose")

    expected = "[+]ping ok\n[+]etcd ok\n[+]informer-sync ok\n[+]shutdown ok\nreadyz check passed\n"
    assert (200, expected) == (ready.status, ready.raw.decode())
    assert expected.replace("etcd ok", "etcd excluded: ok") == without.raw.decode()
    assert b"[+]ping ok\nlivez check passed\n" == alive.raw
    assert 404 == (await api.call("GET", "/readyz/unheard-of")).status


async def test_a_server_without_its_store_lives_but_is_not_ready(api, monkeypatch):
    broken = Broken()
    monkeypatch.setattr(api.server.backend.store, "check", broken.check)
    ready, alive = await api.call("GET", "/readyz"), await api.call("GET", "/livez")
    excluded = await api.call("GET", "/readyz?exclude=etcd")

    assert 500 == ready.status
    assert b"[-]etcd failed: reason withheld\n" in ready.raw
    assert [200, 200] == [alive.status, excluded.status]


async def test_a_server_that_ends_is_not_ready(api):
    api.server.end_watches()

    answer = await api.call("GET", "/readyz")

    assert 500 == answer.status
    assert b"[-]shutdown failed" in answer.raw


# -- discovery and compression -------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/api", "/apis"])
async def test_discovery_that_has_not_changed_is_not_sent_again(api, path):
    first = await api.call("GET", path, headers={"accept": AGGREGATED})
    known = {"accept": AGGREGATED, "if-none-match": first.headers["etag"]}
    again = await api.call("GET", path, headers=known)
    other = await api.call("GET", path, headers={**known, "if-none-match": '"other"'})

    assert ("public", "Accept") == (first.headers["cache-control"], first.headers["vary"])
    assert (304, b"") == (again.status, again.raw)
    assert (200, first.raw) == (other.status, other.raw)


@pytest.mark.parametrize("media", ["application/json", "application/vnd.kubernetes.protobuf"])
async def test_long_lists_are_compressed_for_who_accepts_it(api, media):
    for number in range(510):
        await api.ok("POST", CONFIGMAPS, configmap(f"c{number}"))
    plain = await api.call("GET", CONFIGMAPS, headers={"accept": media})
    packed = await api.call("GET", CONFIGMAPS, headers={"accept": media, "accept-encoding": "gzip"})

    assert "gzip" == packed.headers["content-encoding"]
    assert plain.raw == gzip.decompress(packed.raw)
    assert len(packed.raw) < len(plain.raw) / 2
    if media.endswith("protobuf"):
        assert 510 == len(decode(plain.raw)["items"])


async def test_a_timed_store_is_still_read_without_a_coroutine():
    timed = TimedStore(MemoryStore(), Metrics())
    written = await timed.put("a/b", b"1")

    assert written == timed.get_now("a/b")
    await timed.close()
