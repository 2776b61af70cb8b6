"""ReplicaSets, Deployments, StatefulSets, DaemonSets and Jobs on a simulated cluster."""

from __future__ import annotations

import asyncio

import pytest

from bayplan.client.resources import (
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
)
from bayplan.controllers import statefulset
from tests.controllers.cluster import (
    Cluster,
    Json,
    cluster,
    template,
    virtual,
    workload,
)


def ready(pods: list[Json]) -> list[str]:
    return sorted(
        pod["metadata"]["name"]
        for pod in pods
        if any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"]["conditions"])
    )


async def count_ready(made: Cluster, wanted: int, selector: str = "") -> bool:
    pods = await made.list(PODS, selector)
    return len(pods) == wanted == len(ready(pods))


@virtual
async def test_a_replica_set_keeps_its_number_of_pods() -> None:
    async with cluster() as made:
        await made.create(REPLICA_SETS, workload("web", 4))
        await made.until(lambda: count_ready(made, 4))
        victim = (await made.list(PODS))[0]["metadata"]["name"]
        await made.delete(PODS, victim)
        await made.settle()

        pods = await made.list(PODS)
        assert 4 == len(ready(pods))
        assert victim not in [pod["metadata"]["name"] for pod in pods]
        status = (await made.get(REPLICA_SETS, "web"))["status"]
        assert [4, 4, 4] == [
            status[name] for name in ("replicas", "readyReplicas", "availableReplicas")
        ]

        await made.patch(REPLICA_SETS, "web", {"spec": {"replicas": 1}})
        await made.until(lambda: count_ready(made, 1))
        await made.settle()
        assert 1 == (await made.get(REPLICA_SETS, "web"))["status"]["replicas"]


@virtual
async def test_orphans_are_adopted_and_strangers_released() -> None:
    async with cluster() as made:
        body = template({"app": "web"})
        body["metadata"]["name"] = "orphan"
        await made.create(PODS, body)
        await made.create(REPLICA_SETS, workload("web", 2))
        await made.until(lambda: count_ready(made, 2))

        owner = (await made.get(PODS, "orphan"))["metadata"]["ownerReferences"][0]
        assert ("web", True) == (owner["name"], owner["controller"])

        await made.patch(PODS, "orphan", {"metadata": {"labels": {"app": "other"}}})
        await made.until(lambda: count_ready(made, 3))
        assert "ownerReferences" not in (await made.get(PODS, "orphan"))["metadata"]
        assert 2 == len(await made.list(PODS, "app=web"))


@virtual
async def test_a_replication_controller_works_the_same() -> None:
    async with cluster() as made:
        body = workload("old", 2)
        body["spec"]["selector"] = {"app": "old"}
        await made.create(REPLICATION_CONTROLLERS, body)

        await made.until(lambda: count_ready(made, 2))


@virtual
async def test_no_pod_too_many_is_ever_made() -> None:
    """Creating looks at caches that lag; counting what was ever created shows it."""
    async with cluster() as made:
        await made.create(REPLICA_SETS, workload("web", 30))
        await made.until(lambda: count_ready(made, 30))
        await made.settle(60)

        events = made.server.store.watch("", after=0).take()
        created = {
            e.kv.key for e in events if not e.deleted and e.prev is None and "/pods/" in e.kv.key
        }
        assert 30 == len(created)


@virtual
async def test_a_deployment_rolls_to_a_new_template_within_its_limits() -> None:
    async with cluster(nodes=3) as made:
        strategy = {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}
        await made.create(DEPLOYMENTS, workload("web", 6, strategy=strategy))
        await made.until(lambda: count_ready(made, 6))
        await made.settle()
        first = await made.get(DEPLOYMENTS, "web")
        assert "1" == first["metadata"]["annotations"]["deployment.kubernetes.io/revision"]
        image = {"name": "c", "image": "next"}
        patch = {"spec": {"template": {"spec": {"containers": [image]}}}}
        await made.patch(DEPLOYMENTS, "web", patch)
        fewest, most = 6, 6

        async def rolled() -> bool:
            nonlocal fewest, most
            pods = [p for p in await made.list(PODS) if "deletionTimestamp" not in p["metadata"]]
            fewest, most = min(fewest, len(ready(pods))), max(most, len(pods))
            images = {pod["spec"]["containers"][0]["image"] for pod in pods}
            return images == {"next"} and len(ready(pods)) == 6

        await made.until(rolled, 300)
        await made.settle()

        assert fewest >= 5
        assert most <= 7
        status = (await made.get(DEPLOYMENTS, "web"))["status"]
        assert [6, 6, 6] == [
            status[name] for name in ("replicas", "updatedReplicas", "availableReplicas")
        ]
        assert {"Available": "True", "Progressing": "True"} == {
            c["type"]: c["status"] for c in status["conditions"]
        }
        sets = await made.list(REPLICA_SETS)
        assert [0, 6] == sorted(s["spec"]["replicas"] for s in sets)
        again = await made.get(DEPLOYMENTS, "web")
        assert "2" == again["metadata"]["annotations"]["deployment.kubernetes.io/revision"]


