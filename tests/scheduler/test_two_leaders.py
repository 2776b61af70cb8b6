"""Two schedulers on one API server: what a leader had queued stays unsent without its Lease."""

import asyncio
import contextlib

from bayplan.apiserver.local import LocalTransport
from bayplan.apiserver.server import ApiServer
from bayplan.client import Client, RateLimiter, TransportError
from bayplan.client.resources import NODES, PODS
from bayplan.clock import rest, run_virtual
from bayplan.config import DEFAULT_GATES, default_config
from bayplan.dst.processes import TOKEN, Clock
from bayplan.plugins import in_tree_registry
from bayplan.scheduler.live import LiveScheduler
from bayplan.sim.schedulers import PatientCaller, SimulatedScheduler
from bayplan.store import MemoryStore

MANY = 200
QPS = 5.0
CUT = 4.0  # seconds after its first binding the first leader does not reach its Lease any more


class Link(LocalTransport):
    """Notes when bindings are sent and written, and Leases; after `cut` no Lease is reached."""

    def __init__(self, server):
        super().__init__(server, token=TOKEN)
        self.cut = float("inf")
        self.sent, self.bound, self.renewed = [], [], []

    async def request(self, method, target, headers, body, timeout):
        now = asyncio.get_running_loop().time()
        if "/leases" in target and now >= self.cut:
            raise TransportError("cut off")
        if target.endswith("/binding"):
            self.sent.append(now)
        answer = await super().request(method, target, headers, body, timeout)
        if method != "GET" and answer.status < 300:
            if target.endswith("/binding"):
                self.bound.append(now)
            elif "/leases" in target:
                self.renewed.append(now)
        return answer


class Stubborn(LiveScheduler):
    """Does not end when it is told to, as where a plugin's thread waits, until `over` is set."""

    over: asyncio.Event

    async def run(self):
        work, over = asyncio.ensure_future(super().run()), asyncio.ensure_future(self.over.wait())
        while not over.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([over])
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)


def scheduler(name, link, over, qps):
    clock = Clock()

    def make(recorder, holds):
        made = Stubborn(
            config=default_config(),
            gates=DEFAULT_GATES,
            registry=in_tree_registry(),
            client=Client(link, limiter=RateLimiter(qps, 1)),
            recorder=recorder,
            wall=clock,
            jitter=lambda: 0.0,
            aside=PatientCaller(()),
            rest=rest,
            holds=holds,
        )
        made.over = over
        return made

    return SimulatedScheduler(make, lambda: Client(link), clock, elect=True, identity=name)


async def a_cluster():
    server = ApiServer(MemoryStore(), clock=Clock(), admin_token=TOKEN)
    await server.start()
    client = Client(LocalTransport(server, token=TOKEN))
    room = {"cpu": "1000", "memory": "1000Gi", "pods": str(2 * MANY)}
    node = {"metadata": {"name": "n"}, "status": {"capacity": room, "allocatable": room}}
    await client.create(NODES, node)
    for number in range(MANY):
        spec = {"containers": [{"name": "c", "image": "registry.example/app:1"}]}
        await client.create(PODS, {"metadata": {"name": f"p{number}"}, "spec": spec}, "default")
    return server


def test_a_leader_that_lost_its_lease_sends_no_binding_that_was_queued():
    async def main():
        server, over = await a_cluster(), asyncio.Event()
        first, second = Link(server), Link(server)
        begun = scheduler("first", first, over, QPS)
        await begun.start()
        while not first.bound:
            await asyncio.sleep(0.1)
        first.cut = first.bound[0] + CUT
        other = scheduler("second", second, over, 2 * QPS)
        await other.start()
        while len(first.bound) + len(second.bound) < MANY:
            await asyncio.sleep(1.0)
        over.set()
        await begun.stop()
        await other.stop()
        await server.close()
        return first, second

    first, second = run_virtual(main())

    taken = min(second.renewed)
    assert 1 < len(first.bound) < MANY
    assert first.cut < max(first.sent) < taken, "it went on while it held the Lease, and no longer"
    assert taken <= min(second.bound)
    assert MANY == len(first.bound) + len(second.bound)
