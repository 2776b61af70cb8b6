"""Every small world there is: all forms of a plugin say what the reference says.

Random clusters seldom have just one pod too many, two terms that one node meets by half, or a
label that is missing where it matters. Here all such combinations are gone through.
"""

from itertools import product

import numpy as np
import pytest

from bayplan.config.args import UtilizationShapePoint
from bayplan.plugins.node_resources_fit.strategies import (
    LeastAllocated,
    MostAllocated,
    RequestedToCapacityRatio,
)
from bayplan.testing import make_node, make_pod, make_service
from bayplan.testing.builders import HOSTNAME, ZONE
from bayplan.testing.strategies import DrawnCluster
from tests.plugins.test_forms_agree import assert_filters_agree, assert_scores_agree
from tests.reference.resources import NodeResourcesFit

RACK = "rack"


def places():
    """Nodes with each zone and each rack, or without."""
    nodes = []
    for zone, rack in product(("z1", "z2", ""), ("r1", "r2", "")):
        builder = make_node(f"n{zone}{rack}").capacity(cpu="4", memory="8Gi", pods=9)
        if zone:
            builder.zone(zone)
        if rack:
            builder.label({RACK: rack})
        nodes.append(builder.build())
    return nodes


PLACES = places()
ALL = np.ones(len(PLACES), dtype=bool)


def wishing(builder, wishes):
    for method, *words in wishes:
        getattr(builder, method)(*words)
    return builder.build()


def filters(name, pods, pod, nodes=PLACES):
    backwards = [*range(len(nodes))][::-1]
    assert_filters_agree(name, DrawnCluster(nodes, pods), pod, backwards)


def scores(name, pods, pod, feasible=ALL):
    assert_scores_agree(name, DrawnCluster(PLACES, pods), pod, feasible)


REQUIRED = [
    [],
    [("near", "app=web", ZONE)],
    [("near", "app=web", ZONE), ("near", "app=web", RACK)],
    [("near", "app=web", RACK), ("near", "tier=x", ZONE)],
    [("apart", "app=web", ZONE)],
    [("apart", "app=web", ZONE), ("apart", "app=web", RACK)],
    [("near", "app=web", ZONE), ("apart", "tier=x", RACK)],
]
OF_OTHERS = [[], [("apart", "app=web", ZONE)], [("apart", "app=web", RACK)], REQUIRED[5]]
LABELS = [{"app": "web"}, {"app": "db"}, {"app": "web", "tier": "x"}]


@pytest.mark.parametrize("wishes", REQUIRED, ids=str)
def test_required_terms(wishes):
    """Half of what is asked is not enough; only the first of a kind needs no other one."""
    for mine, others, theirs in product(LABELS, LABELS, OF_OTHERS):
        pod = wishing(make_pod("incoming").label(mine), wishes)
        for node in (None, *PLACES[:3], PLACES[8]):
            placed = make_pod("placed").label(others).node(node.name) if node else None
            filters("InterPodAffinity", [wishing(placed, theirs)] if placed else [], pod)


def test_terms_of_several_pods_in_one_domain_are_met_until_the_last_is_gone():
    pod = wishing(make_pod("incoming").label(app="web"), REQUIRED[2])
    for first, second in product(PLACES, PLACES):
        pods = [
            wishing(make_pod(name).label(app="web").node(node.name), theirs)
            for name, node, theirs in (("a", first, OF_OTHERS[1]), ("b", second, OF_OTHERS[2]))
        ]
        for some in (pods, pods[:1], pods[1:]):
            filters("InterPodAffinity", some, pod)


PREFERRED = [
    [("prefer_near", 1, "app=web", ZONE)],
    [("prefer_apart", 3, "app=web", RACK)],
    [("prefer_near", 1, "app=web", ZONE), ("prefer_apart", 2, "app=web", RACK)],
    [("near", "app=web", ZONE)],
]


@pytest.mark.parametrize("wishes", [[], *PREFERRED[:3]], ids=str)
def test_preferred_terms(wishes):
    for mine, theirs, node in product(LABELS[:2], [[], *PREFERRED], PLACES):
        pod = wishing(make_pod("incoming").label(mine), wishes)
        placed = wishing(make_pod("placed").label(app="web").node(node.name), theirs)
        scores("InterPodAffinity", [placed], pod)


@pytest.mark.parametrize("least", [None, 1, 2, 3])
@pytest.mark.parametrize("skew", [1, 2])
def test_spread_over_zones(skew, least):
    """Up to the skew and no further, from the emptiest zone, or from zero if zones are too few."""
    more = {} if least is None else {"minDomains": least}
    for mine, first, second, lost in product(LABELS[:2], range(4), range(3), range(2)):
        counts = {"nz1r1": first, "nz2r1": second, "nr1": lost}
        pods = [
            make_pod(f"{node}-{i}").label(app="web").node(node).build()
            for node, count in counts.items()
            for i in range(count)
        ]
        pod = make_pod("incoming").label(mine).spread(skew, ZONE, "app=web", hard=True, **more)
        filters("PodTopologySpread", pods, pod.build())
        pod.spread(skew, RACK, "app=web", hard=True)
        filters("PodTopologySpread", pods, pod.build())


