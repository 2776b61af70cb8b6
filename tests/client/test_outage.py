"""A server that is away is told once, however many informers miss it."""

import asyncio
from itertools import pairwise

from structlog.testing import capture_logs

from bayplan.api.meta import Object
from bayplan.client import AsgiTransport, Client, Informer, TransportError
from bayplan.client.errors import error_from
from bayplan.client.outage import Outage
from bayplan.client.resources import NODES, PODS
from bayplan.clock import run_virtual
from tests.client.fake_api import FakeApi


class Away(AsgiTransport):
    """A transport to a server that can go away."""

    away = True

    async def request(self, *args, **more):
        if self.away:
            raise TransportError("connection refused")
        return await super().request(*args, **more)


def test_one_line_when_it_goes_and_one_when_it_is_back():
    async def main():
        transport, outage = Away(FakeApi()), Outage()
        informers = [
            Informer(Client(transport), resource, Object, outage=outage)
            for resource in (NODES, PODS)
        ]
        tasks = [asyncio.create_task(informer.run()) for informer in informers]
        await asyncio.sleep(300)
        transport.away = False
        for informer in informers:
            await informer.wait_synced()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    with capture_logs() as logs:
        run_virtual(main())

    assert [
        ("the API server cannot be reached, trying until it can", "warning"),
        ("the API server answers again", "info"),
    ] == [(line["event"], line["log_level"]) for line in logs]


def test_a_refused_credential_is_told_once_with_what_helps():
    class Refusing(AsgiTransport):
        async def request(self, *args, **more):
            raise error_from(401, b"")

    async def main():
        client, outage = Client(Refusing(FakeApi())), Outage()
        informers = [Informer(client, kind, Object, outage=outage) for kind in (NODES, PODS)]
        tasks = [asyncio.create_task(informer.run()) for informer in informers]
        await asyncio.sleep(300)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    with capture_logs() as logs:
        run_virtual(main())

    assert ["the API server refuses the credential, trying until it does not"] == [
        line["event"] for line in logs
    ]
    assert "log in again" in logs[0]["err"]


def test_a_server_that_comes_back_and_refuses_is_told_too():
    outage = Outage()
    with capture_logs() as logs:
        for problem in (TransportError("refused"), error_from(401, b""), error_from(401, b"")):
            outage.failed(problem)
        outage.over()

    assert ["cannot be reached", "refuses the credential", "answers again"] == [
        part
        for line in logs
        for part in ("cannot be reached", "refuses the credential", "answers again")
        if part in line["event"]
    ]


def test_a_server_that_fails_is_asked_less_and_less_often():
    """Each wait is twice the one before, up to a limit, and stretched by the jitter."""

    class Timed(AsgiTransport):
        """Fails in a way that the client does not try again itself."""

        def __init__(self, app):
            super().__init__(app)
            self.moments = []

        async def request(self, *args, **more):
            self.moments.append(asyncio.get_running_loop().time())
            raise error_from(500, b"")

    async def main(jitter):
        transport = Timed(FakeApi())
        client = Client(transport)
        informer = Informer(client, NODES, Object, outage=Outage(), jitter=lambda: jitter)
        task = asyncio.create_task(informer.run())
        await asyncio.sleep(300)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return [round(b - a, 3) for a, b in pairwise(transport.moments)][:8]

    waits = [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0]
    for jitter in (0.0, 0.25):
        assert [round(wait * (1 + jitter), 3) for wait in waits] == run_virtual(main(jitter))
