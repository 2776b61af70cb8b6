"""Whether a cluster is reached, in virtual time."""

import asyncio

from bayplan.client.errors import Forbidden, TransportError
from bayplan.clock import run_virtual
from bayplan.page.reach import EVERY, GRACE, Reach


class Server:
    """Stands in for a client: answers, refuses or is silent, as told."""

    def __init__(self):
        self.problem = None

    async def request(self, method, path, *, timeout):
        if self.problem is not None:
            raise self.problem


class Watch:
    """Stands in for an informer."""

    def __init__(self):
        self.broken = asyncio.Event()
        self.begun = 0

    async def run(self):
        self.begun += 1
        await asyncio.Event().wait()


def following(story):
    """Run a story beside a Reach that has one informer."""

    async def main():
        server, watch = Server(), Watch()
        reach = Reach(server, [watch], asyncio.get_running_loop().time)
        running = asyncio.create_task(reach.run())
        await asyncio.sleep(EVERY * 2.5)
        try:
            await story(server, watch, reach)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    run_virtual(main())


def test_a_silent_server_is_told_since_its_last_answer_and_its_return_begins_watches_anew():
    async def story(server, watch, reach):
        last = EVERY * 2
        server.problem = TransportError("connection refused")
        watch.broken.set()
        await asyncio.sleep(100 * EVERY)
        assert reach() == last
        assert watch.begun == 1
        server.problem = None
        await asyncio.sleep(EVERY)
        assert watch.begun == 2  # not after the informer's own patience
        watch.broken.clear()
        await asyncio.sleep(EVERY)
        assert reach() is None

    following(story)


def test_a_server_that_refuses_answers_but_a_watch_that_it_refuses_for_long_is_told():
    async def story(server, watch, reach):
        server.problem = Forbidden(403, "Forbidden", "no")
        await asyncio.sleep(2 * GRACE)
        assert reach() is None
        watch.broken.set()
        begin = asyncio.get_running_loop().time()
        await asyncio.sleep(GRACE / 2)
        assert reach() is None  # as between one watch and the next
        await asyncio.sleep(2 * GRACE)
        assert begin - EVERY <= reach() <= begin
        assert watch.begun == 1

    following(story)
