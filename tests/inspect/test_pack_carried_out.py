"""A plan of moves, carried out step by step in a scenario, ends as promised.

At every moment no pod is left without a node and no budget is broken.
"""

from bayplan.inspect import Cluster
from bayplan.inspect.pack import Wishes, pack
from bayplan.sim import ScenarioClient, run_scenario

KINDS = ("Node", "Pod", "PodDisruptionBudget", "ReplicaSet", "Deployment", "StatefulSet")


def owner(kind, name, replicas, cpu, apart=False):
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"app": name}},
    }
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "serviceName": name,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {
                    "terminationGracePeriodSeconds": 5,
                    "containers": [
                        {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
                    ],
                    **({"affinity": affinity} if apart else {}),
                },
            },
        },
    }


def budget(name, least):
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": {"minAvailable": least, "selector": {"matchLabels": {"app": name}}},
    }


async def fragmented(client):
    """Eight nodes that were full once: what is left would fit on fewer."""
    await client.nodes(8, cpu="4")
    await client.create(owner("Deployment", "web", 16, "1"), owner("Deployment", "api", 6, "2"))
    await client.create(owner("StatefulSet", "db", 3, "500m", apart=True))
    await client.settle()
    await client.scale("Deployment", "web", 7)
    await client.scale("Deployment", "api", 3)
    await client.create(budget("web", 6), budget("db", 2), budget("api", 2))
    await client.settle()


async def picture(client):
    """The cluster as `bayplan pack` would read it."""
    items = []
    for kind in KINDS:
        found = await client.list(kind, namespace="" if kind == "Node" else "default")
        items += [{"kind": kind} | item for item in found]
    for item in items:
        item.setdefault("apiVersion", "v1")
    return Cluster.from_objects(items)


async def carry_out(client, step):
    if step.do in ("cordon", "uncordon"):
        for name in step.nodes:
            await client.cordon(name, step.do == "cordon")
        return
    before = {pod["metadata"]["name"] for pod in await client.list("Pod")}
    await client.evict(step.pod.partition("/")[2])  # refused, and so a failure, if a budget says no
    await client.settle()
    pods = await client.list("Pod")
    made = [p for p in pods if p["metadata"]["name"] not in before] or [
        p for p in pods if p["metadata"]["name"] == step.pod.partition("/")[2]
    ]
    assert [step.target] == [pod["spec"].get("nodeName") for pod in made], step
    assert all(pod["spec"].get("nodeName") for pod in pods), f"a pod waits after {step}"
    for item in await client.list("PodDisruptionBudget"):
        status = item["status"]
        assert status["currentHealthy"] >= status["desiredHealthy"], f"{item} after {step}"


def test_a_plan_that_is_carried_out_ends_as_promised():
    seen = {}

    async def scenario(client: ScenarioClient) -> None:
        await fragmented(client)
        found = pack(await picture(client), Wishes(plan=True, seconds=120.0))
        plan = found.plan
        assert plan.complete, plan.why_not
        assert len(plan.empties) >= 3
        for step in plan.steps:
            await carry_out(client, step)
        pods = await client.list("Pod")
        used = {pod["spec"]["nodeName"] for pod in pods}
        seen.update(plan=plan, found=found, used=used, pods=len(pods))
        assert not used & set(plan.empties)
        assert found.would_do == len(used)

    result = run_scenario(scenario)

    assert [] == result.failures
    assert 13 == seen["pods"]
    assert seen["found"].proven
