"""Evictions and budgets: one disruption is spent once, by budgets that are up to date."""

import asyncio

import pytest

from bayplan.apiserver.errors import ApiError
from bayplan.apiserver.subresources import eviction
from bayplan.store import Conflict
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


@pytest.mark.parametrize(
    ("policy", "status", "may"),
    [
        pytest.param("AlwaysAllow", {}, True, id="always"),
        pytest.param("", {"currentHealthy": 1, "desiredHealthy": 1}, True, id="enough are healthy"),
        pytest.param("", {"currentHealthy": 2, "desiredHealthy": 3}, False, id="too few are"),
        pytest.param("", {"currentHealthy": 2, "desiredHealthy": 0}, False, id="none are wanted"),
        pytest.param("", {"desiredHealthy": 1}, False, id="none is known to be healthy"),
        pytest.param("", {"currentHealthy": 1}, False, id="none is known to be wanted"),
        pytest.param("", None, False, id="nothing is known"),
    ],
)
def test_when_a_budget_lets_a_pod_go_that_is_not_ready(policy, status, may):
    budget = {"spec": {"unhealthyPodEvictionPolicy": policy}, "status": status}

    assert may is eviction._may_go_unready(budget)


@pytest.mark.parametrize(
    ("selector", "labels", "guards"),
    [
        pytest.param(None, {"a": "b"}, False, id="no selector"),
        pytest.param({}, None, True, id="an empty one is for all"),
        pytest.param({"matchLabels": {"a": "b"}}, {"a": "b"}, True, id="it matches"),
        pytest.param({"matchLabels": {"a": "b"}}, {"a": "c"}, False, id="it does not"),
        pytest.param({"matchExpressions": [{"key": "a", "operator": "?"}]}, {}, False, id="broken"),
        pytest.param({"matchLabels": 7}, {}, False, id="no selector at all"),
    ],
)
def test_whom_a_budget_guards(selector, labels, guards):
    pod_ = {"metadata": {"labels": labels}}

    assert guards is eviction._guards({"spec": {"selector": selector}}, pod_)


def budget(generation=1, **status):
    return {"metadata": {"name": "guard", "generation": generation}, "status": status}


@pytest.mark.parametrize(
    ("given", "code", "seconds", "text"),
    [
        pytest.param(
            budget(2, observedGeneration=1, disruptionsAllowed=1),
            429,
            10,
            "The disruption budget guard is still being processed by the server.",
            id="not observed",
        ),
        pytest.param(
            budget(observedGeneration=1, disruptionsAllowed=-1),
            403,
            None,
            "pdb disruptions allowed is negative",
            id="less than none",
        ),
        pytest.param(
            budget(
                observedGeneration=1,
                disruptionsAllowed=1,
                disruptedPods=dict.fromkeys(map(str, range(2001))),
            ),
            403,
            None,
            "DisruptedPods map too big",
            id="too many under way",
        ),
        pytest.param(
            budget(observedGeneration=1, desiredHealthy=2, currentHealthy=2),
            429,
            None,
            "The disruption budget guard needs 2 healthy pods and has 2 currently",
            id="none to spare",
        ),
        pytest.param(
            budget(observedGeneration=1, desiredHealthy=1, currentHealthy=2),
            429,
            None,
            "The disruption budget guard does not allow evicting pods currently",
            id="none allowed all the same",
        ),
        pytest.param(
            budget(observedGeneration=1),
            429,
            None,
            "The disruption budget guard needs 0 healthy pods and has 0 currently",
            id="nothing known",
        ),
    ],
)
def test_why_a_budget_refuses(given, code, seconds, text):
    with pytest.raises(ApiError) as problem:
        eviction._check(given)

    details = problem.value.details or {}
    causes = details.get("causes") or [{"message": str(problem.value)}]
    assert (code, seconds) == (problem.value.code, details.get("retryAfterSeconds"))
    assert text in causes[0]["message"]
    assert bool(seconds) == bool(problem.value.headers)


def test_as_many_as_are_allowed_may_be_under_way():
    many = dict.fromkeys(map(str, range(2000)))

    eviction._check(budget(observedGeneration=1, disruptionsAllowed=1, disruptedPods=many))


