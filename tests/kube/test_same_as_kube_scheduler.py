"""The same scenarios, run by the real kube-scheduler and by ours: everything it tells is equal.

Each scenario creates its nodes and pods on a real kube-apiserver and plays kubelet and user where
needed. Compared are node, nominated node, conditions and events of every pod. Where several nodes
are equally good the scenario says so (`ANY`), and only that the pod was bound is compared.
"""

import asyncio
import re
import tempfile
from collections import Counter
from pathlib import Path

import pytest

from bayplan.client.resources import (
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    POD_DISRUPTION_BUDGETS,
    PODS,
    PRIORITY_CLASSES,
    STORAGE_CLASSES,
)
from bayplan.conformance import live
from bayplan.conformance.fuzz import minor
from bayplan.testing.servers import kube_version, start_kube
from tests.kube.world import (
    HOST,
    ZONE,
    World,
    condition,
    is_bound,
    is_unschedulable,
    node,
    pod,
    spread,
)

pytestmark = [
    pytest.mark.kube,
    pytest.mark.xdist_group("kube-same"),
]
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
QUIET = 0.8
ANY = frozenset({"any"})


def on(name):
    return {"nodeSelector": {HOST: name}}


def term(app, key):
    return {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}


def required(kind, app, key):
    return {
        "affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term(app, key)]}}
    }


async def every_filter_says_why(world):
    taint = {"key": "example.com/t", "effect": "NoSchedule", "value": "v"}
    await world.nodes(
        node("tainted", taints=[taint]),
        node("small", cpu="1"),
        node("elsewhere", zone="other"),
        node("closed", unschedulable=True),
        node("taken"),
    )
    port = [{"name": "c", "image": "pause", "ports": [{"containerPort": 80, "hostPort": 80}]}]
    holder = pod("holder", **on("taken"))
    holder["spec"]["containers"] = port
    await world.pods(holder)
    await world.bound("holder")
    where = [{"key": ZONE, "operator": "DoesNotExist"}]
    affinity = {"nodeSelectorTerms": [{"matchExpressions": where}]}
    wants = pod(
        "wants",
        cpu="2",
        affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": affinity}},
    )
    wants["spec"]["containers"][0]["ports"] = port[0]["ports"]
    await world.pods(wants)
    await world.until("wants", is_unschedulable)
    return {}


async def one_pod_a_node(world):
    await world.nodes(*(node(name) for name in "abc"))
    for i in range(4):
        await world.pods(pod(f"p{i}", app="solo", **required("podAntiAffinity", "solo", HOST)))
        await world.until(f"p{i}", is_bound if i < 3 else is_unschedulable)
    nodes = {item["spec"].get("nodeName", "") for item in await world.all_pods()}
    assert {"a", "b", "c", ""} == nodes
    return dict.fromkeys(("p0", "p1", "p2"), ANY)


async def affinity_to_nobody(world):
    await world.nodes(node("a", zone="one"), node("b", zone="two"))
    await world.pods(pod("lonely", **required("podAffinity", "missing", ZONE)))
    await world.until("lonely", is_unschedulable)
    await world.pods(pod("first", app="self", **required("podAffinity", "self", ZONE), **on("b")))
    await world.bound("first")
    await world.pods(pod("second", app="self", **required("podAffinity", "self", ZONE)))
    await world.bound("second")
    return {}


async def spread_has_one_answer(world):
    await world.nodes(*(node(zone, zone=zone) for zone in ("one", "two", "three")))
    for i, where in enumerate(("one", "one", "two")):
        await world.pods(pod(f"old{i}", app="web", **on(where)))
        await world.bound(f"old{i}")
    hard = {"app": "web", "topologySpreadConstraints": spread("web")}
    await world.pods(pod("fills", **hard))
    await world.bound("fills")
    # Without this policy the other zones would not count for a pod that selects its node.
    all_count = [{**constraint, "nodeAffinityPolicy": "Ignore"} for constraint in spread("web")]
    await world.pods(pod("too-many", app="web", topologySpreadConstraints=all_count, **on("one")))
    await world.until("too-many", is_unschedulable)
    return {}


async def best_by_score(world):
    await world.nodes(node("big", cpu="16"), node("small", cpu="2"))
    await world.pods(pod("roomy", cpu="1"))
    await world.bound("roomy")
    expression = {"key": HOST, "operator": "In", "values": ["small"]}
    liked = [{"weight": 100, "preference": {"matchExpressions": [expression]}}]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": liked}}
    await world.pods(pod("likes-small", affinity=affinity))
    await world.bound("likes-small")
    return {}


