"""Two API servers on one etcd see one truth."""

import asyncio

import pytest

from bayplan.store.etcd import EtcdStore
from bayplan.testing.etcd import find_etcd, start_etcd
from tests.apiserver.api import CONFIGMAPS, PODS, Api, configmap, pod

pytestmark = [
    pytest.mark.skipif(find_etcd() is None, reason="there is no etcd program"),
    pytest.mark.xdist_group("apiserver-etcd"),
]
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


@pytest.fixture(scope="module")
def etcd(tmp_path_factory):
    with start_etcd(tmp_path_factory.mktemp("etcd")) as server:
        yield server


@pytest.fixture
async def pair(etcd, request):
    """Two servers, each with its own connection to the same part of etcd."""
    root = f"/{request.node.name}"
    given = getattr(request, "param", {})
    stores = [await EtcdStore.open([etcd.url], root=root) for _ in range(2)]
    servers = [await Api.start(store, **given) for store in stores]
    yield servers
    for server in servers:
        await server.close()


async def test_what_one_writes_the_other_reads_and_watches(pair):
    one, other = pair
    stream = await other.watch(f"{CONFIGMAPS}?watch=1")

    made = await one.ok("POST", CONFIGMAPS, configmap("shared"))
    events = await stream.until(1)
    await stream.leave()

    assert made == await other.ok("GET", f"{CONFIGMAPS}/shared")
    assert made == events[0]["object"]


async def test_a_list_by_node_shows_what_another_server_has_just_written(pair):
    one, other = pair
    listed = [await other.ok("GET", f"{PODS}?fieldSelector=spec.nodeName%3Dn")]

    for n in range(3):
        await one.ok("POST", PODS, pod(f"p{n}", nodeName="n"))
        listed.append(await other.ok("GET", f"{PODS}?fieldSelector=spec.nodeName%3Dn"))

    assert [0, 1, 2, 3] == [len(each["items"]) for each in listed]
    versions = [int(each["metadata"]["resourceVersion"]) for each in listed]
    assert versions == sorted(versions)


async def test_only_one_binding_wins_across_servers(pair):
    await pair[0].ok("POST", PODS, pod("p"))

    answers = await asyncio.gather(
        *(
            api.call(
                "POST", f"{PODS}/p/binding", {"metadata": {"name": "p"}, "target": {"name": "n"}}
            )
            for api in (*pair, *pair)
        )
    )

    assert [201, 409, 409, 409] == sorted(answer.status for answer in answers)


@pytest.mark.parametrize("pair", [{"check_capacity": True}], indirect=True, ids=["checked"])
async def test_no_node_is_overcommitted_through_two_servers(pair):
    status = {"allocatable": {"cpu": "1", "pods": "1"}}
    for n in range(6):
        node = {"metadata": {"name": f"n{n}"}, "status": status}
        await pair[0].ok("POST", "/api/v1/nodes", node)
        for name in (f"a{n}", f"b{n}"):
            await pair[0].ok("POST", PODS, pod(name))
    for api in pair:  # both know the pods of a node
        await api.ok("GET", f"{PODS}?fieldSelector=spec.nodeName%3Dn0")

    answers = await asyncio.gather(
        *(
            api.call(
                "POST",
                f"{PODS}/{which}{n}/binding",
                {"metadata": {"name": f"{which}{n}"}, "target": {"name": f"n{n}"}},
            )
            for n in range(6)
            for api, which in zip(pair, "ab", strict=True)
        )
    )

    assert [201] * 6 + [409] * 6 == sorted(answer.status for answer in answers)


async def test_admission_knows_what_another_server_wrote(pair):
    """Within a moment: admission reads a mirror that a watch keeps up to date."""
    one, other = pair
    await one.ok("POST", CLASSES, {"metadata": {"name": "urgent"}, "value": 7})

    async with asyncio.timeout(60):
        while (
            answer := await other.call("POST", PODS, pod("p", priorityClassName="urgent"))
        ).status == 403:
            await asyncio.sleep(0.01)

    assert (201, 7) == (answer.status, answer.body["spec"]["priority"])


