"""Scenarios in Python: creating, waiting, expecting, breaking."""

import pytest

from bayplan.sim import ScenarioClient, Settings, SimulatedExtender, run_scenario
from bayplan.sim.objects import seconds


def test_a_scenario_places_pods_and_tells_where():
    async def scenario(client: ScenarioClient) -> None:
        await client.nodes(3, zones=["a", "b", "c"])
        await client.pods(6, "web", labels={"app": "web"}, cpu="500m")
        await client.expect.count("app=web", bound=6)
        await client.expect.spread("app=web", most=2)
        await client.expect.spread("app=web", by="zone", exactly={"a": 2, "b": 2, "c": 2})
        assert await client.wait_until_bound("web0")

    result = run_scenario(scenario)

    assert [] == result.failures
    assert 6 == len(result.placements)
    assert all(result.placements.values())
    assert 3 == len(result.outcomes)


def test_hours_pass_in_no_time_and_pods_end():
    async def scenario(client: ScenarioClient) -> None:
        await client.nodes(1)
        await client.pod("job", lifetime=3600)
        await client.sleep("2h")
        await client.expect.phase("job", "Succeeded", within=0)

    result = run_scenario(scenario)

    assert result.ok, result.problems()
    assert result.seconds >= 7200


def test_a_failed_expectation_says_what_was_seen_instead():
    async def scenario(client: ScenarioClient) -> None:
        await client.nodes(2, cpu="1")
        await client.pod("big", cpu="8")
        await client.expect.bound("big", to="node0", within=5)

    result = run_scenario(scenario)

    assert 1 == len(result.failures)
    assert (
        "expected pod default/big bound to node0; seen instead: pending because"
        in (result.failures[0])
    )
    assert "0/2 nodes are available: 2 Insufficient cpu" in result.failures[0]


def test_an_expectation_may_be_a_function_of_ones_own():
    async def scenario(client: ScenarioClient) -> None:
        await client.expect.that("all is well", lambda: "")
        await client.expect.that("a miracle", lambda: "none", within=1)

    result = run_scenario(scenario)

    assert not result.ok
    assert "expected a miracle; seen instead: none" in result.problems()


def test_a_scenario_that_never_ends_is_stopped_at_its_limit():
    async def scenario(client: ScenarioClient) -> None:
        await client.pod("lonely")
        while True:
            await client.sleep(10)

    result = run_scenario(scenario, limit=60)

    assert ["stopped at its limit of 60 s: sleeping 10"] == result.failures


def test_waiting_in_vain_says_why():
    async def scenario(client: ScenarioClient) -> None:
        await client.pod("lonely")
        await client.wait_until_bound("lonely", timeout=5)

    result = run_scenario(scenario)

    assert 1 == len(result.failures)
    assert "no nodes available to schedule pods" in result.failures[0]


def test_a_lost_node_loses_its_pods():
    async def scenario(client: ScenarioClient) -> None:
        await client.nodes(2)
        await client.create(DEPLOYMENT)
        await client.expect.count("app=web", running=4)
        await client.faults.lose_node("node0")
        await client.expect.node("node0", ready=False, within=60)
        await client.expect.spread("app=web", exactly={"node0": 2, "node1": 4}, within=600)
        await client.faults.bring_back("node0")
        await client.expect.count("app=web", running=4, within=60)

    result = run_scenario(scenario)

    assert result.ok, result.problems()


def test_nothing_is_lost_when_requests_fail():
    async def scenario(client: ScenarioClient) -> None:
        await client.nodes(4)
        client.faults.api_errors(0.3)
        await client.pods(40, cpu="100m")
        await client.expect.count("*", bound=40, within=300)

    result = run_scenario(scenario, seed=3)

    assert result.ok, result.problems()


def test_a_slow_api_takes_its_time():
    async def scenario(client: ScenarioClient) -> None:
        await client.nodes(1)
        client.faults.slow_api(2.0)
        await client.pod("late")
        await client.expect.pending("late", hold=1.5)
        await client.expect.bound("late", within=1.0)

    result = run_scenario(scenario)

    assert result.ok, result.problems()


@pytest.mark.parametrize(("ignorable", "bound"), [(True, True), (False, False)])
def test_an_extender_that_is_too_slow_fails_unless_ignorable(ignorable, bound):
    async def scenario(client: ScenarioClient) -> None:
        await client.nodes(2)
        await client.pod("first")
        await client.expect.bound("first", to="node1", within=0.5)
        client.faults.slow_extender(3.0)
        await client.pod("second")
        await client.expect.pending("second", hold=2.0)
        await client.expect.bound("second", to="node1", within=2.0)
        client.faults.slow_extender(30.0)
        await client.pod("third")
        if bound:
            await client.expect.bound("third")
        else:
            await client.expect.pending("third", "no answer in 5 s", within=20)

    extender = SimulatedExtender(
        "picky", filter=lambda pod, node: "not mine" * (node.name != "node1"), ignorable=ignorable
    )
    result = run_scenario(scenario, settings=Settings(extenders=(extender,)))

    assert result.ok, result.problems()
    assert extender.calls >= 3


def test_a_restarted_scheduler_goes_on():
    async def scenario(client: ScenarioClient) -> None:
        await client.nodes(1, cpu="2")
        await client.pods(2, cpu="1")
        await client.expect.count("*", bound=2)
        await client.faults.restart_scheduler(down=5)
        await client.pod("more", cpu="1")
        await client.expect.pending("more", "Insufficient cpu")
        await client.delete("Pod", "pod0")
        await client.expect.bound("more")

    result = run_scenario(scenario)

    assert result.ok, result.problems()


def test_a_scheduler_without_its_lease_decides_nothing():
    async def scenario(client: ScenarioClient) -> None:
        await client.nodes(1)
        await client.pod("before")
        await client.expect.bound("before")
        await client.faults.lose_lease(30)
        await client.sleep(15)
        await client.pod("during")
        await client.expect.pending("during", hold=10)
        await client.expect.bound("during", within=60)

    result = run_scenario(scenario, settings=Settings(elect=True))

    assert result.ok, result.problems()


def test_drain_honours_budgets():
    async def scenario(client: ScenarioClient) -> None:
        await client.nodes(2)
        await client.create(DEPLOYMENT, BUDGET)
        await client.expect.count("app=web", running=4)
        await client.drain("node0")
        await client.expect.spread("app=web", exactly={"node1": 4}, within=60)
        await client.expect.evicted("app=web", "EvictionByEvictionAPI")

    result = run_scenario(scenario)

    assert result.ok, result.problems()


@pytest.mark.parametrize(
    ("text", "value"),
    [(90, 90.0), ("1.5s", 1.5), ("250ms", 0.25), ("1h30m", 5400.0), ("2d", 172800.0)],
)
def test_durations(text, value):
    assert value == seconds(text)


DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 4
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: main, image: web, resources: {requests: {cpu: 100m}}}]
"""
BUDGET = """
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec:
  minAvailable: 3
  selector: {matchLabels: {app: web}}
"""
