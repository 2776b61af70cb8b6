"""Questions over HTTP: the same answers as JSON, for who has the token."""

import asyncio
import json
import re
from io import BytesIO

import aiohttp
import msgspec
import pytest
from click.testing import CliRunner

from bayplan.cli.main import bayplan
from bayplan.errors import BayplanError, CannotListen
from bayplan.inspect import MAX_BODY, PREFIX, Cluster
from bayplan.inspect.http import Questions, openapi
from bayplan.inspect.http_questions import QUESTIONS
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
    assert json.loads(msgspec.json.encode(openapi())) == document
    assert {f"{PREFIX}{name}" for name in QUESTIONS} == set(document["paths"])


@pytest.mark.parametrize(
    ("path", "query", "status", "text"),
    [
        pytest.param("nothing", {}, 404, "no question", id="unknown question"),
        pytest.param("why", {}, 400, "give pod=", id="no pod"),
        pytest.param("why", {"pods": "x"}, 400, "unknown field `pods`", id="unknown parameter"),
        pytest.param("why", {"pod": "default/bog"}, 404, "did you mean big", id="near name"),
    ],
)
async def test_what_makes_no_sense_is_told(server, path, query, status, text):
    found, body = await get(server, path, **query)

    assert status == found
    assert text in body["error"]


async def post(server, path, body, **query):
    url = f"http://127.0.0.1:{server.port}{PREFIX}{path}"
    headers = {"authorization": "Bearer secret"}
    async with (
        aiohttp.ClientSession() as session,
        session.post(url, params=query, headers=headers, data=body) as response,
    ):
        return response.status, await response.json(content_type=None)


async def test_a_pod_to_ask_about_is_given_as_a_body(server):
    manifest = make_pod("new").req(cpu="1").body()
    status, found = await post(server, "why", msgspec.json.encode({"pod": manifest}))

    assert (200, "fits", "a") == (status, found["state"], found["node"])


@pytest.mark.parametrize(
    ("body", "status", "text"),
    [
        pytest.param(b"[]", 400, "the body must be an object", id="a list"),
        pytest.param(b"{", 400, "truncated", id="cut off"),
        pytest.param(b'{"pod": 3}', 400, "pod", id="a number"),
        pytest.param(b'{"a":' * 5000 + b"1" + b"}" * 5000, 400, "recursion", id="deep"),
        pytest.param(
            b'{"pod": {"kind": "Pod", "spec": {"affinity": ' + b"[" * 900 + b"]" * 900 + b"}}}",
            400,
            "",
            id="a deep pod",
        ),
        pytest.param(b'{"pod": {"kind": "Secret"}}', 400, "there is no pod", id="no pod"),
        pytest.param(
            b'{"pod": {"kind": "Pod", "spec": {"containers": 3}}}', 400, "containers", id="broken"
        ),
    ],
)
async def test_a_body_that_makes_no_sense_is_told(server, body, status, text):
    found, answer = await post(server, "why", body)

    assert status == found
    assert text in answer["error"]


async def test_what_is_no_request_is_not_told_of(server, caplog):
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(b"\x00\xffGET / HTTP/9.9\r\n\r\n")
    answer = await reader.read()
    writer.close()

    assert answer.startswith(b"HTTP/1.") or not answer
    assert [] == caplog.records


async def test_a_body_that_is_not_packed_as_it_says_is_told(server):
    url = f"http://127.0.0.1:{server.port}{PREFIX}why"
    headers = {"authorization": "Bearer secret", "content-encoding": "gzip"}
    async with (
        aiohttp.ClientSession() as session,
        session.post(url, headers=headers, data=b'{"pod":{}}') as response,
    ):
        assert 400 == response.status


async def test_a_client_that_leaves_with_half_a_body_is_not_told_of(server, caplog):
    _, writer = await asyncio.open_connection("127.0.0.1", server.port)
    head = f"POST {PREFIX}why?token=secret HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n{{"
    writer.write(head.encode())
    await writer.drain()
    writer.transport.abort()
    await get(server, "pending")

    assert [] == caplog.records


async def test_a_body_without_end_is_refused(server):
    url = f"http://127.0.0.1:{server.port}{PREFIX}why"
    endless = BytesIO(b" " * (MAX_BODY + 9))
    async with (
        aiohttp.ClientSession() as session,
        session.post(url, headers={"authorization": "Bearer secret"}, data=endless) as response,
    ):
        assert 413 == response.status


def test_the_document_describes_bodies_and_answers():
    document = json.loads(msgspec.json.encode(openapi()))
    schemas = document["components"]["schemas"]
    references = set(re.findall(r"#/components/schemas/(\w+)", json.dumps(document)))

    assert references <= set(schemas)
    assert {"fixes", "funnel", "identical"} <= set(schemas["Answer"]["properties"])
    assert {"changes", "apply", "config"} <= set(schemas["AskWhatIf"]["properties"])
    parameters = document["paths"][f"{PREFIX}capacity"]["get"]["parameters"]
    assert [("templates", True), ("keepFree", False)] == [
        (item["name"], item["required"]) for item in parameters
    ]


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


async def test_a_port_that_is_taken_is_told_in_a_sentence(server):
    with pytest.raises(CannotListen, match="choose another --bind"):
        await InspectServer(Questions(cluster)).start("127.0.0.1", server.port)


@pytest.mark.parametrize(
    ("words", "said"),
    [([], "`bayplan up` starts a cluster"), (["--from", "missing.yaml"], "missing.yaml")],
    ids=["no cluster", "no file"],
)
def test_a_cluster_that_is_not_there_is_told_before_anything_is_served(
    words, said, tmp_path, monkeypatch
):
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))

    found = CliRunner().invoke(bayplan, ["inspect", "serve", *words])

    assert isinstance(found.exception, BayplanError | SystemExit)
    assert said in f"{found.exception} {found.output}"
    assert "http://" not in found.output
