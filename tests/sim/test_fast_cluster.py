"""Writes of the fast lane leave what the API server would leave."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from bayplan.api.patch import apply_strategic_merge
from bayplan.api.schema import type_for
from bayplan.client import Resource
from bayplan.client.resources import CONFIG_MAPS
from bayplan.sim import ScenarioClient, run_scenario
from bayplan.sim.fast.cluster import with_report
from bayplan.sim.fast.world import FastWorld

TYPES = ("PodScheduled", "Initialized", "Ready", "DisruptionTarget")
conditions = st.lists(
    st.builds(
        lambda type_, status: {"type": type_, "status": status},
        st.sampled_from(TYPES),
        st.sampled_from(["True", "False"]),
    ),
    unique_by=lambda condition: condition["type"],
    max_size=4,
)
addresses = st.lists(
    st.builds(lambda end: {"ip": f"10.0.0.{end}"}, st.integers(1, 3)),
    unique_by=lambda address: address["ip"],
    max_size=2,
)
containers = st.lists(
    st.builds(lambda ready: {"name": "c", "ready": ready, "state": {}}, st.booleans()), max_size=1
)
statuses = st.fixed_dictionaries(
    {},
    optional={
        "phase": st.sampled_from(["Pending", "Running"]),
        "conditions": conditions,
        "podIPs": addresses,
        "hostIPs": addresses,
        "containerStatuses": containers,
    },
)


@given(statuses, statuses)
def test_a_report_is_merged_as_a_strategic_patch_would(status, report):
    before = {"status": status}
    patched = apply_strategic_merge(before, {"status": report}, type_for("v1", "Pod"))

    merged = with_report(status, report)

    assert merged is None or merged == (patched.get("status") or {})


def test_the_first_report_of_a_bound_pod_needs_no_patch():
    status = {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True"}]}
    report = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}

    merged = with_report(status, report)

    assert merged is not None
    assert [c["type"] for c in merged["conditions"]] == ["Ready", "PodScheduled"]


def test_a_shape_that_comes_in_a_group_is_asked_for_once():
    asked = []

    async def scenario(client: ScenarioClient) -> None:
        world = client.faults
        assert isinstance(world, FastWorld)
        await client.sleep(1)  # what controllers create in the beginning makes answers old
        await client.nodes(40, zones=["a", "b"])
        asked.append(world.fast.asked)
        await client.pods(40)
        asked.append(world.fast.asked)

    result = run_scenario(scenario, faithful=False)

    assert asked == [2, 3]
    assert list(result.tracker.nodes) == [f"node{i}" for i in range(40)]
    assert list(result.tracker.pods) == [f"default/pod{i}" for i in range(40)]


def test_a_scheduler_follows_a_kind_from_its_first_object_on():
    listed: list[set[str]] = []
    known = []

    async def scenario(client: ScenarioClient) -> None:
        world = client.faults
        assert isinstance(world, FastWorld)
        ask = world.fast.list

        async def noted(resource: Resource, namespace: str = "", **query: Any) -> bytes:
            listed[-1].add(resource.plural)
            return await ask(resource, namespace, **query)

        world.fast.list = noted  # type: ignore[method-assign]
        for _ in range(2):
            listed.append(set())
            await world.restart_scheduler()
            storage = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass"}
            name = f"class{len(listed)}"
            await client.create({**storage, "metadata": {"name": name}, "provisioner": "p"})
            scheduler = world.scheduler
            assert scheduler is not None
            classes = scheduler.core.cache.objects.of_kind("StorageClass")
            known.append({item.metadata.name for item in classes or ()})

    result = run_scenario(scenario, faithful=False)

    assert result.ok, result.problems()
    assert known == [{"class1"}, {"class1", "class2"}]
    assert all("storageclasses" in some for some in listed)
    assert not any("resourceslices" in some for some in listed)


def test_what_is_applied_beside_pods_and_nodes_has_a_manager():
    async def scenario(client: ScenarioClient) -> None:
        world = client.faults
        assert isinstance(world, FastWorld)
        head = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "it"}}
        body = {**head, "data": {"a": "1"}}
        made = await world.fast.patch(
            CONFIG_MAPS, "it", body, "default", kind="apply", field_manager="me"
        )
        assert "me" == json.loads(made)["metadata"]["managedFields"][0]["manager"]

    result = run_scenario(scenario, faithful=False)

    assert result.ok, result.problems()
