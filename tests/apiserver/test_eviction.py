"""Evictions and budgets: one disruption is spent once, by budgets that are up to date."""

import asyncio

from tests.apiserver.api import PODS, pod

BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"


async def guarded(api, *, allowed, observed=1):
    """Three running, ready pods behind a budget that allows some disruptions."""
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    await api.ok("POST", BUDGETS, {"metadata": {"name": "guard"}, "spec": spec})
    status = {
        "disruptionsAllowed": allowed,
        "observedGeneration": observed,
        "currentHealthy": 3,
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


async def evict(api, name):
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    return await api.call("POST", f"{PODS}/{name}/eviction", body)


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
