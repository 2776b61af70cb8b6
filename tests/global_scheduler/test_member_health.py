"""How often members are asked whether they are ready, in virtual time: many of them, for long."""

import asyncio
from collections import Counter
from contextlib import asynccontextmanager

import pytest

from bayplan.client import Client, TransportError
from bayplan.client.transport import Response, StreamResponse
from bayplan.clock import run_virtual
from bayplan.global_scheduler.inventory import Site
from bayplan.global_scheduler.members import Members

EMPTY = b'{"metadata":{"resourceVersion":"1"},"items":[]}'
BOOKMARK = b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"1"}}}\n'


class Member:
    """A cluster without nodes that says something in its watches every `speaks` seconds."""

    def __init__(self, speaks=None):
        self.speaks = speaks
        self.asked = []
        self.away = asyncio.Event()
        """Answers no more; open watches break."""
        self.silent = False
        """Answers no more; watches stay open, as when a cable is cut."""

    async def request(self, method, target, headers, body, timeout):
        if target.startswith("/readyz"):
            self.asked.append(asyncio.get_running_loop().time())
        if self.away.is_set() or self.silent:
            raise TransportError("nobody there")
        return Response(200, {}, b"ok" if target.startswith("/readyz") else EMPTY)

    @asynccontextmanager
    async def stream(self, method, target, headers):
        if self.away.is_set() or self.silent:
            raise TransportError("nobody there")
        yield StreamResponse(200, {}, self._lines(_limit(target)))

    async def _lines(self, limit):
        loop = asyncio.get_running_loop()
        end = loop.time() + limit
        while (left := end - loop.time()) > 0:
            pause = left if self.speaks is None else min(self.speaks, left)
            try:
                await asyncio.wait_for(self.away.wait(), pause)
            except TimeoutError:
                if self.speaks is not None and not self.silent:
                    yield BOOKMARK
            else:
                raise TransportError("broken")

    async def refresh_credentials(self):
        return False

    async def close(self):
        pass


def _limit(target):
    return float(target.partition("timeoutSeconds=")[2].partition("&")[0])


def run(clusters, seconds, then=None):
    """Watch clusters for some time; what `then` says is done to them and watched as long again."""

    async def main():
        members = Members(lambda inventory: None)
        made = [make() for make in clusters]
        for number, cluster in enumerate(made):
            members.add(Site(id=f"site-{number}", region="east", zone="z1"), Client(cluster))
        task = asyncio.create_task(members.run())
        await asyncio.sleep(seconds)
        assert all(member.online for member in members.by_name.values())
        begun = asyncio.get_running_loop().time()
        if then is not None:
            for cluster in made:
                then(cluster)
            await asyncio.sleep(seconds)
        online = [member.online for member in members.by_name.values()]
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await members.close()
        return made, online, begun

    return run_virtual(main())


HOUR = 3600.0


def test_a_quiet_member_is_asked_twice_a_minute_and_a_talkative_one_hardly():
    (quiet, talkative), _, _ = run([Member, lambda: Member(speaks=10.0)], HOUR)

    assert len(quiet.asked) <= 120 + 4 * 12 + 2  # and when watches end, every five to ten minutes
    assert len(talkative.asked) <= 4 * 12 + 2


def test_many_members_are_not_asked_all_at_once():
    """10,000 would be asked at most 400 times in any second; here are 300, for ten minutes."""
    clusters, _, _ = run([Member] * 300, 600.0)
    later = Counter(int(at) for cluster in clusters for at in cluster.asked if at > 5)

    assert max(later.values()) <= 300 * 0.12
    assert sum(later.values()) <= 300 * (600 / 30 + 8)


@pytest.mark.parametrize("speaks", [None, 10.0], ids=["quiet", "talkative"])
def test_a_member_whose_watches_break_is_asked_at_once_and_goes_offline(speaks):
    [cluster], [online], begun = run(
        [lambda: Member(speaks)], 100.0, lambda cluster: cluster.away.set()
    )

    assert not online
    assert min(at for at in cluster.asked if at >= begun) - begun < 1.0


@pytest.mark.parametrize("speaks", [None, 10.0], ids=["quiet", "talkative"])
def test_a_member_that_falls_silent_behind_open_watches_goes_offline(speaks):
    def cut(cluster):
        cluster.silent = True

    [cluster], [online], begun = run([lambda: Member(speaks)], 100.0, cut)

    assert not online
    assert min(at for at in cluster.asked if at >= begun) - begun <= 61.0


@pytest.mark.parametrize("turns", range(3))
def test_who_is_cancelled_while_a_member_leaves_has_closed_its_connections(turns):
    closed = []

    class Known(Member):
        async def close(self):
            closed.append(self)

    async def main():
        members = Members(lambda inventory: None)
        members.add(Site(id="m", region="east", zone="z1"), Client(Known()))
        running = asyncio.create_task(members.run())
        await asyncio.sleep(1)
        removing = asyncio.create_task(members.remove("m"))
        await asyncio.sleep(0)
        for _ in range(turns):
            await asyncio.sleep(0)
        removing.cancel()
        running.cancel()
        await asyncio.gather(removing, running, return_exceptions=True)
        await members.close()

    run_virtual(main())

    assert 1 == len(closed)


@pytest.mark.parametrize("lacks", ["/nodes", "/pods"])
def test_a_member_of_which_half_is_known_is_not_online(lacks):
    class Half(Member):
        async def request(self, method, target, headers, body, timeout):
            if lacks in target:
                raise TransportError("not yet")
            return await super().request(method, target, headers, body, timeout)

    async def main():
        members = Members(lambda inventory: None)
        half = Half()
        members.add(Site(id="site", region="east", zone="z1"), Client(half))
        task = asyncio.create_task(members.run())
        await asyncio.sleep(100.0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await members.close()
        return len(half.asked), members.by_name["site"].online

    asked, online = run_virtual(main())

    assert asked
    assert not online


async def test_the_connections_to_all_members_are_closed():
    closed = []

    class Closing(Member):
        async def close(self):
            closed.append(self)

    members, clusters = Members(lambda inventory: None), [Closing(), Closing()]
    for number, cluster in enumerate(clusters):
        members.add(Site(id=f"site-{number}", region="east", zone="z1"), Client(cluster))

    await members.close()

    assert clusters == closed
