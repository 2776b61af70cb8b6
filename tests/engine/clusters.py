"""Engines on random or hand-made clusters."""

from bayplan.config import default_config, from_data
from bayplan.config.gates import DEFAULT_GATES
from bayplan.engine.cycle.records import RecordRing
from bayplan.engine.engine import Engine
from bayplan.plugins import in_tree_registry
from tests.reference import World


def make_engine(
    nodes=(), pods=(), others=(), config=None, registry=None, gates=DEFAULT_GATES, **more
):
    loaded = default_config(gates) if config is None else from_data(config, gates)
    plugins = registry or in_tree_registry()
    engine = Engine.build(loaded, plugins, gates=gates, records=RecordRing(), **more)
    for item in (*nodes, *others, *pods):
        engine.cache.put(item)
    return engine


def engine_for(cluster, config=None, **more):
    """An engine on a cluster of `bayplan.testing.strategies`."""
    others = (*cluster.services, *cluster.namespaces, *cluster.budgets)
    return make_engine(cluster.nodes, cluster.pods, others, config, **more)


def world_for(cluster):
    """The same cluster for the scalar reference."""
    others = (*cluster.services, *cluster.namespaces, *cluster.budgets)
    return World(cluster.nodes, cluster.pods, others)


def plugin_config(**score):
    """A configuration with one more plugin, or with changed points: `score={"enabled": [...]}`."""
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "default-scheduler", "plugins": score}],
    }