@virtual
async def test_a_deployment_rolled_back_uses_the_old_set_again() -> None:
    async with cluster() as made:
        await made.create(DEPLOYMENTS, workload("web", 2))
        await made.until(lambda: count_ready(made, 2))

        async def to(image: str) -> None:
            container = {"name": "c", "image": image}
            patch = {"spec": {"template": {"spec": {"containers": [container]}}}}
            await made.patch(DEPLOYMENTS, "web", patch)
            await made.settle(60)

        await to("next")
        await to("i")

        sets = await made.list(REPLICA_SETS)
        assert 2 == len(sets)
        live = next(s for s in sets if s["spec"]["replicas"])
        assert "i" == live["spec"]["template"]["spec"]["containers"][0]["image"]
        assert "3" == live["metadata"]["annotations"]["deployment.kubernetes.io/revision"]


@virtual
async def test_recreate_never_runs_two_templates_at_once() -> None:
    async with cluster() as made:
        body = workload("web", 3, strategy={"type": "Recreate"})
        await made.create(DEPLOYMENTS, body)
        await made.until(lambda: count_ready(made, 3))
        container = {"name": "c", "image": "next"}
        patch = {"spec": {"template": {"spec": {"containers": [container]}}}}
        await made.patch(DEPLOYMENTS, "web", patch)
        together: set[frozenset[str]] = set()

        async def rolled() -> bool:
            pods = await made.list(PODS)
            together.add(frozenset(pod["spec"]["containers"][0]["image"] for pod in pods))
            return await count_ready(made, 3) and frozenset(("next",)) in together

        await made.until(rolled)
        assert frozenset(("i", "next")) not in together


@virtual
async def test_a_deployment_is_scaled_and_deleted_with_all_it_owns() -> None:
    async with cluster() as made:
        await made.create(DEPLOYMENTS, workload("web", 2))
        await made.until(lambda: count_ready(made, 2))
        await made.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 5}})
        await made.until(lambda: count_ready(made, 5))
        await made.delete(DEPLOYMENTS, "web")

        await made.until(lambda: count_ready(made, 0))
        assert [] == await made.list(REPLICA_SETS)


@virtual
async def test_a_stateful_set_starts_in_order_and_stops_in_reverse() -> None:
    async with cluster(options={"kubelet": {"start-seconds": 2}}) as made:
        claim = {
            "metadata": {"name": "data"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
            },
        }
        body = workload("db", 3, serviceName="db", volumeClaimTemplates=[claim])
        await made.create(STATEFUL_SETS, body)
        seen: list[list[str]] = []

        async def started() -> bool:
            pods = await made.list(PODS)
            names = sorted(pod["metadata"]["name"] for pod in pods)
            if not seen or seen[-1] != names:
                seen.append(names)
                unready = set(names) - set(ready(pods))
                assert unready <= {names[-1]} if names else True
            return await count_ready(made, 3)

        await made.until(started)
        assert [["db-0"], ["db-0", "db-1"], ["db-0", "db-1", "db-2"]] == [s for s in seen if s]
        claims = [c["metadata"]["name"] for c in await made.list(PERSISTENT_VOLUME_CLAIMS)]
        assert ["data-db-0", "data-db-1", "data-db-2"] == claims
        pod = await made.get(PODS, "db-1")
        assert "data-db-1" == pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"]
        assert ("db-1", "db") == (pod["spec"]["hostname"], pod["spec"]["subdomain"])

        await made.patch(STATEFUL_SETS, "db", {"spec": {"replicas": 1}})
        await made.until(lambda: count_ready(made, 1))
        await made.settle()
        assert ["db-0"] == ready(await made.list(PODS))
        assert 1 == (await made.get(STATEFUL_SETS, "db"))["status"]["readyReplicas"]


