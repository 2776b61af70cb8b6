"""Evictions and budgets: one disruption is spent once, by budgets that are up to date."""

import asyncio

import pytest

from tests.apiserver.api import PODS, pod

BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"


async def guarded(api, *, allowed, observed=1, healthy=3, **more):
    """Three running, ready pods behind a budget that allows some disruptions."""
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}, **more}
    await api.ok("POST", BUDGETS, {"metadata": {"name": "guard"}, "spec": spec})
    status = {
        "disruptionsAllowed": allowed,
        "observedGeneration": observed,
        "currentHealthy": healthy,
        "desiredHealthy": 1,
        "expectedPods": 3,
    }
    await api.ok("PATCH", f"{BUDGETS}/guard/status", {"status": status})
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    for name in ("a", "b", "c"):
        body = pod(name, nodeName="n")
        body["metadata"]["labels"] = {"app": "web"}
        await api.ok("POST", PODS, body)
        await api.ok("PATCH", f"{PODS}/{name}/status", {"status": ready})


async def evict(api, name, **options):
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    return await api.call("POST", f"{PODS}/{name}/eviction", body | options)


async def becomes(api, name, phase="Running", ready="False"):
    status = {"phase": phase, "conditions": [{"type": "Ready", "status": ready}]}
    await api.ok("PATCH", f"{PODS}/{name}/status", {"status": status})


async def disruptions(api):
    return (await api.ok("GET", f"{BUDGETS}/guard"))["status"]["disruptionsAllowed"]


async def test_evictions_at_once_spend_each_disruption_once(api):
    await guarded(api, allowed=2)
    store, put, raced = api.server.store, api.server.store.put, []

    async def slow_put(key, value, **more):
        # Both have read the budget before either writes it.
        if "poddisruptionbudgets" in key and len(raced) < 2:
            raced.append(key)
            while len(raced) < 2:
                await asyncio.sleep(0)
        return await put(key, value, **more)

    store.put = slow_put
    first, second = await asyncio.gather(evict(api, "a"), evict(api, "b"))
    third = await evict(api, "c")

    budget = await api.ok("GET", f"{BUDGETS}/guard")
    assert (201, 201, 429) == (first.status, second.status, third.status)
    assert 0 == budget["status"]["disruptionsAllowed"]
    assert {"a", "b"} == set(budget["status"]["disruptedPods"])


async def test_a_budget_that_nobody_has_observed_since_it_changed_allows_nothing(api):
    await guarded(api, allowed=1)
    await api.ok("PATCH", f"{BUDGETS}/guard", {"spec": {"minAvailable": 3}})

    answer = await evict(api, "a")

    assert (429, "10") == (answer.status, answer.headers.get("retry-after"))
    assert "still being processed" in answer.body["details"]["causes"][0]["message"]
    await api.ok("GET", f"{PODS}/a")


@pytest.mark.parametrize("phase", ["Succeeded", "Failed", "Pending"])
async def test_a_pod_that_does_not_run_needs_no_disruption(api, phase):
    await guarded(api, allowed=0)
    await becomes(api, "a", phase, ready="True")

    assert 201 == (await evict(api, "a")).status
    assert 429 == (await evict(api, "b")).status


@pytest.mark.parametrize(
    ("policy", "healthy", "status"),
    [
        pytest.param({"unhealthyPodEvictionPolicy": "AlwaysAllow"}, 0, 201, id="always"),
        pytest.param({"unhealthyPodEvictionPolicy": "IfHealthyBudget"}, 1, 201, id="enough"),
        pytest.param({"unhealthyPodEvictionPolicy": "IfHealthyBudget"}, 0, 429, id="too few"),
        pytest.param({}, 1, 201, id="by default, enough"),
        pytest.param({}, 0, 429, id="by default, too few"),
    ],
)
async def test_a_pod_that_is_not_ready_goes_as_the_policy_says(api, policy, healthy, status):
    await guarded(api, allowed=0, healthy=healthy, **policy)
    await becomes(api, "a")

    assert status == (await evict(api, "a")).status
    assert 429 == (await evict(api, "b")).status, "a ready one needs a disruption"
    assert 0 == await disruptions(api)


async def test_two_budgets_of_one_pod_are_refused(api):
    await guarded(api, allowed=1)
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    await api.ok("POST", BUDGETS, {"metadata": {"name": "other"}, "spec": spec})

    answer = await evict(api, "a")

    assert 500 == answer.status
    assert "more than one PodDisruptionBudget" in answer.body["message"]


async def test_a_dry_run_spends_nothing(api):
    await guarded(api, allowed=1)

    assert 201 == (await evict(api, "a", deleteOptions={"dryRun": ["All"]})).status
    assert 1 == await disruptions(api)
    assert "conditions" in (await api.ok("GET", f"{PODS}/a"))["status"]


async def test_an_evicted_pod_says_why_it_goes(api):
    body = pod("a", nodeName="n")
    body["metadata"]["finalizers"] = ["example.com/stay"]
    await api.ok("POST", PODS, body)

    assert 201 == (await evict(api, "a")).status

    left = await api.ok("GET", f"{PODS}/a")
    (why,) = [c for c in left["status"]["conditions"] if c["type"] == "DisruptionTarget"]
    assert ("EvictionByEvictionAPI", "True") == (why["reason"], why["status"])
    assert left["metadata"]["deletionTimestamp"]


@pytest.mark.parametrize(
    ("given", "status"),
    [({"uid": "another"}, 409), ({"resourceVersion": "1"}, 409), ({}, 201)],
    ids=["uid", "version", "none"],
)
async def test_preconditions_of_an_eviction_count(api, given, status):
    await api.ok("POST", PODS, pod("a", nodeName="n"))

    assert status == (await evict(api, "a", deleteOptions={"preconditions": given})).status