async def fewest_victims(world):
    await world.nodes(node("a"), node("b"))
    low = {"grace": 30, "priorityClassName": "low"}
    await world.pods(pod("a1", cpu="2", **low, **on("a")), pod("a2", cpu="2", **low, **on("a")))
    await world.pods(pod("b1", cpu="4", **low, **on("b")))
    await world.bound("a1", "a2", "b1")
    await world.pods(pod("urgent", cpu="4", priorityClassName="high"))
    found = await world.until("urgent", lambda p: p["status"].get("nominatedNodeName"))
    assert "b" == found["status"]["nominatedNodeName"]
    await world.until("b1", lambda p: p["metadata"].get("deletionTimestamp"))
    return {}


async def victims_leave_and_the_pod_comes(world):
    await world.nodes(node("a"))
    await world.pods(pod("old", cpu="3", priorityClassName="low", grace=30))
    await world.bound("old")
    await world.pods(pod("urgent", cpu="3", priorityClassName="high"))
    await world.until("old", lambda p: p["metadata"].get("deletionTimestamp"))
    await world.until("urgent", lambda p: p["status"].get("nominatedNodeName"))
    await world.delete("old")
    await world.bound("urgent")
    return {}


async def budgets_decide(world):
    status = {"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1}
    budget = {
        "metadata": {"name": "budget"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "guarded"}}},
        "status": {**status, "observedGeneration": 1},
    }
    await world.create(POD_DISRUPTION_BUDGETS, budget)  # first, so that it is known by then
    await world.nodes(node("a"), node("b"))
    low = {"cpu": "4", "grace": 30, "priorityClassName": "low"}
    await world.pods(pod("guarded", **low, **on("a")), pod("free", **low, **on("b")))
    await world.bound("guarded", "free")
    await world.pods(pod("urgent", cpu="4", priorityClassName="high"))
    await world.until("free", lambda p: p["metadata"].get("deletionTimestamp"))
    await world.until("urgent", lambda p: p["status"].get("nominatedNodeName"))
    return {}


async def preemption_that_is_not_allowed_or_no_help(world):
    await world.nodes(node("a"), node("b", cpu="1"))
    await world.pods(pod("old", cpu="4", priorityClassName="low", **on("a")))
    await world.bound("old")
    polite = {"metadata": {"name": "polite"}, "value": 500, "preemptionPolicy": "Never"}
    await world.create(PRIORITY_CLASSES, polite)
    await world.pods(
        pod("polite", cpu="4", priorityClassName="polite"),
        pod("huge", cpu="64", priorityClassName="high"),
        pod("equal", cpu="4", priorityClassName="low"),
    )
    for name in ("polite", "huge", "equal"):
        await world.until(name, is_unschedulable)
    await world.delete("polite", resource=PRIORITY_CLASSES)
    return {}


async def gates_and_a_cordon(world):
    await world.nodes(node("a", unschedulable=True))
    gates = [{"name": "example.com/one"}, {"name": "example.com/two"}]
    await world.pods(pod("waits"), pod("gated", schedulingGates=gates))
    await world.until("waits", is_unschedulable)
    await world.client.patch(NODES, "a", {"spec": {"unschedulable": None}})
    await world.bound("waits")
    await world.client.patch(
        PODS, "gated", {"spec": {"schedulingGates": gates[1:]}}, world.namespace
    )
    await world.pods(pod("after"))
    await world.bound("after")  # it stands behind the gated one in the queue
    assert not is_bound(await world.get("gated"))
    return {}


async def claims_that_are_not_ready(world):
    await world.nodes(node("a"))
    immediate = {
        "metadata": {"name": "now"},
        "provisioner": "example.com/p",
        "volumeBindingMode": "Immediate",
    }
    await world.create(STORAGE_CLASSES, immediate)
    claim = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "now",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    await world.create(PERSISTENT_VOLUME_CLAIMS, {"metadata": {"name": "unbound"}, "spec": claim})
    for name in ("missing", "unbound"):
        volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": name}}]
        await world.pods(pod(f"uses-{name}", volumes=volumes))
        await world.until(f"uses-{name}", is_unschedulable)
    return {}


async def others_are_left_alone(world):
    await world.nodes(node("a"))
    await world.pods(pod("foreign", schedulerName="somebody-else"), pod("mine"))
    await world.bound("mine")
    return {}


