"""One attempt for one pod: filter, score, and preemption if nothing fits."""

from dataclasses import dataclass, field

from bayplan import api
from tests.reference import interpod, nodes, resources, spread, volumes
from tests.reference.preemption import Preemption, fit_error
from tests.reference.world import SKIP, UU, NodeState, Status, World

ORDER = (
    nodes.NodeUnschedulable,
    nodes.NodeName,
    nodes.TaintToleration,
    nodes.NodeAffinity,
    resources.NodePorts,
    resources.NodeResourcesFit,
    volumes.VolumeRestrictions,
    volumes.NodeVolumeLimits,
    volumes.VolumeBinding,
    volumes.VolumeZone,
    spread.PodTopologySpread,
    interpod.InterPodAffinity,
    resources.NodeResourcesBalancedAllocation,
    resources.ImageLocality,
    nodes.NodeDeclaredFeatures,
)
WEIGHTS = {
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "NodeResourcesFit": 1,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    "NodeResourcesBalancedAllocation": 1,
    "ImageLocality": 1,
}


@dataclass
class Expect:
    """A decision, shaped like `expect` of the recorded ones."""

    prefilter: Status | None = None
    nodes: dict[str, Status | None] = field(default_factory=dict)
    scores: dict[str, dict[str, int]] = field(default_factory=dict)
    totals: dict[str, int] = field(default_factory=dict)
    best: list[str] = field(default_factory=list)
    message: str = ""
    post_filter: dict | None = None

    @property
    def feasible(self) -> list[str]:
        return [name for name, status in self.nodes.items() if status is None]

    def body(self) -> dict:
        ok = {"code": "Success"}
        body = {
            "preFilter": self.prefilter.body() if self.prefilter else ok,
            "nodes": {name: s.body() if s else ok for name, s in self.nodes.items()},
        }
        if self.prefilter:
            return body
        if self.feasible:
            body |= {"scores": self.scores, "totals": self.totals, "best": self.best}
        else:
            body |= {"message": self.message, "postFilter": self.post_filter}
        return body


def plugins_for(world: World, pod: api.Pod, config: dict | None = None) -> list:
    """Make every plugin for one attempt, with the arguments of the configuration."""
    profile = _profile(config)
    args = {item["name"]: item.get("args") or {} for item in profile.get("pluginConfig") or ()}
    return [kind(world, pod, args.get(kind.name, {})) for kind in ORDER]


def _profile(config: dict | None) -> dict:
    return ((config or {}).get("profiles") or [{}])[0]


def _weights(config: dict | None) -> dict[str, int]:
    weights = dict(WEIGHTS)
    score = (_profile(config).get("plugins") or {}).get("score") or {}
    for item in score.get("disabled") or ():
        for name in list(weights) if item["name"] == "*" else [item["name"]]:
            weights.pop(name, None)
    for item in score.get("enabled") or ():
        weights[item["name"]] = item.get("weight") or 1
    return weights


def decide(world: World, pod: api.Pod, config: dict | None = None) -> Expect:
    """Decide where a pod goes, as kube-scheduler's default profile does."""
    expect = Expect()
    active, names = [], None
    for plugin in plugins_for(world, pod, config):
        found = plugin.prefilter()
        if isinstance(found, Status):
            expect.prefilter = found
            expect.nodes = {node.name: found for node in world.nodes}
            return expect
        if found != SKIP:
            active.append(plugin)
        if isinstance(found, set):
            names = found if names is None else names & found
    for node in world.nodes:
        expect.nodes[node.name] = _filter(active, node, names)
    feasible = [node for node in world.nodes if expect.nodes[node.name] is None]
    if feasible:
        _score(expect, world, pod, config, feasible)
    else:
        _post_filter(expect, world, pod, active)
    return expect


def _filter(active, node: NodeState, names: set[str] | None) -> Status | None:
    if names is not None and node.name not in names:
        reason = "node(s) didn't satisfy plugin(s) [NodeAffinity]"
        return Status(UU, "PreFilterResult", (reason,))
    return next((status for plugin in active if (status := plugin.filter(node))), None)


def _score(expect: Expect, world: World, pod, config, feasible: list[NodeState]) -> None:
    weights = _weights(config)
    expect.totals = {node.name: 0 for node in feasible}
    for plugin in plugins_for(world, pod, config):
        if not plugin.has_score or plugin.name not in weights:
            continue
        if plugin.prescore(feasible) == SKIP:
            continue
        raw = {node.name: plugin.score(node) for node in feasible}
        weight = weights[plugin.name]
        scores = {name: weight * score for name, score in plugin.normalize(raw).items()}
        expect.scores[plugin.name] = scores
        for name, score in scores.items():
            expect.totals[name] += score
    top = max(expect.totals.values())
    expect.best = sorted(name for name, total in expect.totals.items() if total == top)


def _post_filter(expect: Expect, world: World, pod, active) -> None:
    statuses = {name: status for name, status in expect.nodes.items() if status}
    message, nominated, victims = Preemption(world, pod, active, statuses).run()
    reasons = ("no new claims to deallocate", message)
    if message:
        status = {"code": "Unschedulable", "plugin": "DynamicResources", "reasons": list(reasons)}
    else:
        status = {"code": "Success"}
    expect.post_filter = {"status": status, "nominatedNodeName": nominated, "victims": victims}
    expect.message = fit_error(len(world.nodes), statuses)
    if message:
        expect.message += " " + ", ".join(reasons)
