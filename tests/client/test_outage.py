"""A server that is away is told once, however many informers miss it."""

import asyncio

from structlog.testing import capture_logs

from bayplan.api.meta import Object
from bayplan.client import AsgiTransport, Client, Informer, TransportError
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
