"""Deployments in less common states: adopting, scaled in mid-rollout, late, refused."""

from __future__ import annotations

from bayplan.client.resources import DEPLOYMENTS, REPLICA_SETS, RESOURCE_QUOTAS
from tests.controllers.cluster import Cluster, Json, cluster, virtual, workload

REVISION = "deployment.kubernetes.io/revision"


async def condition(made: Cluster, type_: str) -> Json:
    status = (await made.get(DEPLOYMENTS, "web"))["status"]
    return next((c for c in status["conditions"] if c["type"] == type_), {})


async def sizes(made: Cluster) -> list[int]:
    return sorted(s["spec"]["replicas"] for s in await made.list(REPLICA_SETS))


@virtual
async def test_a_set_that_fits_is_adopted_and_one_that_does_not_is_let_go() -> None:
    async with cluster() as made:
        orphan = workload("web", 1, image="old")
        orphan["metadata"] |= {"name": "orphan", "labels": {"app": "web"}}
        orphan["metadata"]["annotations"] = {REVISION: "3546343826724305832"}
        await made.create(REPLICA_SETS, orphan)
        await made.settle()
        await made.create(DEPLOYMENTS, workload("web", 1))
        await made.settle(30)

        adopted = await made.get(REPLICA_SETS, "orphan")
        assert "web" == adopted["metadata"]["ownerReferences"][0]["name"]
        assert 0 == adopted["spec"]["replicas"]
        found = await made.get(DEPLOYMENTS, "web")
        assert "3546343826724305833" == found["metadata"]["annotations"][REVISION]

        await made.patch(REPLICA_SETS, "orphan", {"metadata": {"labels": {"app": "other"}}})
        await made.settle()
        assert "ownerReferences" not in (await made.get(REPLICA_SETS, "orphan"))["metadata"]


@virtual
async def test_scaling_in_mid_rollout_keeps_the_proportions_of_the_sets() -> None:
    async with cluster(nodes=3) as made:
        strategy = {"rollingUpdate": {"maxSurge": 3, "maxUnavailable": 2}}
        await made.create(DEPLOYMENTS, workload("web", 10, strategy=strategy))
        await made.settle(30)
        container = {"name": "c", "image": "next"}
        template = {
            "metadata": {"annotations": {"bayplan.dev/ready": "false"}},
            "spec": {"containers": [container]},
        }
        await made.patch(DEPLOYMENTS, "web", {"spec": {"template": template}})
        await made.settle(30)
        assert [5, 8] == await sizes(made)
        await made.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 30}})
        await made.settle(30)

        assert [13, 20] == await sizes(made)


@virtual
async def test_a_rollout_that_stands_still_misses_its_deadline() -> None:
    async with cluster() as made:
        body = workload("web", 2, progressDeadlineSeconds=60)
        body["spec"]["template"]["metadata"]["annotations"] = {"bayplan.dev/ready": "false"}
        await made.create(DEPLOYMENTS, body)
        await made.settle(30)
        assert "True" == (await condition(made, "Progressing"))["status"]
        await made.settle(60)

        late = await condition(made, "Progressing")
        assert ("False", "ProgressDeadlineExceeded") == (late["status"], late["reason"])


@virtual
async def test_a_condition_of_somebody_else_is_left_alone() -> None:
    async with cluster() as made:
        await made.create(DEPLOYMENTS, workload("web", 1))
        await made.settle(20)
        foreign = [{"type": "StatusUpdate", "status": "True", "message": "Set from e2e test"}]
        body = {"status": {"conditions": foreign}}
        await made.client.patch(DEPLOYMENTS, "web", body, "default", subresource="status")
        await made.settle(20)

        assert "Set from e2e test" == (await condition(made, "StatusUpdate"))["message"]
        assert "True" == (await condition(made, "Available"))["status"]


@virtual
async def test_pods_that_are_refused_are_told_of_until_they_are_not() -> None:
    async with cluster() as made:
        quota = {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}}}
        await made.create(RESOURCE_QUOTAS, quota)
        await made.settle()
        await made.create(DEPLOYMENTS, workload("web", 2))
        await made.settle(30)
        refused = await condition(made, "ReplicaFailure")
        assert ("True", "FailedCreate") == (refused["status"], refused["reason"])
        assert "exceeded quota" in refused["message"]
        await made.delete(RESOURCE_QUOTAS, "q")
        await made.settle(60)

        assert {} == await condition(made, "ReplicaFailure")
        assert "NewReplicaSetAvailable" == (await condition(made, "Progressing"))["reason"]


@virtual
async def test_a_set_rolled_back_to_keeps_its_earlier_numbers_and_the_annotations() -> None:
    async with cluster() as made:
        await made.create(DEPLOYMENTS, workload("web", 1, image="one"))
        await made.settle(30)
        for image in ("two", "one", "two", "one"):
            container = {"name": "c", "image": image}
            template = {"spec": {"containers": [container]}}
            metadata = {"annotations": {"kubernetes.io/change-cause": f"to {image}"}}
            await made.patch(
                DEPLOYMENTS, "web", {"metadata": metadata, "spec": {"template": template}}
            )
            await made.settle(30)

        found = {s["metadata"]["annotations"][REVISION]: s for s in await made.list(REPLICA_SETS)}
        newest, before = (found[number]["metadata"]["annotations"] for number in ("5", "4"))
        assert "1,3" == newest[f"{REVISION}-history"]
        assert "2" == before[f"{REVISION}-history"]
        assert "to one" == newest["kubernetes.io/change-cause"]
