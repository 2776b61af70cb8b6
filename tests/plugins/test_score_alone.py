"""Plugins that are enabled for `score` and nothing else: some score as ever, the others fail."""

import numpy as np
import pytest

from bayplan.api import Pod, convert
from bayplan.config import FeatureGates, from_data
from bayplan.engine.engine import Engine
from bayplan.engine.replay import decide
from bayplan.framework import Code, CycleState, Handle, NodeTable
from bayplan.plugins import in_tree_registry, node_affinity
from bayplan.testing import make_node, make_pod

API = "kubescheduler.config.k8s.io/v1"


def config(name):
    plugins = {
        "multiPoint": {"disabled": [{"name": name}]},
        "score": {"enabled": [{"name": name, "weight": 1}]},
    }
    profile = {"schedulerName": "default-scheduler", "plugins": plugins}
    return {"apiVersion": API, "kind": "KubeSchedulerConfiguration", "profiles": [profile]}


def raw(name, pod, loaded, version):
    nodes = [
        make_node(f"n{cpu}").capacity(cpu=cpu, memory="8Gi", pods=10).label(size=str(cpu)).body()
        for cpu in (2, 4, 8)
    ]
    found = decide({"nodes": nodes}, pod, loaded, gates=FeatureGates({}, version))
    return found["raw"].get(name)


@pytest.mark.parametrize("version", ["1.36", "1.37"])
@pytest.mark.parametrize(
    "name", ["NodeResourcesFit", "NodeResourcesBalancedAllocation", "NodeAffinity"]
)
def test_the_scores_are_those_of_the_whole_plugin(name, version):
    pod = make_pod("p").req(cpu="1", memory="1Gi").body()
    term = {"matchExpressions": [{"key": "size", "operator": "In", "values": ["4"]}]}
    preferred = [{"weight": 7, "preference": term}]
    pod["spec"]["affinity"] = {
        "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}
    }
    whole = raw(name, pod, None, version)

    assert len(set(whole.values())) > 1
    assert raw(name, pod, config(name), version) == whole


@pytest.mark.parametrize("name", ["NodeResourcesBalancedAllocation", "NodeAffinity"])
def test_a_pod_without_wishes_scores_nothing(name):
    pod = make_pod("p").body()

    assert raw(name, pod, None, "1.37") is None
    assert set(raw(name, pod, config(name), "1.37").values()) == {0}


MISSING = 'failed to read "PreScore{}" from cycleState: not found'


@pytest.mark.parametrize(
    ("name", "version", "text"),
    [
        ("TaintToleration", "1.36", MISSING),
        ("InterPodAffinity", "1.37", MISSING),
        ("PodTopologySpread", "1.37", 'error reading "PreScore{}" from cycleState: not found'),
        ("DynamicResources", "1.36", "not found"),
        ("VolumeBinding", "1.37", "not found"),
        ("VolumeBinding", "1.36", None),
    ],
)
def test_a_plugin_that_needs_its_pre_score_fails_the_pod(name, version, text):
    nodes = [make_node(name).body() for name in "ab"]
    found = decide(
        {"nodes": nodes}, make_pod("p").body(), config(name), gates=FeatureGates({}, version)
    )
    failed = text and f'running Score plugins: plugin "{name}" failed with: {text.format(name)}'

    assert found.get("error") == failed


def test_a_single_node_that_fits_is_not_scored():
    engine = Engine.build(from_data(config("TaintToleration")), in_tree_registry())
    engine.cache.add_node(make_node("a").build())

    assert engine.schedule(make_pod("p").build(), 0.0).node_name == "a"


def test_a_wish_that_cannot_be_read_is_told_before_nodes_are_scored():
    term = {"matchExpressions": [{"key": "size", "operator": "Gt", "values": ["much"]}]}
    preferred = [{"weight": 7, "preference": term}]
    pod = convert(
        Pod,
        {
            "metadata": {"name": "p"},
            "spec": {
                "affinity": {
                    "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}
                }
            },
        },
    )
    table = NodeTable()
    plugin = node_affinity.new(None, Handle(table=table))
    status = plugin.pre_score(CycleState(), pod, table, np.ones(0, dtype=bool))

    assert Code.ERROR is status.code
