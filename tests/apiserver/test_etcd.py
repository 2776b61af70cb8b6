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
    servers = [await Api.start(await EtcdStore.open([etcd.url], root=root)) for _ in range(2)]
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


async def test_admission_knows_what_another_server_wrote(pair):
    """Within a moment: admission reads a mirror that a watch keeps up to date."""
    one, other = pair
    await one.ok("POST", CLASSES, {"metadata": {"name": "urgent"}, "value": 7})

    async with asyncio.timeout(10):
        while (
            answer := await other.call("POST", PODS, pod("p", priorityClassName="urgent"))
        ).status == 403:
            await asyncio.sleep(0.01)

    assert (201, 7) == (answer.status, answer.body["spec"]["priority"])
