"""The vectorised engine decides what the reference decides, on random clusters and profiles."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bayplan import api
from bayplan.config import FeatureGates
from bayplan.conformance.compare import differences
from bayplan.engine.replay import decide as engine_decide
from bayplan.testing.strategies import EXTENDED, ZONE, clusters, pods
from tests.plugins import volumes
from tests.reference import World, decide

KEYS = {
    "Service": "services",
    "Namespace": "namespaces",
    "PodDisruptionBudget": "podDisruptionBudgets",
    "PersistentVolume": "persistentVolumes",
    "PersistentVolumeClaim": "persistentVolumeClaims",
    "StorageClass": "storageClasses",
    "CSINode": "csiNodes",
    "CSIDriver": "csiDrivers",
    "CSIStorageCapacity": "csiStorageCapacities",
    "VolumeAttachment": "volumeAttachments",
}
GATES = FeatureGates(version="1.36")
"""The reference was written from 1.36."""
SLOW = {"deadline": None, "suppress_health_check": list(HealthCheck)}


def bodies(nodes, placed, others):
    """The objects of a cluster in the form of the recorded decisions."""
    found = {
        "nodes": [api.to_builtins(node) for node in nodes],
        "pods": [api.to_builtins(pod) for pod in placed],
    }
    for item in others:
        found.setdefault(KEYS[item.KIND], []).append(api.to_builtins(item))
    return found


def assert_agree(objects, pod, config=None):
    want = decide(World.from_objects(objects), pod, config)
    got = engine_decide(objects, api.to_builtins(pod), config, gates=GATES)
    if any(status and status.code == "Error" for status in want.nodes.values()):
        assert "error" in got
    else:
        assert [] == differences(want.body(), got)


@settings(max_examples=50, **SLOW)
@given(clusters(), pods("incoming"))
def test_default_profile(cluster, pod):
    others = (*cluster.services, *cluster.namespaces, *cluster.budgets)

    assert_agree(bodies(cluster.nodes, cluster.pods, others), pod)


@settings(max_examples=40, **SLOW)
@given(volumes.storage_clusters(), volumes.pods())
def test_volumes(world, pod):
    nodes = [state.node for state in world.nodes]
    placed = [item for state in world.nodes for item in state.pods]
    others = [item for kind in world.others.values() for item in kind.values()]

    assert_agree(bodies(nodes, placed, others), pod)


@st.composite
def resources(draw):
    names = draw(st.sampled_from((("cpu",), ("cpu", "memory"), ("cpu", "memory", EXTENDED))))
    return [{"name": name, "weight": draw(st.integers(1, 5))} for name in names]


@st.composite
def strategies(draw):
    kind = draw(st.sampled_from(("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")))
    body = {"type": kind, "resources": draw(resources())}
    if kind == "RequestedToCapacityRatio":
        middle = draw(st.integers(1, 99))
        shape = [{"utilization": at, "score": draw(st.integers(0, 10))} for at in (0, middle, 100)]
        body["requestedToCapacityRatio"] = {"shape": shape}
    return body


@st.composite
def plugin_configs(draw):
    configs = {}
    if draw(st.booleans()):
        ignored = draw(st.sampled_from(([], [EXTENDED])))
        configs["NodeResourcesFit"] = {
            "scoringStrategy": draw(strategies()),
            "ignoredResources": ignored,
        }
    if draw(st.booleans()):
        configs["InterPodAffinity"] = {
            "hardPodAffinityWeight": draw(st.integers(0, 100)),
            "ignorePreferredTermsOfExistingPods": draw(st.booleans()),
        }
    if draw(st.booleans()):
        names = draw(st.sampled_from((("cpu", "memory"), ("cpu", "memory", EXTENDED), ("cpu",))))
        found = [{"name": name, "weight": 1} for name in names]
        configs["NodeResourcesBalancedAllocation"] = {"resources": found}
    if draw(st.booleans()):
        constraint = {
            "maxSkew": draw(st.integers(1, 3)),
            "topologyKey": draw(st.sampled_from((ZONE, "rack", "kubernetes.io/hostname"))),
            "whenUnsatisfiable": draw(st.sampled_from(("ScheduleAnyway", "DoNotSchedule"))),
        }
        found = draw(st.sampled_from(([], [constraint])))
        configs["PodTopologySpread"] = {"defaultingType": "List", "defaultConstraints": found}
    if draw(st.booleans()):
        term = {"matchExpressions": [{"key": ZONE, "operator": "NotIn", "values": ["z3"]}]}
        required = {"nodeSelectorTerms": [term]}
        soft = [{"weight": 7, "preference": {"matchFields": [
            {"key": "metadata.name", "operator": "In", "values": ["n0"]}]}}]  # fmt: skip
        configs["NodeAffinity"] = {
            "addedAffinity": draw(st.sampled_from((
                {"requiredDuringSchedulingIgnoredDuringExecution": required},
                {"preferredDuringSchedulingIgnoredDuringExecution": soft},
            )))
        }  # fmt: skip
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1"}
    return [
        {"name": name, "args": {**head, "kind": f"{name}Args", **args}}
        for name, args in configs.items()
    ]


@settings(max_examples=40, **SLOW)
@given(clusters(), pods("incoming"), plugin_configs(), st.integers(1, 9))
def test_other_profiles(cluster, pod, plugin_config, weight):
    score = {
        "disabled": [{"name": "NodeResourcesFit"}, {"name": "TaintToleration"}],
        "enabled": [{"name": "NodeResourcesFit", "weight": weight}],
    }
    profile = {
        "schedulerName": "default-scheduler",
        "plugins": {"score": score},
        "pluginConfig": plugin_config,
    }
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [profile],
    }
    others = (*cluster.services, *cluster.namespaces, *cluster.budgets)

    assert_agree(bodies(cluster.nodes, cluster.pods, others), pod, config)