@virtual
async def test_a_stateful_set_that_wants_billions_hears_of_another_number() -> None:
    async with cluster() as made:
        body = workload("db", 2**31 - 1, serviceName="db", podManagementPolicy="Parallel")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(statefulset, "BURST", 3)
            await made.create(STATEFUL_SETS, body)
            while not await made.exists(PODS, "db-3"):
                await asyncio.sleep(0)
            await made.patch(STATEFUL_SETS, "db", {"spec": {"replicas": 2}})
            await made.until(lambda: count_ready(made, 2))
            await made.settle()

        assert ["db-0", "db-1"] == ready(await made.list(PODS))


@virtual
async def test_a_stateful_set_whose_pods_do_not_work_stops_shrinking() -> None:
    async with cluster() as made:
        told = {"bayplan.dev/readiness": "fail@60"}
        body = workload("db", 3, serviceName="db")
        body["spec"]["template"]["metadata"]["annotations"] = told
        probe = {"exec": {"command": ["true"]}, "periodSeconds": 1, "failureThreshold": 1}
        body["spec"]["template"]["spec"]["containers"][0]["readinessProbe"] = probe
        await made.create(STATEFUL_SETS, body)
        await made.settle(90)
        await made.patch(STATEFUL_SETS, "db", {"spec": {"replicas": 0}})
        await made.settle(60)

        assert 3 == len(await made.list(PODS))


@virtual
async def test_a_stateful_set_updates_from_the_end_down_to_its_partition() -> None:
    async with cluster() as made:
        strategy = {"rollingUpdate": {"partition": 1}}
        await made.create(STATEFUL_SETS, workload("db", 3, updateStrategy=strategy))
        await made.until(lambda: count_ready(made, 3))
        container = {"name": "c", "image": "next"}
        patch = {"spec": {"template": {"spec": {"containers": [container]}}}}
        await made.patch(STATEFUL_SETS, "db", patch)
        await made.settle(60)

        images = {
            pod["metadata"]["name"]: pod["spec"]["containers"][0]["image"]
            for pod in await made.list(PODS)
        }
        assert {"db-0": "i", "db-1": "next", "db-2": "next"} == images


@virtual
async def test_a_daemon_set_follows_the_nodes() -> None:
    async with cluster(nodes=3) as made:
        await made.patch(NODES, "node-2", {"metadata": {"labels": {"disk": "ssd"}}})
        body = workload("agent", 0)
        del body["spec"]["replicas"]
        await made.create(DAEMON_SETS, body)
        await made.until(lambda: count_ready(made, 3))
        places = sorted(pod["spec"]["nodeName"] for pod in await made.list(PODS))
        assert ["node-0", "node-1", "node-2"] == places

        await made.node("node-3")
        await made.until(lambda: count_ready(made, 4))
        selector = {"spec": {"template": {"spec": {"nodeSelector": {"disk": "ssd"}}}}}
        await made.patch(DAEMON_SETS, "agent", selector)
        await made.until(lambda: count_ready(made, 1))
        await made.settle()

        assert "node-2" == (await made.list(PODS))[0]["spec"]["nodeName"]
        status = (await made.get(DAEMON_SETS, "agent"))["status"]
        assert (1, 1, 1) == (
            status["desiredNumberScheduled"],
            status["numberReady"],
            status["updatedNumberScheduled"],
        )


@virtual
async def test_a_daemon_set_stays_on_cordoned_nodes_and_off_tainted_ones() -> None:
    async with cluster(nodes=3) as made:
        taint = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
        await made.patch(NODES, "node-0", {"spec": {"unschedulable": True}})
        await made.patch(NODES, "node-1", {"spec": {"taints": [taint]}})
        await made.settle()
        body = workload("agent", 0)
        del body["spec"]["replicas"]
        await made.create(DAEMON_SETS, body)
        await made.until(lambda: count_ready(made, 2))
        await made.settle()

        places = sorted(pod["spec"]["nodeName"] for pod in await made.list(PODS))
        assert ["node-0", "node-2"] == places


