"""Random configurations: strategies, weights, plugins on and off, several profiles."""

from __future__ import annotations

from bayplan.testing.cases.devices import EXTENDED, EXTENDED_IMPLICIT
from bayplan.testing.cases.draw import Body, Draw
from bayplan.testing.cases.nodes import HOSTNAME, ZONE
from bayplan.testing.cases.quantities import GPU

API = "kubescheduler.config.k8s.io/v1"
SCORES = (
    "NodeResourcesFit",
    "NodeResourcesBalancedAllocation",
    "ImageLocality",
    "TaintToleration",
    "NodeAffinity",
    "PodTopologySpread",
    "InterPodAffinity",
)
FILTERS = ("NodePorts", "TaintToleration", "NodeAffinity", "PodTopologySpread", "InterPodAffinity")
RESOURCES = ("cpu", "memory", "ephemeral-storage", GPU)
DEVICE_RESOURCES = ("cpu", "memory", EXTENDED, EXTENDED_IMPLICIT)


def configuration(draw: Draw) -> Body:
    profiles = [_profile(draw, "default-scheduler")]
    if draw.chance(0.3):
        profiles.append(_profile(draw, "other-scheduler"))
    return {"apiVersion": API, "kind": "KubeSchedulerConfiguration", "profiles": profiles}


def _profile(draw: Draw, name: str) -> Body:
    body: Body = {"schedulerName": name}
    if plugins := _plugins(draw):
        body["plugins"] = plugins
    if args := _args(draw):
        body["pluginConfig"] = [
            {"name": plugin, "args": {"apiVersion": API, "kind": f"{plugin}Args", **fields}}
            for plugin, fields in args.items()
        ]
    return body


def _plugins(draw: Draw) -> Body:
    found: Body = {}
    if draw.chance(0.5):
        changed = draw.some(SCORES, 3, 1)
        again = [plugin for plugin in changed if draw.chance(0.5)]
        found["score"] = {
            "disabled": [{"name": plugin} for plugin in changed],
            "enabled": [{"name": plugin, "weight": draw.number(1, 9)} for plugin in again],
        }
    if draw.chance(0.2):
        found["filter"] = {"disabled": [{"name": draw.pick(FILTERS)}]}
    if draw.wants("multipoint"):
        found["multiPoint"] = _multi_point(draw)
    if draw.chance(0.15):
        found["postFilter"] = {"disabled": [{"name": draw.pick(("DefaultPreemption", "*"))}]}
    return found


def _multi_point(draw: Draw) -> Body:
    """Plugins off at all points, or on at all with another weight."""
    off = draw.some((*SCORES, "NodePorts", "NodeUnschedulable", "VolumeBinding"), 2)
    body: Body = {"disabled": [{"name": plugin} for plugin in off]}
    again = [plugin for plugin in off if plugin in SCORES and draw.chance(0.5)]
    body["enabled"] = [{"name": plugin, "weight": draw.number(1, 9)} for plugin in again]
    return body


def _args(draw: Draw) -> Body:
    found: Body = {}
    if draw.chance(0.6):
        found["NodeResourcesFit"] = _fit(draw)
    if draw.chance(0.3):
        # the real BalancedAllocation has no cache for selectors and panics
        chosen = draw.some(_resources(draw, "bare classes"), 3, 1)
        found["NodeResourcesBalancedAllocation"] = {
            "resources": [{"name": name, "weight": 1} for name in chosen]
        }
    if draw.chance(0.3):
        found["InterPodAffinity"] = {
            "hardPodAffinityWeight": draw.number(0, 100),
            "ignorePreferredTermsOfExistingPods": draw.chance(0.5),
        }
    if draw.chance(0.3):
        found["PodTopologySpread"] = _spread(draw)
    if draw.wants("storage shape"):
        found["VolumeBinding"] = {"bindTimeoutSeconds": 60, "shape": _shape(draw)}
    if draw.chance(0.25):
        found["NodeAffinity"] = {"addedAffinity": _added(draw)}
    return found


def _resources(draw: Draw, trait: str) -> tuple[str, ...]:
    return DEVICE_RESOURCES if trait in draw.traits else RESOURCES


def _fit(draw: Draw) -> Body:
    kind = draw.pick(("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"))
    chosen = draw.some(_resources(draw, "device scoring"), 3, 1)
    weighed = [{"name": name, "weight": draw.number(1, 10)} for name in chosen]
    strategy: Body = {"type": kind, "resources": weighed}
    if kind == "RequestedToCapacityRatio":
        strategy["requestedToCapacityRatio"] = {"shape": _shape(draw)}
    body: Body = {"scoringStrategy": strategy}
    if draw.chance(0.2):
        body["ignoredResources"] = [GPU]
    if draw.chance(0.1):
        body["ignoredResourceGroups"] = ["example.com"]
    return body


def _shape(draw: Draw) -> list[Body]:
    places = sorted({0, 100, draw.number(1, 99), draw.number(1, 99)})
    return [{"utilization": place, "score": draw.number(0, 10)} for place in places]


def _spread(draw: Draw) -> Body:
    if draw.chance(0.3):
        return {"defaultingType": "System"}
    constraints: list[Body] = [
        {
            "maxSkew": draw.number(1, 3),
            "topologyKey": key,
            "whenUnsatisfiable": draw.pick(("DoNotSchedule", "ScheduleAnyway")),
        }
        for key in draw.some((ZONE, HOSTNAME, "rack"), 2)
    ]
    return {"defaultingType": "List", "defaultConstraints": constraints}


def _added(draw: Draw) -> Body:
    term = {
        "matchExpressions": [{"key": "disk", "operator": draw.pick(("Exists", "DoesNotExist"))}]
    }
    if draw.chance(0.5):
        return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": draw.number(1, 100), "preference": term}
        ]
    }