@pytest.mark.parametrize("size", [1_600_000, 2_600_000])
async def test_what_etcd_does_not_take_is_too_large_and_harms_no_other(pair, size):
    one, _ = pair
    large = pod("large")
    large["spec"]["containers"][0]["env"] = [{"name": "A", "value": "x" * size}]
    small = [one.call("POST", CONFIGMAPS, configmap(f"c{n}")) for n in range(20)]

    answer, *others = await asyncio.gather(one.call("POST", PODS, large), *small)

    assert (413, "RequestEntityTooLarge") == (answer.status, answer.body["reason"])
    assert "etcdserver: request is too large" == answer.body["message"]
    assert {201} == {other.status for other in others}


QUOTAS = "/api/v1/namespaces/default/resourcequotas"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"


def deployment(name):
    labels = {"app": "a"}
    template = {"metadata": {"labels": labels}, "spec": pod(name)["spec"]}
    return {
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }


def claim(name, size="1Gi"):
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
    return {"metadata": {"name": name}, "spec": spec}


async def limit(pair, **hard):
    """Write a quota as its controller would, and wait until both servers heed it."""
    await pair[0].ok("POST", QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": hard}})
    await pair[0].ok("PATCH", f"{QUOTAS}/q/status", {"status": {"hard": hard}})
    for api in pair:
        async with asyncio.timeout(60):
            while not any(
                (quota.get("status") or {}).get("hard")
                for quota in api.server.backend.reader.list("", "resourcequotas", "default")
            ):
                await asyncio.sleep(0.01)


async def test_a_quota_of_a_kind_that_nothing_else_asks_for_is_counted(pair):
    await limit(pair, **{"count/deployments.apps": "2"})
    one, other = pair

    statuses = [
        (await api.call("POST", DEPLOYMENTS, deployment(f"d{n}"))).status
        for n, api in enumerate((one, other, one, other))
    ]
    await one.ok("DELETE", f"{DEPLOYMENTS}/d0")

    assert [201, 201, 403, 403] == statuses
    async with asyncio.timeout(60):  # it hears of the deletion in a moment
        while (await other.call("POST", DEPLOYMENTS, deployment("d4"))).status == 403:
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("path", "make", "name"),
    [
        pytest.param(PODS, pod, "pods", id="pods"),
        pytest.param(DEPLOYMENTS, deployment, "count/deployments.apps", id="deployments"),
    ],
)
async def test_two_servers_that_create_at_once_do_not_exceed_a_quota(pair, path, make, name):
    await limit(pair, **{name: "5", "configmaps": "100"})

    answers = await asyncio.gather(
        *(pair[n % 2].call("POST", path, make(f"x{n}")) for n in range(20)),
        *(pair[n % 2].call("POST", CONFIGMAPS, configmap(f"c{n}")) for n in range(20)),
    )

    assert [201] * 5 + [403] * 15 == sorted(answer.status for answer in answers[:20])
    assert {201} == {answer.status for answer in answers[20:]}, "other kinds have their own turns"


async def test_two_servers_that_grow_claims_at_once_do_not_exceed_a_quota(pair):
    await limit(pair, **{"requests.storage": "8Gi"})
    for n in range(6):
        await pair[0].ok("POST", CLAIMS, claim(f"c{n}"))
    status = {"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}}
    for n in range(6):
        await pair[0].ok("PATCH", f"{CLAIMS}/c{n}/status", status)
    more = {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}

    await asyncio.gather(
        *(pair[n % 2].call("PATCH", f"{CLAIMS}/c{n}", more) for n in range(6)),
    )

    found = (await pair[1].ok("GET", CLAIMS))["items"]
    sizes = [each["spec"]["resources"]["requests"]["storage"] for each in found]
    assert sizes.count("2Gi") <= 2
