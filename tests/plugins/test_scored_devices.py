"""Devices count as a resource where a class names it and the arguments of a score plugin do."""

import pytest

from bayplan.api import Pod, convert
from bayplan.config import FeatureGates, from_data
from bayplan.engine.engine import Engine
from bayplan.engine.replay import describe, load_objects
from bayplan.framework import CycleState
from bayplan.plugins import in_tree_registry
from bayplan.testing import (
    make_device,
    make_device_class,
    make_node,
    make_pod,
    make_resource_claim,
    make_slice,
    request,
)

CARD, DRIVER = "example.com/card", "gpu.example.com"
API = "kubescheduler.config.k8s.io/v1"


def configured(plugin, resource, **args):
    fields = {"apiVersion": API, "kind": f"{plugin}Args", **args}
    if plugin == "NodeResourcesFit":
        weighed = [{"name": resource, "weight": 1}]
        fields["scoringStrategy"] = {"type": "LeastAllocated", "resources": weighed}
    else:
        fields["resources"] = [{"name": name, "weight": 1} for name in ("cpu", resource)]
    profile = {"schedulerName": "default-scheduler"}
    profile["pluginConfig"] = [{"name": plugin, "args": fields}]
    return {"apiVersion": API, "kind": "KubeSchedulerConfiguration", "profiles": [profile]}


def bodies(*claims, resource=CARD, expression=f'device.driver == "{DRIVER}"'):
    """Node a has four devices, b two, c offers four of the resource itself."""
    text = [expression] if expression else []
    return {
        "nodes": [
            make_node("a").capacity({"cpu": 8}).body(),
            make_node("b").capacity({"cpu": 8}).body(),
            make_node("c").capacity({"cpu": 8, resource: 4}).body(),
        ],
        "deviceClasses": [
            make_device_class("card", *text, resource="" if resource != CARD else CARD).body()
        ],
        "resourceSlices": [
            make_slice("sa", *(make_device(f"d{i}", {"n": i}) for i in range(4)), node="a").body(),
            make_slice("sb", *(make_device(f"d{i}", {"n": i}) for i in range(2)), node="b").body(),
        ],
        "resourceClaims": [claim.body() for claim in claims],
    }


def engine_for(objects, config, version="1.37", **gates):
    found = FeatureGates(gates, version)
    engine = Engine.build(from_data(config, found), in_tree_registry(), gates=found)
    load_objects(engine.cache, objects)
    return engine


def scores(engine, plugin, resource=CARD, amount=1):
    pod = convert(Pod, make_pod().req({"cpu": "1", resource: amount}).body())
    return describe(engine, engine.schedule(pod, 0.0))["raw"][plugin]


def held(name, *devices, node="a"):
    given = [(DRIVER, node, device) for device in devices]
    return make_resource_claim(name).exactly("r0", request("card")).allocated(*given, node=node)


@pytest.mark.parametrize("resource", [CARD, "deviceclass.resource.kubernetes.io/card"])
def test_fit_counts_devices_and_those_that_are_given_away(resource):
    config = configured("NodeResourcesFit", resource)
    engine = engine_for(bodies(held("x", "d0"), resource=resource), config)

    # one of four is gone and one is asked, one of two is asked, one of four offered is asked
    assert {"a": 50, "b": 50, "c": 75} == scores(engine, "NodeResourcesFit", resource)


def test_a_device_given_away_later_changes_the_score_of_the_same_pod():
    engine = engine_for(bodies(), configured("NodeResourcesFit", CARD))

    assert 75 == scores(engine, "NodeResourcesFit")["a"]
    engine.cache.put(held("x", "d1", "d2").build())
    assert 25 == scores(engine, "NodeResourcesFit")["a"]


def test_a_class_that_comes_later_makes_devices_count():
    objects = bodies()
    classes = objects.pop("deviceClasses")
    engine = engine_for(objects, configured("NodeResourcesFit", CARD))

    assert {"c": 75} == scores(engine, "NodeResourcesFit")
    load_objects(engine.cache, {"deviceClasses": classes})
    assert {"a": 75, "b": 50, "c": 75} == scores(engine, "NodeResourcesFit")


def test_selectors_of_the_class_decide_and_one_that_fails_leaves_the_node_out():
    config = configured("NodeResourcesFit", CARD)
    some = f'device.attributes["{DRIVER}"].n < 2'
    fails = f'device.attributes["{DRIVER}"].n == 0 || device.attributes["{DRIVER}"].none == 1'

    assert {"a": 50, "b": 50, "c": 75} == scores(
        engine_for(bodies(expression=some), config), "NodeResourcesFit"
    )
    engine = engine_for(bodies(expression=fails), config)
    # the search stops at the first device, the count meets the one that fails
    assert {"a": 0, "b": 0, "c": 75} == scores(engine, "NodeResourcesFit")


def test_balanced_allocation_counts_devices():
    config = configured("NodeResourcesBalancedAllocation", CARD)
    engine = engine_for(bodies(held("x", "d0"), expression=""), config)

    # a: (1/8, 2/4) after (0, 1/4); b: (1/8, 1/2) after (0, 0); c: (1/8, 1/4) after (0, 0)
    assert {"a": 72, "b": 65, "c": 71} == scores(engine, "NodeResourcesBalancedAllocation")


def test_without_the_gate_only_what_nodes_offer_counts():
    config = configured("NodeResourcesFit", CARD)
    engine = engine_for(bodies(), config, "1.36", DRAExtendedResource=False)

    assert {"c": 75} == scores(engine, "NodeResourcesFit")


def test_balance_of_three_resources_is_their_deviation():
    name = "NodeResourcesBalancedAllocation"
    config = configured(name, CARD)
    args = config["profiles"][0]["pluginConfig"][0]["args"]
    args["resources"].append({"name": "memory", "weight": 1})
    node = make_node("a").capacity({"cpu": 8, "memory": "8Gi", CARD: 4}).body()
    engine = engine_for({"nodes": [node]}, config)
    pod = make_pod().req({"cpu": "1", "memory": "4Gi", CARD: 4}).build()
    plugin, table = engine.profiles["default-scheduler"].plugins[name], engine.cache.table
    state = CycleState(engine.cache.infos.make(pod))

    # (1/8, 1/2, 1) deviate by 0.358 after (0, 0, 0)
    assert 57 == plugin.score_node(state, pod, table.info(0))
    assert [57] == plugin.score(state, pod, table).tolist()
