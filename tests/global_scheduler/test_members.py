"""Three member clusters with schedulers of their own, one global scheduler above them."""

import asyncio
import json
from contextlib import AsyncExitStack, asynccontextmanager

import msgspec
import pytest

from bayplan.api import yaml
from bayplan.apiserver.serving import Settings
from bayplan.apiserver.serving import running as api_server
from bayplan.client import AsgiTransport, Client
from bayplan.client.resources import CUSTOM_KINDS, DEPLOYMENTS, NODES, PODS, Resource
from bayplan.config.gates import DEFAULT_GATES
from bayplan.config.load import default_config
from bayplan.global_scheduler.copies import wanted
from bayplan.global_scheduler.draining import drain
from bayplan.global_scheduler.kinds import ALLOCATIONS, Meta, Placeable
from bayplan.global_scheduler.run import Options, running
from bayplan.plugins import in_tree_registry
from bayplan.scheduler.cluster import local_cluster
from tests.global_scheduler.test_placing import FOLDER, SAMPLE
from tests.waiting import until, until_gone, wait_for

FLAVORS = {
    "flavors": [
        {
            "region": "east",
            "id": "k2",
            "vcpus": "2",
            "ram": 1024,
            "os_extra_specs": {"resource_type": "kubernetes"},
        }
    ]
}
TEMPLATE = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {
                "containers": [
                    {
                        "name": "c",
                        "image": "pause",
                        "resources": {"requests": {"cpu": "1", "memory": "512Mi"}},
                    }
                ]
            },
        },
    },
}


