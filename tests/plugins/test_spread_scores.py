"""Scores of spreading by several constraints, one of them by host."""

from bayplan.engine.replay import describe
from bayplan.testing import HOSTNAME, ZONE, make_node, make_pod
from tests.engine.clusters import make_engine


def test_pods_on_a_host_count_as_often_as_those_of_its_zone():
    nodes = [make_node(name).zone(name).label({HOSTNAME: name}) for name in ("a", "b")]
    engine = make_engine([node.build() for node in nodes])
    for number in range(3):
        engine.cache.put(make_pod(f"p{number}").label(app="web").node("a").build())
    pod = make_pod("q").label(app="web")
    for key in (ZONE, HOSTNAME):
        pod.spread(1, key, "app=web", hard=False)

    found = describe(engine, engine.schedule(pod.build(), 0.0))

    # three in the zone and three on the host, each times the logarithm of two domains and two
    assert {"a": 8, "b": 0} == found["raw"]["PodTopologySpread"]