def job(name: str, annotations: Json | None = None, **spec: object) -> Json:
    pods = template({}, annotations=annotations, restartPolicy="Never")
    return {"metadata": {"name": name}, "spec": {"template": pods, **spec}}


async def over(made: Cluster, name: str) -> str:
    conditions = (await made.get(JOBS, name)).get("status", {}).get("conditions") or []
    return next((c["type"] for c in conditions if c["type"] in ("Complete", "Failed")), "")


@virtual
async def test_a_job_runs_to_completion_with_limited_parallelism() -> None:
    async with cluster() as made:
        await made.create(JOBS, job("sum", completions=5, parallelism=2))
        most = 0

        async def finished() -> str:
            nonlocal most
            phases = [pod["status"].get("phase") for pod in await made.list(PODS)]
            most = max(most, sum(phase in ("Pending", "Running") for phase in phases))
            return await over(made, "sum")

        await made.until(finished)
        status = (await made.get(JOBS, "sum"))["status"]
        assert (5, 0) == (status["succeeded"], status.get("active", 0))
        assert 2 == most
        assert "completionTime" in status


@virtual
async def test_a_job_gives_up_after_its_backoff_limit() -> None:
    async with cluster() as made:
        annotations = {"bayplan.dev/exit-code": "3"}
        await made.create(JOBS, job("bad", annotations, backoffLimit=2))
        await made.until(lambda: over(made, "bad"))

        status = (await made.get(JOBS, "bad"))["status"]
        assert 3 == status["failed"]
        failed = next(c for c in status["conditions"] if c["type"] == "Failed")
        assert "BackoffLimitExceeded" == failed["reason"]


@virtual
async def test_an_indexed_job_runs_every_index_once_and_goes_after_its_time() -> None:
    async with cluster() as made:
        body = job(
            "part",
            completions=3,
            parallelism=3,
            completionMode="Indexed",
            ttlSecondsAfterFinished=100,
        )
        await made.create(JOBS, body)
        await made.until(lambda: over(made, "part"))

        assert "0-2" == (await made.get(JOBS, "part"))["status"]["completedIndexes"]
        key = "batch.kubernetes.io/job-completion-index"
        indexes = [pod["metadata"]["annotations"][key] for pod in await made.list(PODS)]
        assert ["0", "1", "2"] == sorted(indexes)
        await made.settle(90)
        assert await made.exists(JOBS, "part")
        await made.settle(20)
        assert not await made.exists(JOBS, "part")
        assert [] == await made.list(PODS)


@virtual
async def test_a_job_past_its_deadline_fails_and_a_suspended_one_does_nothing() -> None:
    async with cluster() as made:
        slow = {"bayplan.dev/run-seconds": "1000"}
        await made.create(JOBS, job("slow", slow, activeDeadlineSeconds=30))
        await made.create(JOBS, job("held", suspend=True))
        await made.until(lambda: over(made, "slow"))

        conditions = (await made.get(JOBS, "slow"))["status"]["conditions"]
        assert "DeadlineExceeded" in [c["reason"] for c in conditions]
        await made.settle()
        assert [] == await made.list(PODS)
        await made.patch(JOBS, "held", {"spec": {"suspend": False}})
        await made.until(lambda: over(made, "held"))


def test_the_same_run_gives_the_same_bytes() -> None:
    """Two runs of the same script leave the same store, revision by revision."""
    assert _script() == _script()


def _script() -> list[tuple[str, bytes, int]]:
    found: list[tuple[str, bytes, int]] = []

    @virtual
    async def scenario() -> None:
        async with cluster(nodes=3) as made:
            await made.create(DEPLOYMENTS, workload("web", 5))
            await made.create(STATEFUL_SETS, workload("db", 2))
            await made.create(JOBS, job("sum", completions=3, parallelism=2))
            await made.settle(30)
            await made.delete(NODES, "node-1")
            await made.settle(100)
            events = made.server.store.watch("", after=0).take()
            found.extend((e.kv.key, e.kv.value, e.revision) for e in events)

    scenario()
    return found
