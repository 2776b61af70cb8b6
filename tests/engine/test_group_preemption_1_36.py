"""Behind WorkloadAwarePreemption 1.36 makes room for a pod group as a whole."""

import random

import pytest

from bayplan.config import FeatureGates
from bayplan.conformance.run import Run

GATES = {"GenericWorkload": True, "GangScheduling": True, "OpportunisticBatching": False}
WHOLE = FeatureGates({**GATES, "WorkloadAwarePreemption": True}, "1.36")
EACH = FeatureGates(GATES, "1.36")


def node(name, cpu):
    return {"metadata": {"name": name}, "status": {"allocatable": {"cpu": cpu, "pods": "10"}}}


def pod(name, cpu, on="", group="", priority=0, **spec):
    spec |= {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}
    spec |= {"priority": priority, "schedulerName": "default-scheduler"}
    body = {"metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"}, "spec": spec}
    if on:
        spec["nodeName"] = on
        body["status"] = {"phase": "Running", "startTime": f"2026-01-01T00:00:0{name[-1]}Z"}
    if group:
        spec["schedulingGroup"] = {"podGroupName": group}
    return body


def group(name, count, priority=0, **spec):
    policy = {"gang": {"minCount": count}}
    meta = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    return {"metadata": meta, "spec": {"schedulingPolicy": policy, "priority": priority, **spec}}


def first_step(objects, gates=WHOLE):
    return Run({"objects": objects}, gates).run()[0]


def gang(count, cpu, **spec):
    return [pod(f"g{n}", cpu, group="g", priority=10, **spec) for n in range(count)]


def told(step):
    (condition,) = step["podgroups"]["default/g"]["conditions"]
    return condition["message"]


def crowded(*more, count=2):
    nodes = [node("a", "4"), node("b", "4")]
    running = [pod("p1", "4", "a"), pod("p2", "2", "b"), pod("p3", "2", "b", priority=5)]
    return {
        "nodes": nodes,
        "podGroups": [group("g", count, 10), *more],
        "pods": running + gang(count, "2"),
    }


def test_the_least_important_pods_go_with_which_the_group_fits():
    step = first_step(crowded())

    assert sorted(step["deleted"]) == ["default/p1"]  # p3 and p2, who came later, may stay
    assert told(step) == "pod group is unschedulable"
    assert "nominatedNodeName" not in str(step["pods"])


def test_without_the_gate_each_pod_preempts_for_itself():
    assert "nominatedNodeName" in str(first_step(crowded(), EACH)["pods"])


def test_a_pod_of_the_group_says_that_it_does_not_preempt():
    message = first_step(crowded())["events"]["default/g0"]["FailedScheduling"]

    assert message.endswith("preemption: not eligible due to workload aware preemption enabled")


def test_pods_that_fit_are_promised_their_nodes():
    objects = crowded()
    objects["nodes"].append(node("c", "2"))
    step = first_step(objects)
    named = [key for key, body in step["pods"].items() if body.get("nominatedNodeName") == "c"]

    assert len(named) == 1
    assert step["events"][named[0]]["FailedScheduling"] == "pod group is unschedulable"


@pytest.mark.parametrize(("mode", "gone"), [("PodGroup", ["p1", "p2"]), ("Pod", ["p1"])])
def test_a_group_that_leaves_as_one_goes_as_a_whole(mode, gone):
    objects = crowded(group("old", 2, disruptionMode=mode))
    for body in objects["pods"][:2]:
        body["spec"]["schedulingGroup"] = {"podGroupName": "old"}

    assert sorted(first_step(objects)["deleted"]) == [f"default/{name}" for name in gone]


@pytest.mark.parametrize(
    ("change", "remedy"),
    [
        ({"priority": 0}, "No preemption victims found for incoming preemptor"),
        ({"count": 9}, "pod group is unschedulable"),
        ({"policy": "Never"}, "not eligible due to preemptionPolicy=Never."),
    ],
)
def test_the_group_is_told_why_there_is_no_room(change, remedy):
    objects = crowded(count=change.get("count", 2))
    if "priority" in change:
        objects["podGroups"] = [group("g", 2, 0)]
    for body in objects["pods"][3:]:
        body["spec"]["preemptionPolicy"] = change.get("policy", "PreemptLowerPriority")
    step = first_step(objects)

    assert "deleted" not in step
    assert told(step) == f"pod group is unschedulable, {remedy}"