def node(name, cpu):
    room = {"cpu": str(cpu), "memory": "8Gi", "pods": "110"}
    return {
        "metadata": {"name": name, "annotations": {"bayplan.dev/simulated": "true"}},
        "status": {
            "capacity": room,
            "allocatable": room,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


@asynccontextmanager
async def federation(tmp_path):
    """Members m0, m1, m2 (4, 8 and 6 cores) and the global control plane."""
    async with AsyncExitStack() as stack:
        members, entries = [], []
        for number, cores in enumerate((4, 8, 6)):
            kubeconfig = tmp_path / f"m{number}.kubeconfig"
            cluster = await stack.enter_async_context(
                local_cluster(
                    Settings(store="memory", kubeconfig_out=kubeconfig),
                    config=default_config(),
                    gates=DEFAULT_GATES,
                    registry=in_tree_registry(),
                )
            )
            await cluster.client.create(NODES, node(f"n{number}", cores))
            members.append(cluster)
            entries.append(
                {
                    "name": f"m{number}",
                    "region": "east",
                    "availability_zone": f"z{number}",
                    "kubeconfig": str(kubeconfig),
                }
            )
        conf = tmp_path / "conf"
        conf.mkdir()
        for name in ("conf.yaml", "edgecloud_policy.yaml"):
            (conf / name).write_bytes((SAMPLE / name).read_bytes())
        (conf / "sites.json").write_text('{"sites": []}')
        (conf / "site_nodes.json").write_text('{"site_nodes": []}')
        (conf / "flavors.json").write_text(json.dumps(FLAVORS))
        (conf / "members.yaml").write_text(yaml.dump({"members": entries}))
        served = await stack.enter_async_context(api_server(Settings(store="memory")))
        client = Client(AsgiTransport(served.server, token=served.token))
        for crd in yaml.load_all((FOLDER / "crds.yaml").read_bytes()):
            await client.create(CUSTOM_KINDS, crd)
        options = Options(conf, host="127.0.0.1", port=0, store="memory")
        scheduler = await stack.enter_async_context(running(options, client))
        await wait_for(lambda: cores_of(scheduler) == {"m0": 4, "m1": 8, "m2": 6})
        yield client, scheduler, members


def cores_of(scheduler):
    """What is known of the members that are there."""
    table = scheduler.service.table
    found = table.pools.get("kubernetes")
    return {
        site.id: found.vcpus[table.row_of(site.id)] for site in table.sites if found and site.open
    }


def allocation(name, replicas=1):
    resource = {"name": "r", "flavors": [{"flavor_id": "k2"}]}
    return {
        "apiVersion": ALLOCATIONS.api_version,
        "kind": "Allocation",
        "metadata": {"name": name},
        "spec": {
            "resource_group": {"resources": [resource]},
            "replicas": replicas,
            "template": TEMPLATE,
        },
    }


async def test_an_allocation_is_placed_dispatched_scheduled_and_reported_back(tmp_path):
    async with federation(tmp_path) as (client, scheduler, members):
        await client.create(ALLOCATIONS, allocation("web"), "default")
        placed = await until(
            client,
            ALLOCATIONS,
            "web",
            lambda item: any(
                member["running"] == 2 for member in item.get("status", {}).get("members", [])
            ),
        )
        [group] = placed["status"]["groups"]
        assert "m1" == group["cluster"]  # the one with most room
        [member] = placed["status"]["members"]
        assert [{"name": "web-0", "there": True}] == member["objects"]
        pods = msgspec.json.decode(await members[1].client.list(PODS, "default"))["items"]
        assert {"n1"} == {pod["spec"]["nodeName"] for pod in pods}

        await client.delete(ALLOCATIONS, "web", "default")
        await until_gone(client, ALLOCATIONS, "web")
        found = msgspec.json.decode(await members[1].client.list(DEPLOYMENTS, "default"))["items"]
        assert [] == [d for d in found if not d["metadata"].get("deletionTimestamp")]
        async with asyncio.timeout(60):
            while scheduler.service.ledger.records:
                await asyncio.sleep(0.02)


async def test_two_allocations_with_one_template_name_leave_each_other_s_copies_alone(tmp_path):
    async with federation(tmp_path) as (client, _, members):
        pinned = {"selector": {"site_id": "m1"}}
        first = allocation("first")
        first["spec"] |= pinned
        await client.create(ALLOCATIONS, first, "default")
        first = await until(client, ALLOCATIONS, "first", lambda item: reported(item, "running", 2))
        second = allocation("second")
        second["spec"] |= pinned
        await client.create(ALLOCATIONS, second, "default")

        second = await until(client, ALLOCATIONS, "second", lambda item: reported(item, "problem"))
        await client.delete(ALLOCATIONS, "second", "default")
        await until_gone(client, ALLOCATIONS, "second")

        [deployment] = msgspec.json.decode(await members[1].client.list(DEPLOYMENTS, "default"))[
            "items"
        ]
    says = "deployments default/web-0 is there and belongs to another; rename the template"
    assert says == second["status"]["members"][0]["problem"]
    assert [{"name": "web-0", "there": False}] == second["status"]["members"][0]["objects"]
    labels = deployment["metadata"]["labels"]
    assert first["metadata"]["uid"] == labels["bayplan.dev/allocation"]
    assert "deletionTimestamp" not in deployment["metadata"]


def reported(item, fact, value=None):
    members = item.get("status", {}).get("members", [])
    return any(m.get(fact) if value is None else m.get(fact) == value for m in members)


def is_running(count):
    return lambda item: any(
        member["running"] == count for member in item.get("status", {}).get("members", [])
    )


async def test_a_pod_that_changes_costs_its_own_allocation_only(tmp_path, monkeypatch):
    calls = []
    whole = Client.request

    async def counted(self, method, path, *args, **kwargs):
        if "/allocations/" in path or "/deployments" in path:
            calls.append((method, path))
        return await whole(self, method, path, *args, **kwargs)

    async with federation(tmp_path) as (client, _, members):
        for name in ("one", "two", "three"):
            body = allocation(name)
            body["spec"]["template"] = TEMPLATE | {"metadata": {"name": name}}
            await client.create(ALLOCATIONS, body, "default")
        for name in ("one", "two", "three"):
            settled = await until(client, ALLOCATIONS, name, is_running(2))
        cluster = settled["status"]["groups"][0]["cluster"]
        there = members[int(cluster[1:])].client
        pods = msgspec.json.decode(await there.list(PODS, "default"))["items"]
        mine = next(pod for pod in pods if pod["metadata"]["name"].startswith("three"))

        monkeypatch.setattr(Client, "request", counted)
        failed = {"status": {"phase": "Failed"}}
        await there.patch_status(PODS, mine["metadata"]["name"], failed, "default", kind="merge")
        await until(client, ALLOCATIONS, "three", lambda item: not is_running(2)(item))

        asked = [path for _, path in calls if "/allocations/" in path]
        assert all("/allocations/three" in path for path in asked)
        assert {"PATCH"} == {method for method, path in calls if path.endswith("/three/status")}
        assert [] == [path for method, path in calls if method == "POST"]


async def test_a_copy_that_somebody_deletes_is_made_again(tmp_path):
    async with federation(tmp_path) as (client, _, members):
        await client.create(ALLOCATIONS, allocation("web"), "default")
        placed = await until(client, ALLOCATIONS, "web", is_running(2))
        there = members[int(placed["status"]["groups"][0]["cluster"][1:])].client
        [found] = msgspec.json.decode(await there.list(DEPLOYMENTS, "default"))["items"]

        await there.delete(DEPLOYMENTS, found["metadata"]["name"], "default")

        async with asyncio.timeout(60):
            while True:
                now = msgspec.json.decode(await there.list(DEPLOYMENTS, "default"))["items"]
                uids = {each["metadata"]["uid"] for each in now}
                if uids - {found["metadata"]["uid"]}:
                    break
                await asyncio.sleep(0.05)


def deployments(found):
    return {
        each["metadata"]["name"]
        for each in msgspec.json.decode(found)["items"]
        if not each["metadata"].get("deletionTimestamp")
    }


async def where(members):
    """The copies in each member."""
    found = [await member.client.list(DEPLOYMENTS, "default") for member in members]
    return [deployments(each) for each in found]


async def test_the_workload_of_a_drained_site_is_made_elsewhere_before_it_goes(
    tmp_path, monkeypatch
):
    seen = []
    whole = Client.request

    async def noted(self, method, path, *args, **kwargs):
        if "/deployments" in path and method in ("POST", "DELETE"):
            pods = members[0].client.list(PODS, "default"), members[2].client.list(PODS, "default")
            bound = [
                bool(pod["spec"].get("nodeName"))
                for each in pods
                for pod in msgspec.json.decode(await each)["items"]
            ]
            seen.append((method, path.rpartition("/")[2], bound))
        return await whole(self, method, path, *args, **kwargs)

    async with federation(tmp_path) as (client, scheduler, members):
        await client.create(ALLOCATIONS, allocation("web", replicas=2), "default")
        placed = await until(client, ALLOCATIONS, "web", lambda item: len(running_in(item)) >= 1)
        assert "m1" in {group["cluster"] for group in placed["status"]["groups"]}
        await until(client, ALLOCATIONS, "web", lambda item: sum(running_in(item).values()) == 4)
        before = await where(members)
        monkeypatch.setattr(Client, "request", noted)

        done = await drain(scheduler.service, "m1")
        after = await until(client, ALLOCATIONS, "web", lambda item: left(item, "m1"))
        await until(client, ALLOCATIONS, "web", lambda item: sum(running_in(item).values()) == 4)

        assert done.empty
        made = await where(members)
        assert set() == made[1] != before[1]
        assert {"web-0", "web-1"} == made[0] | made[2]
        assert sum(map(len, made)) == 2
        for method, _, bound in seen:
            assert method == "POST" or (bound and all(bound))
        record = scheduler.service.get(after["metadata"]["uid"])
        assert "m1 drained" in record.history[-1].what
        assert [g["site"] for g in after["status"]["groups"]] == [
            group.selected.node_id for group in record.groups
        ]


def running_in(item):
    members = item.get("status", {}).get("members", [])
    return {member["name"]: member["running"] for member in members if member["running"]}


def left(item, member):
    status = item.get("status", {})
    names = {group["cluster"] for group in status.get("groups", [])}
    marks = status.get("dispatched", [])
    return member not in names and not any(mark.startswith(f"{member}/") for mark in marks)


async def test_a_copy_in_a_member_that_is_away_goes_when_the_hub_is_back(tmp_path):
    """What may be where is in the object, so a restart of the hub forgets nothing."""
    async with federation(tmp_path) as (client, scheduler, members):
        pinned = allocation("web")
        pinned["spec"]["selector"] = {"regions": [{"region": "east"}]}
        await client.create(ALLOCATIONS, pinned, "default")
        await until(client, ALLOCATIONS, "web", is_running(2))
        # as a hub leaves it that dies after it wrote the move down and before it carried it out
        body = {"status": {"dispatched": ["m1/0", "m2/7"]}}
        stray = TEMPLATE | {
            "metadata": {
                "name": "web-7",
                "labels": {
                    "bayplan.dev/allocation": scheduler.service.ledger.records.copy().popitem()[0],
                    "bayplan.dev/group": "7",
                },
            }
        }
        await members[2].client.create(DEPLOYMENTS, stray, "default")
        await client.patch_status(ALLOCATIONS, "web", body, "default", kind="merge")

        await until(client, ALLOCATIONS, "web", lambda item: left(item, "m2"))
        assert [set(), {"web-0"}, set()] == await where(members)


async def test_a_member_that_goes_offline_receives_nothing_new(tmp_path):
    async with federation(tmp_path) as (client, scheduler, members):
        members[1].running.stop()
        await wait_for(lambda: online(scheduler) == {"m0", "m2"})

        await client.create(ALLOCATIONS, allocation("late", replicas=2), "default")
        placed = await until(
            client, ALLOCATIONS, "late", lambda item: item.get("status", {}).get("groups")
        )

    assert {"m0", "m2"} >= {group["cluster"] for group in placed["status"]["groups"]}


def online(scheduler):
    return {site.id for site in scheduler.service.table.sites if site.open}


async def test_the_inventory_may_be_custom_resources(tmp_path):
    async with federation(tmp_path) as (client, scheduler, _):
        site = Resource("bayplan.dev", "v1alpha1", "sites", "Site", namespaced=False)
        body = {
            "apiVersion": "bayplan.dev/v1alpha1",
            "kind": "Site",
            "metadata": {"name": "edge-7"},
            "spec": {
                "region": "north",
                "availability_zone": "n1",
                "hosts": [{"resource_type": "gp", "total_vcpus": 8, "total_mem": 16}],
            },
        }
        await client.create(site, body)
        await wait_for(lambda: scheduler.service.table.row_of("edge-7") is not None)
        table = scheduler.service.table

        assert 8 == table.pools["gp"].vcpus[table.row_of("edge-7")]


def placed(groups, template):
    spec = {"template": msgspec.Raw(msgspec.json.encode(template))}
    status = {"groups": msgspec.Raw(msgspec.json.encode(groups))}
    return Placeable(Meta(name="a", namespace="n", uid="u"), spec, status)


def test_every_group_of_a_placed_allocation_has_a_copy_in_its_member():
    groups = [{"cluster": "m1"}, {"site": "no member"}, {"cluster": "m2"}]
    found = wanted(placed(groups, {"kind": "Deployment", "metadata": {"name": "web"}}))

    assert [("m1", "web-0"), ("m2", "web-2")] == [
        (copy.member, copy.name) for copy in found.values()
    ]
    assert {} == wanted(placed("none yet", {})) == wanted(placed(groups, "no template"))


@pytest.mark.parametrize(
    "nothing",
    [
        {"metadata": None},
        {"metadata": {"labels": None}},
        {"spec": None},
        {"spec": {"template": {"metadata": None, "spec": {}}}},
    ],
)
def test_what_a_go_program_writes_as_null_is_nothing(nothing):
    [(_, manifest)] = wanted(placed([{"cluster": "m"}], {"kind": "Deployment"} | nothing)).values()

    assert "a-0" == manifest["metadata"]["name"]
    labels = manifest["metadata"]["labels"]
    if pods := (manifest.get("spec") or {}).get("template"):
        assert labels == pods["metadata"]["labels"]
