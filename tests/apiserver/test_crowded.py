"""What others have stored by the thousand keeps nobody's request on the event loop."""

import json

import pytest

from tests.apiserver.api import PODS, pod
from tests.apiserver.steps import MOST
from tests.apiserver.test_steps import SERVICES, longest_step

QUOTAS = "/api/v1/namespaces/default/resourcequotas"
HARD = {"pods": "100k", "requests.cpu": "100k"}


async def multiply(api, key, count, *changes):
    """Store an object many times, each with what is changed for a number."""
    stored = await api.server.store.get(key)
    for n in range(count):
        value = stored.value
        for old, new in changes:
            value = value.replace(old, new(n))
        await api.server.store.put(f"{key}{n:05}", value)


def named(name):
    return b'"name":"%s"' % name, lambda n: b'"name":"%s%05d"' % (name, n)


def asking(name):
    made = pod(name)
    made["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1", "memory": "1Gi"}}
    return made


@pytest.fixture
async def with_quota(api):
    made = await api.ok("POST", QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": HARD}})
    await api.ok("PUT", f"{QUOTAS}/q/status", made | {"status": {"hard": HARD}})
    return api


async def test_a_quota_over_thousands_of_pods_is_counted_with_pauses(with_quota):
    api = with_quota
    await api.ok("POST", PODS, asking("p"))
    await multiply(api, "core/pods/default/p", 3000, named(b"p"))

    took = [await step(api, PODS, asking(f"new{n}")) for n in range(2)]

    assert max(took) < MOST, "also the first one, which counts them all"


async def test_a_quota_counts_what_comes_and_goes(with_quota):
    api = with_quota
    few = {"status": {"hard": {"requests.cpu": "3"}}}
    await api.ok("PATCH", f"{QUOTAS}/q/status", few)

    statuses = [(await api.call("POST", PODS, asking(f"p{n}"))).status for n in range(4)]
    await api.ok("DELETE", f"{PODS}/p1")
    statuses += [(await api.call("POST", PODS, asking(f"q{n}"))).status for n in range(2)]
    done = await api.ok("GET", f"{PODS}/p0") | {"status": {"phase": "Succeeded"}}
    await api.ok("PUT", f"{PODS}/p0/status", done)
    statuses += [(await api.call("POST", PODS, asking(f"r{n}"))).status for n in range(2)]

    assert [201, 201, 201, 403, 201, 403, 201, 403] == statuses


async def test_thousands_of_services_are_looked_through_with_pauses(api):
    made = await api.ok("POST", SERVICES, service("s"))
    address = made["spec"]["clusterIP"].encode()
    other = lambda n: b"10.96.%d.%d" % (40 + n // 250, 1 + n % 250)  # noqa: E731
    await multiply(api, "core/services/default/s", 8000, named(b"s"), (address, other))

    took = [await step(api, SERVICES, service("new", type="NodePort"))]
    took.append(await step(api, SERVICES, service("asking", clusterIP="10.96.20.1")))

    assert max(took) < MOST
    refused = await api.call("POST", SERVICES, service("again", clusterIP="10.96.70.250"))
    assert (422, True) == (refused.status, "already allocated" in refused.body["message"])


def service(name, **spec):
    return {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], **spec}}


async def step(api, path, obj):
    return await longest_step(api, "POST", path, json.dumps(obj).encode(), {})


@pytest.mark.parametrize(
    ("hard", "scopes", "statuses"),
    [
        pytest.param({"count/pods": "1"}, [], [201, 403], id="objects: also those that are done"),
        pytest.param({"pods": "1"}, [], [201, 201], id="pods: those that run"),
        pytest.param({"pods": "0"}, ["BestEffort"], [403, 403], id="no cpu is best effort"),
    ],
)
async def test_a_quota_counts_pods_as_upstream(api, hard, scopes, statuses):
    quota = {"metadata": {"name": "q"}, "spec": {"hard": hard, "scopes": scopes}}
    made = await api.ok("POST", QUOTAS, quota)
    await api.ok("PUT", f"{QUOTAS}/q/status", made | {"status": {"hard": hard}})
    found = []
    for name in ("a", "b"):
        sent = asking(name)
        sent["spec"]["containers"][0]["resources"] = {
            "requests": {"cpu": "0", "ephemeral-storage": "1"}
        }
        answer = await api.call("POST", PODS, sent)
        found.append(answer.status)
        if answer.status == 201:
            done = answer.body | {"status": {"phase": "Succeeded"}}
            await api.ok("PUT", f"{PODS}/{name}/status", done)

    assert statuses == found
