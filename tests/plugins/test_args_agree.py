"""Arguments change what plugins say as they change what the reference says."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bayplan.config.args import PodTopologySpreadArgs
from bayplan.framework import ClusterObjects, Handle
from bayplan.plugins.pod_topology_spread.constraints import ConstraintSource, default_selector
from bayplan.testing import HOSTNAME, ZONE, make_pod, make_service
from bayplan.testing.kinds import make_replica_set, make_stateful_set
from bayplan.testing.strategies import clusters, pods
from tests.plugins.test_forms_agree import (
    FILTERS,
    SCORES,
    assert_filters_agree,
    assert_scores_agree,
)
from tests.reference.spread import PodTopologySpread
from tests.reference.world import World

GPU = "example.com/gpu"
SHAPE = [{"utilization": 10, "score": 2}, {"utilization": 40, "score": 10},
         {"utilization": 90, "score": 0}]  # fmt: skip


def scoring(kind, *names, **more):
    weights = [{"name": name, "weight": 1 + place} for place, name in enumerate(names)]
    return {"scoringStrategy": {"type": kind, "resources": weights, **more}}


def added(**terms):
    return {"addedAffinity": terms}


def spread(*constraints):
    return {"defaultingType": "List", "defaultConstraints": list(constraints)}


def constraint(key, skew, when):
    return {"topologyKey": key, "maxSkew": skew, "whenUnsatisfiable": when}


REQUIRED = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "disk", "operator": "Exists"}]}]}
PREFERRED = [{"weight": 9, "preference": REQUIRED["nodeSelectorTerms"][0]}]
AFFINITY = "DuringSchedulingIgnoredDuringExecution"
ARGS = {
    "least, weighed": ("NodeResourcesFit", scoring("LeastAllocated", "memory", "cpu", GPU)),
    "most": ("NodeResourcesFit", scoring("MostAllocated", "cpu", "memory")),
    "most, weighed": ("NodeResourcesFit", scoring("MostAllocated", GPU, "cpu")),
    "a shape": (
        "NodeResourcesFit",
        scoring(
            "RequestedToCapacityRatio", "cpu", "memory", GPU,
            requestedToCapacityRatio={"shape": SHAPE},
        ),
    ),
    "an ignored resource": ("NodeResourcesFit", {"ignoredResources": [GPU]}),
    "ignored resources": ("NodeResourcesFit", {"ignoredResourceGroups": ["example.com"]}),
    "others ignored": (
        "NodeResourcesFit",
        {"ignoredResources": ["example.com/other"], "ignoredResourceGroups": ["other.com"]},
    ),
    "balance of three": (
        "NodeResourcesBalancedAllocation",
        {"resources": [{"name": name, "weight": 1} for name in ("cpu", GPU, "memory")]},
    ),
    "balance of one": (
        "NodeResourcesBalancedAllocation", {"resources": [{"name": "memory", "weight": 1}]},
    ),
    "nodes for all": ("NodeAffinity", added(**{f"required{AFFINITY}": REQUIRED})),
    "wishes of all": ("NodeAffinity", added(**{f"preferred{AFFINITY}": PREFERRED})),
    "hard terms count nothing": ("InterPodAffinity", {"hardPodAffinityWeight": 0}),
    "hard terms count much": ("InterPodAffinity", {"hardPodAffinityWeight": 40}),
    "wishes of placed pods ignored": (
        "InterPodAffinity", {"ignorePreferredTermsOfExistingPods": True},
    ),
    "spread for all": (
        "PodTopologySpread",
        spread(constraint(ZONE, 1, "DoNotSchedule"), constraint(HOSTNAME, 2, "ScheduleAnyway")),
    ),
    "spread wished for all": (
        "PodTopologySpread",
        spread(constraint("rack", 1, "ScheduleAnyway"), constraint(ZONE, 3, "ScheduleAnyway")),
    ),
    "no spread": ("PodTopologySpread", spread()),
}  # fmt: skip
RELAXED = settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("what", ARGS)
@RELAXED
@given(data=st.data())
def test_all_forms_agree(what, data):
    name, args = ARGS[what]
    plain = name == "PodTopologySpread"  # a pod with constraints of its own has no others
    cluster = data.draw(clusters(about="" if plain else name))
    pod = data.draw(pods(about="NodePorts" if plain else name))
    size = len(cluster.nodes)
    if name in FILTERS:
        rows = data.draw(st.lists(st.integers(0, size - 1), unique=True, min_size=1))
        assert_filters_agree(name, cluster, pod, rows, args)
    if name in SCORES:
        feasible = np.array(data.draw(st.lists(st.booleans(), min_size=size, max_size=size)))
        feasible[0] |= not feasible.any()
        assert_scores_agree(name, cluster, pod, feasible, args)


# -- what pods without constraints are spread by -------------------------------------------------

OWNERS = {
    "none": None,
    "replica set": ("apps/v1", "ReplicaSet", "rs"),
    "stateful set": ("apps/v1", "StatefulSet", "ss"),
    "one that is gone": ("apps/v1", "ReplicaSet", "gone"),
    "replication controller": ("v1", "ReplicationController", "rc"),
    "replication controller that is gone": ("v1", "ReplicationController", "gone"),
    "something of another group": ("example.com/v1", "ReplicaSet", "rs"),
    "a daemon set": ("apps/v1", "DaemonSet", "rs"),
}
SERVICES = {
    "no service": [],
    "its service": [("s", {"app": "web"}, "default")],
    "two services": [("s", {"app": "web"}, "default"), ("t", {"tier": "x"}, "default")],
    "another one's service": [("s", {"app": "db"}, "default")],
    "a service elsewhere": [("s", {"app": "web"}, "elsewhere")],
    "a service without a selector": [("s", None, "default")],
}


def controllers():
    from bayplan.api import ReplicationController, convert

    body = {"metadata": {"name": "rc", "namespace": "default"}, "spec": {"selector": {"ver": "1"}}}
    return [
        make_replica_set("rs", "app=web").build(),
        make_stateful_set("ss", "tier=x").build(),
        convert(ReplicationController, body),
    ]


@pytest.mark.parametrize("services", SERVICES)
@pytest.mark.parametrize("owner", OWNERS)
def test_the_selector_of_a_pods_services_and_controller(owner, services):
    objects = controllers()
    for name, selector, namespace in SERVICES[services]:
        service = make_service(name, selector or {}, namespace)
        if selector is None:
            service.spec.pop("selector", None)
        objects.append(service.build())
    builder = make_pod("p").label(app="web", tier="x", ver="1")
    if OWNERS[owner]:
        version, kind, name = OWNERS[owner]
        builder.owner(kind, name, api_version=version)
    pod, cluster = builder.build(), ClusterObjects()
    for item in objects:
        cluster.put(item)
    reference = PodTopologySpread(World([], [], objects), pod, {})

    found, wanted = default_selector(pod, cluster), reference._default_selector()

    assert wanted.empty == found.empty
    for labels in ({}, {"app": "web"}, {"tier": "x"}, {"app": "web", "tier": "x"}, pod.labels):
        assert wanted.matches(labels) == found.matches(labels)


def test_defaults_follow_services_and_controllers_that_come_and_go():
    handle = Handle()
    source = ConstraintSource(PodTopologySpreadArgs(), handle.objects, limit=10)
    pod = make_pod("p").label(app="web").owner("ReplicaSet", "rs", api_version="apps/v1").build()

    def soft():
        return len(source.of(pod, b"signature").soft)

    assert 0 == soft()
    handle.objects.put(make_service("s", {"app": "web"}).build())
    assert 2 == soft()
    handle.objects.services.delete("default/s")
    assert 0 == soft()
    handle.objects.put(make_replica_set("rs", "app=web").build())
    assert 2 == soft()
    handle.objects.replica_sets.delete("default/rs")
    assert 0 == soft()


@pytest.mark.parametrize("order", [1, -1])
def test_every_kind_of_controller_makes_the_defaults_new(order):
    """Whichever changed last, and however often the others did."""
    handle = Handle()
    source = ConstraintSource(PodTopologySpreadArgs(), handle.objects, limit=10)
    objects = handle.objects
    listers = (
        (objects.services, make_service("s", {"app": "web"}).build()),
        *zip(
            (objects.replica_sets, objects.stateful_sets, objects.replication_controllers),
            controllers(),
            strict=True,
        ),
    )
    seen = [source.revision]
    for _ in range(2):
        for lister, item in listers[::order]:
            objects.put(item)
            seen.append(source.revision)
            lister.delete(item.key)
            seen.append(source.revision)

    assert sorted(set(seen)) == seen