@pytest.mark.parametrize("key", [ZONE, RACK, HOSTNAME])
@pytest.mark.parametrize("skew", [1, 3])
def test_wished_spread(skew, key):
    pods = [
        make_pod(f"{node}-{i}").label(app="web").node(node).build()
        for node, count in (("nz1r1", 3), ("nz2r2", 1), ("nz1", 2))
        for i in range(count)
    ]
    for second in (None, ZONE, RACK, HOSTNAME):
        pod = make_pod("incoming").label(app="web").spread(skew, key, "app=web", hard=False)
        if second:
            pod.spread(1, second, "app=web", hard=False)
        for left_out in range(len(PLACES)):
            feasible = ALL.copy()
            feasible[left_out:] = left_out == 0
            scores("PodTopologySpread", pods, pod.build(), feasible)


def test_default_spread_where_a_zone_has_an_empty_name_or_none():
    """For the system's defaults, which leave no node out, both are one domain."""
    zones = ({ZONE: "z1"}, {ZONE: "z2"}, {ZONE: ""}, {}, {})
    nodes = [
        make_node(f"n{number}").label(labels).capacity(cpu=4, pods=9).build()
        for number, labels in enumerate(zones)
    ]
    pods = [make_pod(f"p{n}").label(app="web").node(f"n{n % 4}").build() for n in range(7)]
    service = make_service("s", {"app": "web"}).build()
    pod = make_pod("incoming").label(app="web").build()
    for chosen in product((False, True), repeat=len(nodes)):
        if any(chosen):
            cluster = DrawnCluster(nodes, pods, [service])
            assert_scores_agree("PodTopologySpread", cluster, pod, np.array(chosen))


def test_ports_collide_where_address_protocol_and_port_do():
    addresses, protocols, ports = ("", "0.0.0.0", "10.0.0.1", "10.0.0.2"), ("TCP", "UDP"), (80, 81)
    nodes = PLACES[:2]
    kinds = list(product(ports, protocols, addresses))
    for taken, wanted in product(kinds, kinds):
        placed = make_pod("placed").host_port(*taken).node(nodes[0].name).build()
        filters("NodePorts", [placed], make_pod("incoming").host_port(*wanted).build(), nodes)


def test_taints_and_tolerations():
    effects = ("NoSchedule", "NoExecute", "PreferNoSchedule")
    for effect, value in product(effects, ("", "yes")):
        node = make_node("n").capacity(cpu="4", pods=9).taint("gpu", effect, value)
        cluster = DrawnCluster([node.build(), make_node("plain").build()])
        for key, only, operator, its in product(
            ("gpu", "old", ""), (*effects, ""), ("Exists", "Equal"), ("", "yes", "no")
        ):
            if (key == "" or its) and operator == ("Equal" if key == "" else "Exists"):
                continue  # refused by the API
            pod = make_pod("incoming").tolerate(key, only, operator=operator, value=its).build()
            assert_filters_agree("TaintToleration", cluster, pod, [1, 0])
            assert_scores_agree("TaintToleration", cluster, pod, np.ones(2, dtype=bool))


AMOUNTS = ("cpu", "memory", "ephemeral-storage", "example.com/gpu")


@pytest.mark.parametrize("name", AMOUNTS)
def test_what_is_asked_fits_to_the_last_unit(name):
    for offered, used, asked in product((0, 1, 4), (0, 1, 3, 4, 5), (0, 1, 3, 4, 5)):
        node = make_node("n").capacity({"cpu": 9, "memory": 9, "pods": 9, name: offered})
        placed = make_pod("placed").req({name: used}).node("n").build()
        pod = make_pod("incoming").req({name: asked}).build()
        cluster = DrawnCluster([node.build(), make_node("other").capacity(pods=1).build()])
        cluster.pods.append(placed)
        assert_filters_agree("NodeResourcesFit", cluster, pod, [1, 0])
        for score in ("NodeResourcesFit", "NodeResourcesBalancedAllocation"):
            assert_scores_agree(score, cluster, pod, np.ones(2, dtype=bool))


@pytest.mark.parametrize("room", [0, 1, 2, 3])
def test_pods_fit_to_the_last_one(room):
    node = make_node("n").capacity(cpu=9, pods=room).build()
    pods = [make_pod(f"p{i}").node("n").build() for i in range(2)]

    filters("NodeResourcesFit", pods, make_pod("incoming").build(), [node])


SHAPES = [((0, 0), (100, 10)), ((0, 10), (100, 0)), ((10, 2), (50, 7), (60, 1)), ((50, 3),)]


@pytest.mark.parametrize(
    ("strategy", "kind", "shape"),
    [
        (LeastAllocated(), "LeastAllocated", ()),
        (MostAllocated(), "MostAllocated", ()),
        *(
            (
                RequestedToCapacityRatio([UtilizationShapePoint(u, s) for u, s in shape]),
                "RequestedToCapacityRatio",
                shape,
            )
            for shape in SHAPES
        ),
    ],
)
def test_strategies(strategy, kind, shape):
    """Empty, full, one too many: one at a time and as a column, as the reference has it."""
    points = [{"utilization": u, "score": s} for u, s in shape]
    given = {"requestedToCapacityRatio": {"shape": points}}
    for offered in (1, 2, 3, 7, 100, 101):
        asked = np.arange(offered + 3)
        wanted = [
            NodeResourcesFit._resource_score(kind, given, each, offered) for each in asked.tolist()
        ]
        assert wanted == strategy.column(asked, np.full(len(asked), offered)).tolist()
        assert wanted == [strategy.single(each, offered) for each in asked.tolist()]
