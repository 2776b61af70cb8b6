"""The live scheduler with extenders, on the embedded API server."""

import asyncio
import threading
from contextlib import asynccontextmanager

import msgspec
import pytest

from bayplan.apiserver.serving import Settings
from bayplan.client.resources import EVENTS, NODES, PODS
from bayplan.config.gates import DEFAULT_GATES
from bayplan.config.load import load
from bayplan.extender import Extender
from bayplan.plugins import in_tree_registry
from bayplan.scheduler.cluster import local_cluster
from tests.extender.servers import plain_server, serving
from tests.waiting import until

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
extenders:
- urlPrefix: %(url)s
  filterVerb: filter
  prioritizeVerb: prioritize
  preemptVerb: %(preempt)s
  bindVerb: %(bind)s
  weight: 1
  httpTimeout: %(timeout)s
  nodeCacheCapable: %(names)s
  ignorable: %(ignorable)s
"""


@asynccontextmanager
async def cluster(url, *, names=True, ignorable=False, timeout="60s", preempt="", bind=""):
    text = CONFIG % {
        "url": url,
        "names": str(names).lower(),
        "ignorable": str(ignorable).lower(),
        "timeout": timeout,
        "preempt": preempt or '""',
        "bind": bind or '""',
    }
    config = load(text.encode()).config
    async with local_cluster(
        Settings(store="memory"),
        config=config,
        gates=DEFAULT_GATES,
        registry=in_tree_registry(),
        controllers="",
    ) as running:
        room = {"cpu": "4", "memory": "8Gi", "pods": "110"}
        for name in "abc":
            body = {
                "metadata": {"name": name, "labels": {"rack": name}},
                "status": {"capacity": room},
            }
            await running.client.create(NODES, body)
        yield running.client


def pod(name, cpu="100m", **spec):
    container = {"name": "c", "image": "pause", "resources": {"requests": {"cpu": cpu}}}
    return {"metadata": {"name": name}, "spec": {"containers": [container], **spec}}


def bound(found):
    return found["spec"].get("nodeName")


def refused(found):
    return any(c["status"] == "False" for c in found["status"].get("conditions", ()))


@pytest.mark.parametrize("names", [True, False], ids=["names only", "whole nodes"])
async def test_an_extender_filters_and_scores(names):
    app = Extender()
    app.filter(lambda names: {"b": "node(s) were too hot"})
    app.prioritize(lambda names: {name: 10 if name == "c" else 0 for name in names})
    with serving(app) as url:
        async with cluster(url, names=names) as client:
            await client.create(PODS, pod("p"), "default")
            found = await until(client, PODS, "p", bound)

    assert "c" == found["spec"]["nodeName"]


async def test_several_pods_are_asked_about_at_once():
    app = Extender(ahead=True)
    calls, waiting, together = 0, 0, asyncio.Event()

    @app.filter
    async def keep(names):
        nonlocal calls, waiting
        calls, waiting = calls + 1, waiting + 1
        if waiting > 1:
            together.set()
        if calls > 5:  # the promise is known by now: no answer until another pod is asked about
            async with asyncio.timeout(60):
                await together.wait()
        waiting -= 1
        return names

    app.prioritize(lambda names: dict.fromkeys(names, 1))
    with serving(app) as url:
        async with cluster(url) as client:
            await asyncio.gather(*(client.create(PODS, pod(f"p{n}"), "default") for n in range(60)))
            for n in range(60):
                await until(client, PODS, f"p{n}", bound)

    assert together.is_set()


async def test_why_an_extender_refused_stands_in_condition_and_event():
    app = Extender()
    app.filter(lambda names: dict.fromkeys(names, "node(s) were too hot"))
    with serving(app) as url:
        async with cluster(url) as client:
            await client.create(PODS, pod("p"), "default")
            found = await until(client, PODS, "p", refused)

    [condition] = found["status"]["conditions"]
    assert condition["message"].startswith("0/3 nodes are available: 3 node(s) were too hot.")


async def test_an_extender_binds_itself():
    app = Extender()
    loop = asyncio.get_running_loop()
    app.filter(lambda names: names)
    clients = []

    @app.bind
    def bind(pod_name, namespace, uid, node):
        future = clients[0].bind(namespace, pod_name, uid, node)
        asyncio.run_coroutine_threadsafe(future, loop).result(60)

    with serving(app) as url:
        async with cluster(url, bind="bind") as client:
            clients.append(client)
            await client.create(PODS, pod("p"), "default")
            found = await until(client, PODS, "p", bound)

    assert found["spec"]["nodeName"] in "abc"


async def test_an_extender_chooses_victims():
    app = Extender()
    app.filter(lambda names: names)
    app.preempt(lambda victims: ["b"])
    with serving(app) as url:
        async with cluster(url, preempt="preempt") as client:
            for number in range(3):
                await client.create(PODS, pod(f"low-{number}", cpu="4"), "default")
                await until(client, PODS, f"low-{number}", bound)
            await client.create(
                PODS, pod("high", cpu="4", priorityClassName="system-node-critical"), "default"
            )
            found = await until(
                client, PODS, "high", lambda pod: pod["status"].get("nominatedNodeName")
            )

    assert "b" == found["status"]["nominatedNodeName"]


HANG = threading.Event()


def hang(path, body):
    HANG.wait(60)
    return 200, b"{}"


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(hang, id="hangs"),
        pytest.param(lambda path, body: (200, b"<html>"), id="garbage"),
        pytest.param(lambda path, body: (200, b'{"NodeNames":["zz"]}'), id="unknown node"),
        pytest.param(lambda path, body: (200, b'{"NodeNames":{"a":1}}'), id="wrong type"),
        pytest.param(lambda path, body: (500, b""), id="error status"),
    ],
)
@pytest.mark.parametrize("ignorable", [False, True], ids=["needed", "ignorable"])
async def test_a_bad_extender_fails_the_pod_or_is_passed_over(answer, ignorable):
    HANG.clear()
    with plain_server(answer) as url:
        async with cluster(url, ignorable=ignorable, timeout="200ms") as client:
            await client.create(PODS, pod("p"), "default")
            if ignorable:
                await until(client, PODS, "p", bound)
            else:
                found = await until(client, PODS, "p", refused)
                [condition] = found["status"]["conditions"]
                assert "SchedulerError" == condition["reason"]
                assert url in condition["message"]
                events = await events_of(client)
                assert any(url in event["note"] for event in events)
        HANG.set()


async def events_of(client):
    async with asyncio.timeout(60):
        while True:
            found = msgspec.json.decode(await client.list(EVENTS, "default"))["items"]
            if found:
                return found
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("scores", [b'[{"Host":"c","Score":99}]', b"nonsense"])
async def test_scores_out_of_range_are_taken_and_broken_ones_ignored(scores):
    def answer(path, body):
        if path == "/filter":
            return 200, msgspec.json.encode({"NodeNames": body["NodeNames"]})
        return 200, scores

    with plain_server(answer) as url:
        async with cluster(url) as client:
            await client.create(PODS, pod("p"), "default")
            found = await until(client, PODS, "p", bound)

    if scores.startswith(b"["):
        assert "c" == found["spec"]["nodeName"]
