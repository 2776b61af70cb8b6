"""Templates of DaemonSets and StatefulSets are kept as ControllerRevisions."""

from __future__ import annotations

import json
from typing import Any

from bayplan.client.resources import DAEMON_SETS, PODS, STATEFUL_SETS
from bayplan.controllers.revisions import CONTROLLER_REVISIONS
from tests.controllers.cluster import Cluster, cluster, virtual, workload


def _image(image: str) -> dict[str, Any]:
    containers = [{"name": "c", "image": image}]
    return {"spec": {"template": {"spec": {"containers": containers}}}}


async def _history(made: Cluster) -> list[tuple[int, str]]:
    return sorted(
        (r["revision"], r["data"]["spec"]["template"]["spec"]["containers"][0]["image"])
        for r in await made.list(CONTROLLER_REVISIONS)
    )


@virtual
async def test_a_template_that_comes_back_gets_the_highest_number() -> None:
    async with cluster() as made:
        body = workload("ds", 1)
        del body["spec"]["replicas"]
        await made.create(DAEMON_SETS, body)
        for image in ("i:2", "i"):
            await made.settle(60)
            await made.patch(DAEMON_SETS, "ds", _image(image))
        await made.settle(60)

        assert [(2, "i:2"), (3, "i")] == await _history(made)
        for revision in await made.list(CONTROLLER_REVISIONS):  # upstream compares them as text
            text = json.dumps(revision["data"])
            assert text == json.dumps(revision["data"], sort_keys=True)


@virtual
async def test_old_revisions_go_beyond_the_limit() -> None:
    async with cluster() as made:
        body = workload("sts", 1, serviceName="s", revisionHistoryLimit=1)
        await made.create(STATEFUL_SETS, body)
        for number in range(2, 6):
            await made.settle(60)
            await made.patch(STATEFUL_SETS, "sts", _image(f"i:{number}"))
        await made.settle(60)

        assert [(4, "i:4"), (5, "i:5")] == await _history(made)


@virtual
async def test_a_pod_below_the_partition_is_made_again_as_it_was() -> None:
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
    async with cluster() as made:
        body = workload("sts", 2, serviceName="s", updateStrategy=rolling)
        await made.create(STATEFUL_SETS, body)
        await made.settle(60)
        await made.patch(STATEFUL_SETS, "sts", _image("i:2"))
        await made.settle(60)
        await made.delete(PODS, "sts-0")
        await made.settle(60)

        pods = {
            p["metadata"]["name"]: p["spec"]["containers"][0]["image"]
            for p in await made.list(PODS)
        }
        assert {"sts-0": "i", "sts-1": "i:2"} == pods
