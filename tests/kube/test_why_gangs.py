"""Pod groups: `why` says what the real kube-scheduler says, and a change frees the whole gang.

The scheduler and the API server have the gates of pod groups. Each group waits for another reason;
its pods must be told the very sentences that are in their conditions. Which of several pods alike
is the one that finds no node hangs on when the scheduler first saw each, so groups are compared
whole.
"""

import asyncio
from collections import Counter
from itertools import count

import pytest

from bayplan.client.resources import Resource
from bayplan.conformance.fuzz import minor
from bayplan.inspect import Cluster, load_settings
from bayplan.testing.servers import kube_version, start_kube
from tests.kube.world import World, condition, is_bound, node, pod

pytestmark = [
    pytest.mark.kube,
    pytest.mark.xdist_group("kube-why-gangs"),
    pytest.mark.timeout(600),
]
NUMBERS = count()
SERVED = {"1.36": "v1alpha2", "1.37": "v1beta1"}
GATES = {"1.36": "GenericWorkload=true,GangScheduling=true", "1.37": "GenericWorkload=true"}
TAINT = [{"key": "kept", "value": "yes", "effect": "NoSchedule"}]
GROUPS = {
    "cpu": (3, [{"cpu": "1500m"}] * 3),
    "huge": (2, [{"cpu": "9"}] * 2),
    "selector": (2, [{"nodeSelector": {"disk": "ssd"}}] * 2),
    "last": (4, [{"cpu": "100m"}] * 3 + [{"cpu": "9"}]),
    "tolerant": (3, [{"cpu": "3", "tolerations": [{"key": "kept", "operator": "Exists"}]}] * 3),
}
"""Needed at once, and what its pods ask for."""


@pytest.fixture(scope="module")
def control_plane():
    version = minor(kube_version())
    flags = (
        f"--feature-gates={GATES[version]}",
        f"--runtime-config=scheduling.k8s.io/{SERVED[version]}=true",
    )
    with start_kube(flags=flags) as cluster:
        yield cluster


@pytest.fixture
async def world(control_plane, tmp_path):
    made = World(control_plane, f"gangs-{next(NUMBERS)}", tmp_path)
    await made.start()
    await made.nodes(node("a", cpu="2"), node("b", cpu="2"), node("kept", cpu="8", taints=TAINT))
    made._schedulers.append(
        control_plane.kube_scheduler(
            made.config(parallelism=1), f"--feature-gates={GATES[minor(kube_version())]}"
        )
    )
    try:
        yield made
    finally:
        await made.stop()


def groups():
    return Resource("scheduling.k8s.io", SERVED[minor(kube_version())], "podgroups", "PodGroup")


async def make(world, name):
    needed, pods = GROUPS[name]
    policy = {"gang": {"minCount": needed}}
    body = {"metadata": {"name": name}, "spec": {"schedulingPolicy": policy}}
    await world.create(groups(), body)
    names = [f"{name}-{number}" for number in range(len(pods))]
    for pod_name, spec in zip(names, pods, strict=True):
        await world.pods(pod(pod_name, schedulingGroup={"podGroupName": name}, **spec))
    return names


def ask(world):
    version = minor(kube_version())
    settings = load_settings(feature_gates=GATES[version], emulated_version=version)
    return Cluster.from_kubeconfig(world.cluster.kubeconfig, settings=settings)


async def test_every_pod_of_every_gang_is_told_what_the_scheduler_says(world):
    """One group at a time: a group that waits would be tried again by the events of the next."""
    differ, said = [], 0
    for name in GROUPS:
        names = await make(world, name)
        for each in names:
            await world.until(each, lambda item: condition(item).get("message"))
        for _ in range(20):  # a condition may be of an attempt before the group was complete
            mine = (await asyncio.to_thread(lambda: ask(world).why_pending(world.namespace))).pods
            told, heard = Counter(a.message for a in mine), Counter(a.observed for a in mine)
            if told == heard:
                break
            await asyncio.sleep(0.5)
        said += len(mine)
        differ += [(name, told - heard, heard - told)] if told != heard else []
        assert all(a.identical or "another order" in a.difference for a in mine), mine
        assert all(sum(row.nodes for row in a.funnel) == a.nodes for a in mine)
        for each in names:
            await world._remove_pod(each)

    assert [] == differ
    assert sum(len(GROUPS[name][1]) for name in GROUPS) == said


@pytest.mark.parametrize("name", ["cpu", "tolerant"])
async def test_nodes_that_are_suggested_let_the_whole_gang_be_bound(world, name):
    names = await make(world, name)
    for each in names:
        await world.until(each, lambda item: condition(item).get("message"))
    answer = await asyncio.to_thread(lambda: ask(world).why(f"{world.namespace}/{names[0]}"))

    fix = next(fix for fix in answer.fixes if fix.objects)
    await world.nodes(*fix.objects)

    for each in names:
        await world.until(each, is_bound)
    for each in names:
        await world._remove_pod(each)