def test_pods_of_a_unit_that_breaks_a_budget_use_up_no_other():
    """u1 breaks a budget, so u2 is not asked: v3 is not protected and w2, which is older, stays."""

    def budget(name, allowed, *apps):
        chosen = {"matchExpressions": [{"key": "app", "operator": "In", "values": list(apps)}]}
        meta = {"name": name, "namespace": "default"}
        return {
            "metadata": meta,
            "spec": {"selector": chosen},
            "status": {"disruptionsAllowed": allowed},
        }

    running = [
        *(pod(name, "1", "a", group="u") for name in ("u1", "u2")),
        *(pod(name, "1", "a") for name in ("v3", "w2")),
    ]
    for body in running:
        body["metadata"]["labels"] = {"app": body["metadata"]["name"]}
    objects = {
        "nodes": [node("a", "4")],
        "podGroups": [group("g", 1, 10), group("u", 1, disruptionMode="PodGroup")],
        "podDisruptionBudgets": [budget("first", 0, "u1"), budget("second", 1, "u2", "v3")],
        "pods": running + gang(1, "1"),
    }

    assert first_step(objects)["deleted"] == ["default/v3"]


def drawn(rng):
    """A small cluster of pods with one CPU or two, some of a group, and a gang of equal pods."""
    mode = rng.choice(("PodGroup", "Pod"))
    other = group("u", 1, rng.choice((1, 4, 9)), disruptionMode=mode)
    if rng.random() < 0.3:
        del other["spec"]["priority"]
    free = {name: rng.choice((2, 3, 4)) for name in "ab"}
    nodes, running = [node(name, str(cpu)) for name, cpu in free.items()], []
    starts = rng.sample(range(10), 6)
    for start in starts:
        on, cpu = rng.choice("ab"), rng.choice((1, 1, 2))
        if free[on] >= cpu:
            free[on] -= cpu
            its = "u" if rng.random() < 0.4 else ""
            body = pod(f"r{start}", str(cpu), on, its, priority=rng.choice((0, 0, 2, 4, 9)))
            body["metadata"]["labels"] = {"app": rng.choice("xy")}
            running.append(body)
    count, cpu = rng.choice((1, 2, 3)), rng.choice((1, 2))
    allowed = rng.choice((None, 0, 1, 2))
    budget = {
        "metadata": {"name": "b", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "x"}}},
        "status": {"disruptionsAllowed": allowed},
    }
    objects = {
        "nodes": nodes,
        "podGroups": [group("g", count, rng.choice((1, 2, 5))), other],
        "podDisruptionBudgets": [] if allowed is None else [budget],
        "pods": running,
    }
    return objects, count, cpu


def expected(objects, count, cpu):
    """Whom a plain search takes away: each unit stays that leaves enough room for the gang."""

    def fits(pods):
        free = {n["metadata"]["name"]: int(n["status"]["allocatable"]["cpu"]) for n in nodes}
        for body in pods:
            free[body["spec"]["nodeName"]] -= needs(body)
        return sum(left // cpu for left in free.values()) >= count

    def needs(body):
        return int(body["spec"]["containers"][0]["resources"]["requests"]["cpu"])

    nodes, (gang, group), running = objects["nodes"], objects["podGroups"], objects["pods"]
    if fits(running):
        return []
    together = group["spec"]["disruptionMode"] == "PodGroup"
    members = [body for body in running if "schedulingGroup" in body["spec"]]
    units = [[body] for body in running if not (together and body in members)]
    units += [members] if together and members else []

    def priority(unit):
        if together and unit[0] in members:
            return group["spec"].get("priority", 0)
        return unit[0]["spec"]["priority"]

    def importance(unit):
        start = min(body["status"]["startTime"] for body in unit)
        return -priority(unit), unit[0] not in members, -len(unit), start

    units = [unit for unit in units if priority(unit) < gang["spec"]["priority"]]
    units.sort(key=importance)
    stay = [body for body in running if not any(body in unit for unit in units)]
    if not units or not fits(stay):
        return []
    budgets = objects["podDisruptionBudgets"]
    left = budgets[0]["status"]["disruptionsAllowed"] if budgets else len(running)
    breaking, others = [], []
    for unit in units:
        counted = [body for body in unit if body["metadata"]["labels"]["app"] == "x"]
        (breaking if len(counted) > left else others).append(unit)
        left = max(left - len(counted), 0)
    for unit in (*breaking, *others):
        if fits([*stay, *unit]):
            stay += unit
    return sorted(f"default/{body['metadata']['name']}" for body in running if body not in stay)


def test_victims_are_those_of_a_plain_search():
    rng, sizes = random.Random(1), set()
    for number in range(120):
        objects, count, cpu = drawn(rng)
        wanted = expected(objects, count, cpu)
        asked = {**objects, "pods": objects["pods"] + gang(count, str(cpu))}
        assert wanted == sorted(first_step(asked).get("deleted", [])), (number, objects)
        sizes.add(len(wanted))
    assert {0, 1, 2, 3} <= sizes
