"""A filter that fails on a node: where the next search starts, and what a nomination spares."""

import pytest

from bayplan.framework import Status
from bayplan.framework.contract.status import Code
from bayplan.plugins import in_tree_registry
from bayplan.testing import make_node, make_pod
from tests.engine.clusters import make_engine, plugin_config

BROKEN = Status(Code.ERROR, "it broke")


class Breaks:
    """Fails on nodes that a pod names in a label."""

    name = "Breaks"

    def filter_node(self, state, pod, node):
        return BROKEN if node.name == pod.metadata.labels.get("breaks") else None


def engine_of(*names):
    nodes = [make_node(name).capacity(cpu=4, pods=10).build() for name in names]
    registry = {**in_tree_registry(), "Breaks": lambda args, handle: Breaks()}
    config = plugin_config(multiPoint={"enabled": [{"name": "Breaks"}]})
    return make_engine(nodes, config=config, registry=registry)


@pytest.mark.parametrize("breaks", "abd")
def test_the_next_search_starts_at_the_node_that_failed(breaks):
    """As upstream, that counts the nodes which it got an answer about before."""
    engine = engine_of(*"abcd")
    failed = engine.place(make_pod("p").label(breaks=breaks).build(), 0.0)

    assert Code.ERROR is failed.status.code
    assert breaks == engine.place(make_pod("q").build(), 0.0).node_name


def test_searches_that_fail_add_up():
    engine = engine_of(*"abcd")
    for breaks in "cb":  # two nodes from a, then three from c
        engine.place(make_pod(f"p-{breaks}").label(breaks=breaks).build(), 0.0)

    assert "b" == engine.place(make_pod("q").build(), 0.0).node_name


def test_a_pod_that_was_promised_a_node_gets_it_without_a_search():
    engine = engine_of(*"abcd")
    pod = make_pod("p").label(breaks="a").with_status(nominatedNodeName="c").build()

    assert "c" == engine.place(pod, 0.0).node_name
