"""Questions over HTTP: the same answers as JSON, for who has the token."""

import aiohttp
import pytest

from bayplan.inspect import Cluster
from bayplan.inspect.http import PREFIX, ROUTES, Questions, openapi
from bayplan.inspect.serving import InspectServer
from bayplan.testing.builders import make_node, make_pod


def cluster():
    node = make_node("a").capacity(cpu=2, memory="4Gi", pods=10).body()
    return Cluster.from_objects([node, make_pod("big").req(cpu="3").body()])


@pytest.fixture
async def server():
    async def load():
        return cluster()

    made = InspectServer(Questions(load), "secret")
    await made.start("127.0.0.1", 0)
    yield made
    await made.stop()


async def get(server, path, token="secret", **query):
    url = f"http://127.0.0.1:{server.port}{PREFIX}{path}"
    headers = {"authorization": f"Bearer {token}"} if token else {}
    async with (
        aiohttp.ClientSession() as session,
        session.get(url, params=query, headers=headers) as response,
    ):
        return response.status, await response.json()


async def test_questions_are_answered(server):
    _, summary = await get(server, "cluster")
    _, why = await get(server, "why", pod="default/big")
    _, there = await get(server, "why", pod="default/big", node="a")
    _, pending = await get(server, "pending")
    _, document = await get(server, "openapi.json")

    assert (1, 1) == (summary["nodes"], summary["pending"])
    assert "a" == why["fixes"][0]["node"]
    assert there["summary"].startswith("a does not take it")
    assert 1 == len(pending["groups"])
    assert openapi() == document
    assert {f"{PREFIX}{name}" for name in ROUTES} == set(document["paths"])


@pytest.mark.parametrize(
    ("path", "query", "status", "text"),
    [
        pytest.param("nothing", {}, 404, "no question", id="unknown question"),
        pytest.param("why", {}, 400, "give pod=", id="no pod"),
        pytest.param("why", {"pods": "x"}, 400, 'no parameter "pods"', id="unknown parameter"),
        pytest.param("why", {"pod": "default/bog"}, 404, "did you mean big", id="near name"),
    ],
)
async def test_what_makes_no_sense_is_told(server, path, query, status, text):
    found, body = await get(server, path, **query)

    assert status == found
    assert text in body["error"]


async def test_nobody_asks_without_the_token(server):
    assert 401 == (await get(server, "cluster", token=""))[0]
    assert 401 == (await get(server, "cluster", token="wrong"))[0]


async def test_a_picture_is_read_again_when_it_is_old():
    now, reads = [0.0], []

    async def load():
        reads.append(now[0])
        return cluster()

    questions = Questions(load, max_age=5, clock=lambda: now[0])
    for moment in (0.0, 4.0, 6.0):
        now[0] = moment
        await questions.answer("cluster", {})

    assert [0.0, 6.0] == reads
