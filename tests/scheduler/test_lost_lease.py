"""Once the lease is lost nothing is sent: what waits is another's to decide now."""

import asyncio
import contextlib
from types import SimpleNamespace

import pytest

from bayplan.client import AsgiTransport, Client, LeaderElector, RateLimiter
from bayplan.client.fence import fenced
from bayplan.clock import run_virtual
from bayplan.engine.loop.actions import Bind, CallApi, Evict, ExtenderBind, PatchPod, RecordEvent
from bayplan.engine.loop.inputs import BindDone
from bayplan.framework import ApiCall
from bayplan.observe.metrics import SchedulerMetrics
from bayplan.scheduler.event_recorder import EventRecorder
from bayplan.scheduler.performer import Performer
from bayplan.testing.builders import make_pod
from tests.client.fake_api import FakeApi, status

RETRY = 2.0
DEADLINE = 10.0


class Api(FakeApi):
    """Notes when what was written came; leases are refused after `ends`."""

    def __init__(self, ends: float) -> None:
        super().__init__()
        self._ends = ends
        self.written: list[float] = []

    async def __call__(self, scope, receive, send):
        now = asyncio.get_running_loop().time()
        if "/leases" in scope["path"]:
            refused = (*status(500, "InternalError"), {})
            self.fault = lambda method, path: refused if now >= self._ends else None
            return await super().__call__(scope, receive, send)
        if scope["method"] != "GET":
            self.written.append(now)
        await asyncio.sleep(0.1)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})


def actions(kind):
    made = [make_pod(f"p{number}").uid(f"u{number}").build() for number in range(512)]
    call = ApiCall("delete", "pods", "default", "p0")
    return {
        "bindings": [Bind(pod, "n") for pod in made],
        "status": [PatchPod(pod, None, "n", 0.0) for pod in made],
        "victims": [Evict(pod, made[0], "n", "s", 0.0) for pod in made[1:]],
        "calls": [CallApi(0, made[0], "P", (call,) * 512)],
        "events": [RecordEvent(pod, "Normal", "Any", "Any", "note", "s") for pod in made],
    }[kind]


async def lead(api, wanted):
    """Lead with work that does not end when it is told to: a thread of a plugin waits."""
    client = Client(AsgiTransport(api), limiter=RateLimiter(10, 1))
    elector = LeaderElector(client.unlimited(), "a", renew_deadline=DEADLINE, retry_period=RETRY)
    recorder = EventRecorder(fenced(client, elector.holds), hostname="h")
    metrics = SchedulerMetrics(process=False)
    performer = Performer(client, recorder, metrics, lambda report: None, holds=elector.holds)

    async def work():
        performer.perform(wanted)
        await to_its_end_in(1000.0)

    tasks = [asyncio.create_task(each) for each in (performer.run(), recorder.run())]
    kept = await elector.run(work)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return kept


async def to_its_end_in(seconds):
    thread = asyncio.ensure_future(asyncio.sleep(seconds))
    while not thread.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait([thread])


@pytest.mark.parametrize("kind", ["bindings", "status", "victims", "calls", "events"])
def test_nothing_is_sent_once_the_lease_is_lost(kind):
    api = Api(ends=5.0)

    assert run_virtual(lead(api, actions(kind))) is False

    # The last renewal was sent at 4 s, and is given up one retry and one deadline later.
    lost = 4.0 + RETRY + DEADLINE
    assert 100 < len(api.written)
    assert lost - 1.0 < max(api.written) < lost


def test_an_extender_is_not_asked_to_bind_once_the_lease_is_lost():
    bound, reports = [], []
    binder = SimpleNamespace(name="outside", bind=lambda pod, node: bound.append(node))

    async def main():
        client = Client(AsgiTransport(FakeApi()))
        recorder = EventRecorder(client, hostname="h")
        metrics = SchedulerMetrics(process=False)
        performer = Performer(client, recorder, metrics, reports.append, holds=lambda: False)
        await performer._extender_bind(ExtenderBind(make_pod("p").uid("u").build(), "n", binder))

    run_virtual(main())

    assert not bound
    assert [BindDone("u", "not sent, the lease was lost")] == reports


def test_a_leader_that_was_stopped_does_not_hold_its_lease_before_it_has_noticed():
    async def main():
        elector = LeaderElector(Client(AsgiTransport(FakeApi())), "a")
        leading = asyncio.create_task(elector.run(asyncio.Event().wait))
        before = elector.holds()
        await asyncio.sleep(1)
        during = elector.holds()
        loop = asyncio.get_running_loop()
        now = loop.time()
        loop.time = lambda: now + 60.0  # nothing ran meanwhile
        after = elector.holds(), elector.is_leader
        del loop.time
        leading.cancel()
        await asyncio.gather(leading, return_exceptions=True)
        return before, during, after, elector.holds()

    assert (False, True, (False, True), False) == run_virtual(main())