async def more_pods_than_room(world):
    await world.nodes(*(node(name) for name in "abcd"))
    await world.pods(*(pod(f"p{i}", cpu="1") for i in range(24)))
    async with asyncio.timeout(60):
        while True:
            pods = await world.all_pods()
            if all(is_bound(item) or is_unschedulable(item) for item in pods):
                break
            await asyncio.sleep(0.1)
    placed = Counter(item["spec"].get("nodeName", "none") for item in pods)
    messages = {condition(item).get("message") for item in pods if not is_bound(item)}
    await world.delete(*(item["metadata"]["name"] for item in pods))
    return {"tally": (placed, messages)}


SCENARIOS = {
    scenario.__name__.replace("_", " "): scenario
    for scenario in (
        every_filter_says_why,
        one_pod_a_node,
        affinity_to_nobody,
        spread_has_one_answer,
        best_by_score,
        fewest_victims,
        victims_leave_and_the_pod_comes,
        budgets_decide,
        preemption_that_is_not_allowed_or_no_help,
        gates_and_a_cordon,
        claims_that_are_not_ready,
        others_are_left_alone,
        more_pods_than_room,
    )
}


def told_by(item, told, *, any_node):
    """What a scheduler left on a pod, and in its conditions."""
    where = item["spec"].get("nodeName", "")
    kept = {
        kind: {key: found.get(key, "") for key in ("status", "reason", "message")}
        for kind in ("PodScheduled", "DisruptionTarget")
        if (found := condition(item, kind))
    }
    seen = {"node": where, "events": told, "conditions": kept}
    seen["nominated"] = item["status"].get("nominatedNodeName", "")
    seen["leaving"] = "deletionTimestamp" in item["metadata"]
    text = UUID.sub("<uid>", repr(seen))
    return (
        text.replace(f"'{where}'", "'<any>'").replace(f" to {where}'", " to <any>'")
        if (any_node and where)
        else text
    )


def announced(item):
    """The reason of the event that a scheduler writes about such a pod, if any."""
    if is_bound(item):
        return "Scheduled"
    waits = condition(item).get("reason") == "Unschedulable"
    return "FailedScheduling" if waits else None


async def observe(world, free):
    """All pods as they are once each has its event and nothing has changed for a moment."""
    for item in await world.all_pods():
        if reason := announced(item):
            await world.event(item["metadata"]["name"], reason)
    last, since = {}, asyncio.get_running_loop().time()
    while asyncio.get_running_loop().time() - since < QUIET:
        now = {}
        for item in await world.all_pods():
            name = item["metadata"]["name"]
            told = await world.events(name)
            now[name] = told_by(item, told, any_node=free.get(name) is ANY)
        if now != last:
            last, since = now, asyncio.get_running_loop().time()
        await asyncio.sleep(0.2)
    return {**last, **{key: value for key, value in free.items() if value is not ANY}}


async def run_all(cluster, scheduler, folder):
    """Every scenario with one scheduler process; scenario → what was seen."""
    results = {}
    process = None
    for name, scenario in SCENARIOS.items():
        # A pod must not overtake the node it is made for: each kind has its own watch.
        world = World(cluster, f"{scheduler[:4]}-{len(results)}", folder, node_pause=0.5)
        await world.start()
        if process is None:
            process = World(cluster, "unused", folder).scheduler(scheduler)
        try:
            results[name] = await observe(world, await scenario(world))
        except (AssertionError, TimeoutError) as problem:
            results[name] = (
                f"{scheduler}: {type(problem).__name__} {problem}\n{process.last_words()}"
            )
        finally:
            await world.stop()
    process.stop()
    return results


LIVES = [f"live-{number}" for number in range(3)]


@pytest.fixture(scope="module")
def lives():
    """Random lives of a cluster, played by both."""
    with start_kube() as cluster:
        stage = live.Stage(cluster, minor(kube_version()))
        try:
            return live.compare(stage, LIVES)
        finally:
            stage.stop()


@pytest.mark.parametrize("seed", LIVES)
def test_a_random_life_goes_the_same_way(lives, seed):
    assert lives[seed].drawn or [] == lives[seed].lines


@pytest.fixture(scope="module")
def seen():
    with start_kube() as cluster, tempfile.TemporaryDirectory() as folder:
        return {
            name: asyncio.run(run_all(cluster, name, Path(folder)))
            for name in ("kube-scheduler", "bayplan")
        }


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_both_do_and_say_the_same(seen, scenario):
    real, ours = seen["kube-scheduler"][scenario], seen["bayplan"][scenario]
    assert isinstance(real, dict), real
    assert isinstance(ours, dict), ours
    assert real == ours
