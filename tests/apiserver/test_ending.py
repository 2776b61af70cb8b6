"""A server that is told to end under load ends in time, with 0, and says nothing of failures."""

import asyncio
import contextlib
import signal
import socket
import ssl
import sys
from collections import Counter
from contextlib import closing

import aiohttp
import pytest

from bayplan import asgi
from bayplan.apiserver import tls
from bayplan.apiserver.web import WebServer, server_context
from bayplan.listening import listen

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
GRACE = 10.0  # seconds, after which the process would be ended by force
BROKEN = (aiohttp.ClientError, ConnectionError)


async def watch_for_ever(session):
    """Open a watch anew whenever it ends, as informers do."""
    while True:
        with contextlib.suppress(*BROKEN):
            async with session.get(f"{CONFIGMAPS}?watch=1") as answer:
                async for _ in answer.content:
                    pass
        await asyncio.sleep(0)


async def write_for_ever(session, writer):
    for number in range(1_000_000):
        with contextlib.suppress(*BROKEN):
            body = {"metadata": {"name": f"w{writer}-{number}"}}
            async with session.post(CONFIGMAPS, json=body) as answer:
                await answer.read()
        await asyncio.sleep(0)


async def until_written(session, count):
    async with asyncio.timeout(60):
        while True:
            async with session.get(CONFIGMAPS) as answer:
                if len((await answer.json())["items"]) >= count:
                    return


async def half_a_body(port, token):
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"POST {CONFIGMAPS} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n"
    writer.write(f"{head}Content-Type: application/json\r\nContent-Length: 99\r\n\r\n{{".encode())
    await writer.drain()
    return writer


async def started(tmp_path):
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bayplan", "apiserver", "--bind", "127.0.0.1:0"),
        *("--data", str(tmp_path / "data")),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(60):
        line = (await process.stdout.readline()).decode()
    port = int(line.split("127.0.0.1:")[1].split()[0])
    return process, port, (tmp_path / "data" / "admin-token").read_text("utf-8").strip()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_server_under_load_ends_in_time_and_quietly(tmp_path, number):
    process, port, token = await started(tmp_path)
    headers = {"Authorization": f"Bearer {token}"}
    connector = aiohttp.TCPConnector(limit=0)
    address = f"http://127.0.0.1:{port}"
    async with aiohttp.ClientSession(address, headers=headers, connector=connector) as session:
        work = [asyncio.create_task(watch_for_ever(session)) for _ in range(30)]
        work += [asyncio.create_task(write_for_ever(session, n)) for n in range(8)]
        half = await half_a_body(port, token)
        await until_written(session, 100)
        process.send_signal(number)
        said, errors = await asyncio.wait_for(process.communicate(), GRACE + 20)
        for task in work:
            task.cancel()
        await asyncio.gather(*work, return_exceptions=True)
        half.close()

    assert (0, b"") == (process.returncode, errors)
    assert b"Traceback" not in said


@pytest.mark.parametrize("turns", range(6))
async def test_a_connection_that_comes_with_the_end_is_closed(tmp_path, turns):
    """Whichever turn of the loop the end falls on, also before anybody has looked at it."""
    files = tls.generate(tmp_path, ["127.0.0.1"])
    context = server_context(str(files.certificate), str(files.key))
    settings = asgi.config(nobody_answers, lifespan="off")
    settings.load()
    web = WebServer(settings, context, Counter(), plain=True)
    with closing(listen("127.0.0.1", 0, "--port")) as listener:
        web.lifespan = settings.lifespan_class(settings)
        await web.startup([listener])
        await asyncio.sleep(0)
        with socket.create_connection(listener.getsockname(), timeout=60) as client:
            for _ in range(turns):
                await asyncio.sleep(0)
            await web.shutdown([])
            listener.close()

            with contextlib.suppress(ConnectionError):  # refused before it was accepted
                assert b"" == await asyncio.to_thread(client.recv, 1)


async def test_a_tls_connection_that_is_being_made_at_the_end_is_closed(tmp_path):
    """Whichever turn of the handshake the end falls on, and with no socket left to a transport."""
    files = tls.generate(tmp_path, ["127.0.0.1"])
    trusted = ssl.create_default_context(cafile=files.authority)
    settings = asgi.config(nobody_answers, lifespan="off", timeout_graceful_shutdown=0)
    settings.load()
    context = server_context(str(files.certificate), str(files.key))
    selector = asyncio.get_running_loop()._selector
    before = set(selector.get_map())
    for turns in range(20):
        web = WebServer(settings, context, Counter(), plain=True)
        with closing(listen("127.0.0.1", 0, "--port")) as listener:
            web.lifespan = settings.lifespan_class(settings)
            await web.startup([listener])
            address = listener.getsockname()
            client = asyncio.create_task(asyncio.open_connection(*address, ssl=trusted))
            for _ in range(turns):
                await asyncio.sleep(0)
            await web.shutdown([])
        client.cancel()
        [outcome] = await asyncio.gather(client, return_exceptions=True)
        if isinstance(outcome, tuple):
            outcome[1].transport.abort()
        for _ in range(3):
            await asyncio.sleep(0)

        assert before == set(selector.get_map()), turns


async def nobody_answers(scope, receive, send):
    raise AssertionError("nothing was asked")
