"""Logs, exec and attach of simulated pods, as clients ask for them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bayplan.apiserver.errors import ApiError
from bayplan.client import ClientError
from bayplan.client.resources import PODS
from tests.controllers.cluster import Cluster, Json, cluster, pod_spec, virtual

ROOT = "/api/v1/namespaces/default/pods"


async def start(made: Cluster, name: str, script: str = "", told: Json | None = None) -> None:
    spec = pod_spec(restartPolicy="Never")
    if script:
        spec["containers"][0]["command"] = ["sh", "-c", script]
    annotations = {f"bayplan.dev/{key}": value for key, value in (told or {}).items()}
    await made.create(PODS, {"metadata": {"name": name, "annotations": annotations}, "spec": spec})
    await made.settle(5.5)


async def log(made: Cluster, name: str, query: str = "") -> str:
    return (await made.client.request("GET", f"{ROOT}/{name}/log?{query}")).decode()


async def talk(
    made: Cluster, path: str, query: str, protocol: str, *sent: bytes, token: str = ""
) -> list[Json]:
    """Open a websocket, send messages, and return what comes back until it is closed."""
    received: list[Json] = []
    messages: list[Json] = [{"type": "websocket.connect"}]
    messages += [{"type": "websocket.receive", "bytes": data} for data in sent]
    waiting = iter(messages)

    async def receive() -> Any:
        message = next(waiting, None)
        return message if message is not None else await asyncio.Event().wait()

    async def send(message: Any) -> None:
        received.append(dict(message))

    bearer = f"Bearer {token or made.server.admin_token}".encode()
    scope = {
        "type": "websocket",
        "path": f"{ROOT}/{path}",
        "query_string": query.encode(),
        "headers": [(b"authorization", bearer)],
        "subprotocols": [protocol],
    }
    async with asyncio.timeout(60):
        await made.server(scope, receive, send)
    return received


def channel(received: list[Json], number: int) -> bytes:
    sent = [m["bytes"] for m in received if m["type"] == "websocket.send"]
    return b"".join(data[1:] for data in sent if data[0] == number)


@virtual
async def test_a_log_is_read_from_its_end_its_middle_and_with_times() -> None:
    async with cluster() as made:
        await start(made, "p", "for i in 1 2 3 4; do echo line $i; sleep 1; done; exit 1")

        assert "line 1\nline 2\nline 3\nline 4\n" == await log(made, "p")
        assert "line 4\n" == await log(made, "p", "tailLines=1")
        assert "line" == await log(made, "p", "limitBytes=4")
        assert "line 4\n" == await log(made, "p", "sinceSeconds=3")
        stamped = await log(made, "p", "timestamps=true&tailLines=1")
        assert stamped.startswith("2023-11-14T22:13:")
        with pytest.raises(ClientError, match="container x is not valid for pod p"):
            await log(made, "p", "container=x")
        with pytest.raises(ClientError, match="previous terminated container"):
            await log(made, "p", "previous=true")
        with pytest.raises(ClientError, match="must be greater than 0"):
            await log(made, "p", "limitBytes=0")


@virtual
async def test_a_log_is_followed_to_the_end_and_generated_lines_cost_nothing_unread() -> None:
    async with cluster() as made:
        await start(made, "p", "sleep 10; echo late; sleep 10; echo last")
        await start(made, "told", told={"log": "GET /", "log-seconds": "2", "run-seconds": "20"})

        assert "late\nlast\n" == await log(made, "p", "follow=true")
        assert "GET / 0\nGET / 1\n" in await log(made, "told")
        await made.settle(30)
        assert 10 == len((await log(made, "told")).splitlines())


@virtual
async def test_exec_runs_what_is_understood_and_says_so_of_the_rest() -> None:
    async with cluster() as made:
        await start(made, "p")
        query = "stdout=1&stderr=1&command=sh&command=-c&command=echo%20hi%3B%20exit%203"
        received = await talk(made, "p/exec", query, "v5.channel.k8s.io")
        assert {"type": "websocket.accept", "subprotocol": "v5.channel.k8s.io"} == received[0]
        assert b"hi\n" == channel(received, 1)
        assert b'"ExitCode","message":"3"' in channel(received, 3)

        received = await talk(made, "p/exec", "command=psql", "v4.channel.k8s.io")
        assert b"psql: not run, for the container is simulated" in channel(received, 2)
        words = "stdin=1&command=cat&command=/dev/stdin"
        sent = (b"\x00abc", b"\xff\x00")
        assert b"abc" == channel(await talk(made, "p/exec", words, "v5.channel.k8s.io", *sent), 1)


@virtual
async def test_what_exec_is_given_is_read_by_its_commands_alone() -> None:
    async with cluster() as made:
        await start(made, "p")
        sent = (b"\x00abc\n", b"\xff\x00")
        for words, printed in (
            ("command=cat", b"abc\n"),
            ("command=sh&command=-c&command=cat+-+|+grep+b", b"abc\n"),
            ("command=sh&command=-c&command=cat+>+/tmp/f;+cat+/tmp/f", b"abc\n"),
        ):
            received = await talk(made, "p/exec", f"stdin=1&{words}", "v5.channel.k8s.io", *sent)
            assert printed == channel(received, 1)
        script = (b"\x00echo a; echo b", b"\xff\x00")
        received = await talk(made, "p/exec", "stdin=1&command=sh", "v5.channel.k8s.io", *script)
        assert b"a\nb\n" == channel(received, 1)

        words = "command=cat&command=/dev/stdin"
        assert b"" == channel(await talk(made, "p/exec", words, "v5.channel.k8s.io"), 1)


@virtual
async def test_much_that_a_command_prints_comes_whole() -> None:
    async with cluster() as made:
        await start(made, "p")
        text = b"x" * 99 + b"\n"
        sent = *[b"\x00" + text * 1000] * 10, b"\xff\x00"
        received = await talk(made, "p/exec", "stdin=1&command=cat", "v5.channel.k8s.io", *sent)
        assert text * 10_000 == channel(received, 1)

        words = "&".join(["command=cat"] + ["command=/dev/stdin"] * 9)
        received = await talk(made, "p/exec", f"stdin=1&{words}", "v5.channel.k8s.io", *sent)
        assert b"does too much at once" in channel(received, 1)


@virtual
async def test_a_container_that_ended_before_the_input_did_runs_no_command() -> None:
    async with cluster() as made:
        await start(made, "p", "sleep 10")
        containers = made.server.backend.containers
        assert containers is not None

        async def late() -> bytes:
            await asyncio.sleep(60)
            return b""

        async def write(number: int, data: bytes) -> None:
            raise AssertionError

        pod = await made.get(PODS, "p")
        with pytest.raises(ApiError, match='container "c" is not running'):
            await containers.execute(pod, "", ["ls"], late, write)


@virtual
async def test_a_line_is_followed_while_it_is_written() -> None:
    async with cluster() as made:
        await start(made, "p", "sleep 10; printf a; sleep 1; printf b; sleep 1; echo; echo c")

        plain, stamped = await asyncio.gather(
            log(made, "p", "follow=true"), log(made, "p", "follow=true&timestamps=true")
        )

    assert "ab\nc\n" == plain
    stamps, texts = zip(*(line.split(" ") for line in stamped.splitlines()), strict=True)
    assert (("ab", "c"), True) == (texts, stamps[0] < stamps[1])


@virtual
async def test_what_exec_does_to_files_is_seen_by_probes() -> None:
    async with cluster() as made:
        probe = {"httpGet": {"path": "/index.html", "port": 80}, "periodSeconds": 1}
        probe["failureThreshold"] = 1
        container = {"name": "c", "image": "httpd:2", "readinessProbe": probe}
        body = {"metadata": {"name": "p"}, "spec": {"containers": [container]}}
        await made.create(PODS, body)
        await made.settle(5)
        words = ["mv", "-v", "/usr/local/apache2/htdocs/index.html", "/tmp/", "||", "true"]
        query = "&".join(f"command={word}" for word in ("/bin/sh", "-x", "-c", "+".join(words)))
        received = await talk(made, "p/exec", query, "v5.channel.k8s.io")
        assert b"-> '/tmp/index.html'" in channel(received, 1)
        await made.settle(5)

        assert not (await made.get(PODS, "p"))["status"]["containerStatuses"][0]["ready"]


@virtual
async def test_other_streams_are_refused_in_words() -> None:
    async with cluster() as made:
        await start(made, "p")
        for path, protocol, status, text in (
            ("p/portforward", "v4.channel.k8s.io", 501, b"needs a real network"),
            ("p/exec", "SPDY/3.1+portforward.k8s.io", 400, b"is not served over a websocket"),
            ("gone/exec", "v5.channel.k8s.io", 404, b'pods \\"gone\\" not found'),
        ):
            received = await talk(made, path, "command=ls", protocol)
            assert ("websocket.http.response.start", status) == (
                received[0]["type"],
                received[0]["status"],
            )
            assert text in received[1]["body"]
        received = await talk(made, "p/exec", "command=ls", "v5.channel.k8s.io", token="wrong")
        assert 401 == received[0]["status"]
        with pytest.raises(ClientError, match="over websockets only"):
            await made.client.request("POST", f"{ROOT}/p/exec?command=ls")


@virtual
async def test_attach_shows_what_is_printed_from_now_on() -> None:
    async with cluster() as made:
        await start(made, "p", "echo before; sleep 20; echo after")

        received = await talk(made, "p/attach", "stdout=1", "v4.channel.k8s.io")

        assert b"after\n" == channel(received, 1)
        assert b'"Success"' in channel(received, 3)