@pytest.mark.parametrize(
    ("condition", "healthy", "tail"),
    [
        pytest.param(
            {"status": "False", "reason": "SyncFailed", "message": "no scale"},
            0,
            "does not allow evicting pods currently because it failed sync: no scale",
            id="not in step",
        ),
        pytest.param(
            {"status": "True", "reason": "SyncFailed", "message": "no scale"},
            0,
            "needs 1 healthy pods and has 0 currently",
            id="in step again",
        ),
        pytest.param(
            {"status": "False", "reason": "SyncFailed", "message": ""},
            0,
            "needs 1 healthy pods and has 0 currently",
            id="without a word",
        ),
        pytest.param(
            {"status": "False", "reason": "Other", "message": "why"},
            2,
            "does not allow evicting pods currently (Other): why",
            id="for another reason",
        ),
        pytest.param(
            {"type": "Else", "status": "False", "reason": "Other", "message": "why"},
            2,
            "does not allow evicting pods currently",
            id="another condition",
        ),
    ],
)
def test_what_the_condition_of_a_budget_says_is_told(condition, healthy, tail):
    status = {
        "desiredHealthy": 1,
        "currentHealthy": healthy,
        "conditions": [{"type": "DisruptionAllowed", **condition}],
    }

    assert f"The disruption budget guard {tail}" == eviction._why_not("guard", status)


async def test_who_spends_the_last_disruption_says_so_in_the_budget(api):
    await guarded(api, allowed=2)

    await evict(api, "a")
    first = (await api.ok("GET", f"{BUDGETS}/guard"))["status"].get("conditions")
    await evict(api, "b")
    (second,) = (await api.ok("GET", f"{BUDGETS}/guard"))["status"]["conditions"]

    assert not first
    assert ("DisruptionAllowed", "False", "InsufficientPods", 1) == (
        second["type"],
        second["status"],
        second["reason"],
        second["observedGeneration"],
    )
    assert second["lastTransitionTime"]


async def test_a_budget_that_others_keep_changing_ends_in_a_timeout(api):
    await guarded(api, allowed=1)
    put, tried = api.server.store.put, []

    async def refused(key, value, **more):
        if "poddisruptionbudgets" in key:
            tried.append(key)
            raise Conflict(key, None, 2)
        return await put(key, value, **more)

    api.server.store.put = refused
    answer = await evict(api, "a")

    assert (504, "Timeout", eviction.ATTEMPTS) == (
        answer.status,
        answer.body["reason"],
        len(tried),
    )
    assert 'couldn\'t update PodDisruptionBudget "guard" due to conflicts' in answer.body["message"]
    await api.ok("GET", f"{PODS}/a")


async def test_a_pod_that_others_keep_changing_is_a_conflict(api):
    await guarded(api, allowed=1)
    put = api.server.store.put

    async def refused(key, value, **more):
        if key.endswith("/a"):
            raise Conflict(key, None, 2)
        return await put(key, value, **more)

    api.server.store.put = refused

    assert 409 == (await evict(api, "a")).status


async def test_a_pod_that_became_ready_meanwhile_does_not_go_without_a_disruption(api):
    """It may go because it is not ready; what is deleted must be the pod that was looked at."""
    await guarded(api, allowed=0)
    await becomes(api, "a")
    must_get, reads = api.server.backend.must_get, []

    async def later(codec, namespace, name):
        found = await must_get(codec, namespace, name)
        if name == "a":
            reads.append(name)
            if len(reads) == 1:
                await becomes(api, "a", ready="True")
        return found

    api.server.backend.must_get = later
    answer = await evict(api, "a")

    assert (429, "10") == (answer.status, answer.headers.get("retry-after"))
    assert "guard is still being processed" in answer.body["details"]["causes"][0]["message"]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        pytest.param({"metadata": {"name": "b"}}, "name in URL does not match", id="another name"),
        pytest.param({"metadata": None}, "name in URL does not match", id="no name"),
        pytest.param(
            {"deleteOptions": {"gracePeriodSeconds": "x"}},
            "cannot unmarshal string into Go struct field",
            id="options of another form",
        ),
    ],
)
async def test_evictions_that_are_not_for_this_pod_or_not_readable(api, change, text):
    await guarded(api, allowed=1)

    answer = await evict(api, "a", **change)

    assert 400 == answer.status
    assert text in answer.body["message"]
