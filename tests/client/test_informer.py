"""Informers: whatever the connection does, the copy equals the server and handlers hear of all."""

import asyncio
import itertools
import json
from contextlib import asynccontextmanager

from bayplan.api.meta import Object
from bayplan.client import AsgiTransport, Client, Informer, Response, StreamResponse
from bayplan.client.informer import BREATH, LATE
from bayplan.client.resources import NODES, PODS
from bayplan.clock import run_virtual
from tests.client.fake_api import FakeApi, status
from tests.effort import at_most

PREFIX = "/api/v1/namespaces/default/pods"
ALL = "/api/v1/pods"


class Watched:
    """A fake server, an informer on it, and what its handler was told."""

    def __init__(self) -> None:
        self.api = FakeApi()
        self.informer = Informer(Client(AsgiTransport(self.api)), NODES, Object)
        self.heard: list[tuple[str, str]] = []
        self.informer.add_handler(
            lambda batch: self.heard.extend((c.type, c.new.metadata.name) for c in batch)
        )

    async def __aenter__(self):
        self.task = asyncio.create_task(self.informer.run())
        await self.informer.wait_synced()
        await asyncio.sleep(0.1)
        return self

    async def __aexit__(self, *problem):
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    async def quiet(self, seconds: float = 60.0):
        await asyncio.sleep(seconds)
        want = {
            key.rsplit("/", 1)[-1]: item["metadata"]["resourceVersion"]
            for key, item in self.api.objects.items()
        }
        have = {key: item.metadata.resource_version for key, item in self.informer.store.items()}
        assert want == have


def test_initial_list_and_later_changes_arrive_in_order():
    async def main():
        watched = Watched()
        await watched.api.put("/api/v1/nodes/a")
        async with watched:
            await watched.api.put("/api/v1/nodes/b")
            await watched.api.put("/api/v1/nodes/a")
            await watched.api.remove("/api/v1/nodes/b")
            await watched.quiet()
            return watched.heard, watched.informer.relists

    heard, relists = run_virtual(main())

    assert [("ADDED", "a"), ("ADDED", "b"), ("MODIFIED", "a"), ("DELETED", "b")] == heard
    assert relists == 1


def test_a_broken_watch_resumes_without_a_new_list():
    async def main():
        async with Watched() as watched:
            await watched.api.put("/api/v1/nodes/a")
            await asyncio.sleep(1)
            await watched.api.break_streams()
            await watched.api.put("/api/v1/nodes/b")
            await watched.quiet()
            return watched.heard, watched.informer.relists

    heard, relists = run_virtual(main())

    assert [("ADDED", "a"), ("ADDED", "b")] == heard
    assert relists == 1


def test_expired_version_lists_again_and_tells_the_difference():
    async def main():
        async with Watched() as watched:
            for name in "abc":
                await watched.api.put(f"/api/v1/nodes/{name}")
            await asyncio.sleep(1)
            await watched.api.break_streams()
            await watched.api.put("/api/v1/nodes/a")
            await watched.api.remove("/api/v1/nodes/b")
            await watched.api.remove("/api/v1/nodes/c")
            await watched.api.put("/api/v1/nodes/c")
            await watched.api.put("/api/v1/nodes/d")
            await watched.api.expire()
            watched.heard.clear()
            await watched.quiet()
            return sorted(watched.heard), watched.informer.relists

    heard, relists = run_virtual(main())

    assert [
        ("ADDED", "c"),
        ("ADDED", "d"),
        ("DELETED", "b"),
        ("DELETED", "c"),
        ("MODIFIED", "a"),
    ] == heard
    assert relists == 2


def test_after_410_the_list_is_not_taken_from_the_servers_cache():
    """Version 0 allows a cached answer, which may be the very state that has expired."""

    async def main():
        async with Watched() as watched:
            await watched.api.put("/api/v1/nodes/a")
            await asyncio.sleep(1)
            await watched.api.break_streams()
            await watched.api.put("/api/v1/nodes/b")
            await watched.api.expire()
            await watched.quiet()
            return [query for _, _, query in watched.api.requests if "watch" not in query]

    first, second = run_virtual(main())

    assert "0" == first.get("resourceVersion")
    assert "resourceVersion" not in second


def test_duplicates_and_late_events_change_nothing():
    async def main():
        async with Watched() as watched:
            old = await watched.api.put("/api/v1/nodes/a")
            await watched.api.put("/api/v1/nodes/a")
            await watched.api.remove("/api/v1/nodes/a")
            await asyncio.sleep(1)
            watched.heard.clear()
            await watched.api.emit("MODIFIED", "/api/v1/nodes/a", old)
            await watched.api.emit("ADDED", "/api/v1/nodes/a", old)
            await watched.quiet()
            return watched.heard

    assert [] == run_virtual(main())


def test_a_new_object_of_an_old_name_is_deletion_and_addition():
    async def main():
        async with Watched() as watched:
            await watched.api.put("/api/v1/nodes/a")
            await asyncio.sleep(1)
            meta = {"name": "a", "uid": "other", "resourceVersion": "99"}
            await watched.api.emit("ADDED", "/api/v1/nodes/a", {"metadata": meta})
            await asyncio.sleep(1)
            return watched.heard

    assert [("ADDED", "a"), ("DELETED", "a"), ("ADDED", "a")] == run_virtual(main())


def test_nulls_are_absent_and_undecodable_objects_are_left_out():
    async def main():
        watched = Watched()
        await watched.api.put("/api/v1/nodes/a", metadata={"labels": None})
        await watched.api.put("/api/v1/nodes/b", metadata={"labels": 5})
        async with watched:
            await watched.api.put("/api/v1/nodes/c", metadata={"labels": None})
            await watched.api.put("/api/v1/nodes/d", metadata={"labels": 5})
            await watched.api.put("/api/v1/nodes/e")
            await asyncio.sleep(1)
            return sorted(watched.informer.store), watched.informer.decode_errors

    assert (["a", "c", "e"], 2) == run_virtual(main())


def test_a_bookmark_moves_the_version_to_resume_from():
    async def main():
        async with Watched() as watched:
            watched.api.version = 50
            await watched.api.emit(
                "BOOKMARK", "", {"metadata": {"resourceVersion": "50"}, "spec": {"x": None}}
            )
            await asyncio.sleep(1)
            return watched.informer.last_version

    assert run_virtual(main()) == "50"


def test_what_comes_together_with_a_bookmark_is_not_lost():
    informer = Informer(Client(AsgiTransport(FakeApi())), NODES, Object)
    bookmark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "1"}}}
    added = {"type": "ADDED", "object": {"metadata": {"name": "a", "resourceVersion": "1"}}}

    informer._apply([json.dumps(bookmark).encode(), json.dumps(added).encode()])

    assert ["a"] == list(informer.store)


def test_a_watch_is_renewed_between_five_and_ten_minutes():
    async def asked(jitter):
        api = FakeApi()
        informer = Informer(Client(AsgiTransport(api)), NODES, Object, jitter=lambda: jitter)
        task = asyncio.create_task(informer.run())
        await informer.wait_watching()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return api.requests[-1][2]["timeoutSeconds"]

    assert ["300", "450", "600", "600"] == [run_virtual(asked(j)) for j in (0.0, 0.5, 1.0, 3.0)]


def test_a_watch_on_which_nothing_comes_any_more_is_begun_anew():
    """A firewall that forgets a connection, or a proxy that hangs, does not tell anybody."""

    async def main():
        async with Watched() as watched:
            watched.api.changed.notify_all = lambda: None
            await watched.api.put("/api/v1/nodes/a")
            await asyncio.sleep(300)
            before = list(watched.heard)
            await watched.quiet(300 + LATE + 1)
            return before, watched.heard, watched.informer.relists

    assert ([], [("ADDED", "a")], 1) == run_virtual(main())


def test_an_error_event_of_410_lists_again():
    async def main():
        async with Watched() as watched:
            await watched.api.put("/api/v1/nodes/a")
            await asyncio.sleep(1)
            await watched.api.emit("ERROR", "/api/v1/nodes/a", status(410, "Expired")[1])
            await asyncio.sleep(0.1)
            watched.api.log.pop()
            await watched.quiet()
            return watched.informer.relists

    assert run_virtual(main()) == 2


def test_a_server_that_fails_is_asked_again_later_and_later():
    async def main():
        watched = Watched()
        moments = []

        def fault(method, path):
            moments.append(asyncio.get_running_loop().time())
            return (*status(500, "InternalError"), {}) if len(moments) < 5 else None

        watched.api.fault = fault
        async with watched:
            return [round(b - a, 1) for a, b in itertools.pairwise(moments[:5])]

    assert [0.8, 1.6, 3.2, 6.4] == run_virtual(main())


def test_a_server_whose_versions_went_back_is_listed_again():
    async def main():
        async with Watched() as watched:
            await watched.api.put("/api/v1/nodes/a")
            await asyncio.sleep(1)
            await watched.api.break_streams()
            watched.api.objects.clear()
            watched.api.log.clear()
            watched.api.version = 2
            await watched.api.put("/api/v1/nodes/b")
            message = {"code": 504, "message": "Too large resource version: 11, current: 3"}
            watched.api.answers = [(504, message, {})]
            await watched.quiet()
            return watched.heard

    assert [("ADDED", "a"), ("ADDED", "b"), ("DELETED", "a")] == run_virtual(main())


def test_a_failing_handler_does_not_starve_the_others():
    async def main():
        watched = Watched()
        watched.informer._handlers.insert(0, lambda batch: 1 / 0)
        async with watched:
            await watched.api.put("/api/v1/nodes/a")
            await watched.quiet()
            return watched.heard, watched.informer.handler_errors

    assert ([("ADDED", "a")], 1) == run_virtual(main())


def test_an_optional_resource_that_the_server_lacks_counts_as_synced():
    async def main():
        api = FakeApi()
        api.fault = lambda method, path: (*status(404, "NotFound"), {})
        informer = Informer(Client(AsgiTransport(api)), PODS, Object, optional=True)
        task = asyncio.create_task(informer.run())
        await informer.wait_synced()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return informer.has_synced, informer.store

    assert (True, {}) == run_virtual(main())


def test_a_late_handler_gets_the_whole_copy():
    async def main():
        async with Watched() as watched:
            await watched.api.put("/api/v1/nodes/a")
            await watched.quiet()
            late = []
            watched.informer.add_handler(lambda batch: late.extend(c.type for c in batch))
            return late

    assert ["ADDED"] == run_virtual(main())


def test_an_informer_is_synced_after_its_first_list_and_not_before():
    async def main():
        watched = Watched()
        before = watched.informer.has_synced
        async with watched:
            return before, watched.informer.has_synced

    assert (False, True) == run_virtual(main())


class Burst:
    """A transport whose watch has sent much before anybody looks."""

    def __init__(self, pieces):
        self._pieces = pieces

    async def request(self, method, target, headers, body, timeout):
        return Response(200, {}, b'{"metadata":{"resourceVersion":"1"},"items":[]}')

    @asynccontextmanager
    async def stream(self, method, target, headers):
        yield StreamResponse(200, {}, self._chunks())

    async def _chunks(self):
        for piece in self._pieces:
            yield piece
        await asyncio.get_running_loop().create_future()


def added(number: int, size: int) -> bytes:
    meta = {"name": f"n{number}", "uid": "u", "resourceVersion": f"{number + 2}"}
    obj = {"metadata": meta, "status": {"note": "x" * size}}
    return json.dumps({"type": "ADDED", "object": obj}).encode() + b"\n"


async def heard_all(pieces, count):
    """Return how often others had their turn meanwhile."""
    informer = Informer(Client(Burst(pieces)), NODES, Object)
    task = asyncio.create_task(informer.run())
    turns = 0
    while len(informer.store) < count:
        turns += 1
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return turns


def test_large_objects_that_come_at_once_let_others_have_their_turn():
    pieces = [added(n, 100_000) for n in range(60)]

    assert run_virtual(heard_all(pieces, 60)) > 60 * 100_000 // (BREATH + 100_000)


def test_a_line_in_many_pieces_is_put_together_once():
    """Putting together what there is with each piece copies gigabytes."""
    line = added(0, 3_000_000)

    with at_most(100):
        run_virtual(heard_all([line[at : at + 500] for at in range(0, len(line), 500)], 1))


class Ending(Burst):
    """One that takes a moment to end a watch, and notes what happens in which order."""

    def __init__(self, pieces):
        super().__init__(pieces)
        self.happened = []

    async def request(self, method, target, headers, body, timeout):
        self.happened.append("list")
        return await super().request(method, target, headers, body, timeout)

    @asynccontextmanager
    async def stream(self, method, target, headers):
        try:
            yield StreamResponse(200, {}, self._chunks())
        finally:
            await asyncio.sleep(1)
            self.happened.append("watch ended")


def test_a_watch_that_told_an_error_is_ended_before_the_next_list():
    """Left to the collector, it would hold its connection and end in a task that nobody awaits."""

    async def main():
        gone = {"type": "ERROR", "object": status(410, "Expired")[1]}
        transport = Ending([json.dumps(gone).encode() + b"\n"])
        task = asyncio.create_task(Informer(Client(transport), NODES, Object).run())
        while transport.happened.count("list") < 3:
            await asyncio.sleep(0.1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return transport.happened[:4]

    assert ["list", "watch ended"] * 2 == run_virtual(main())


class Deep(Burst):
    """Its first list is nested deeper than can be read."""

    asked = 0

    async def request(self, method, target, headers, body, timeout):
        self.asked += 1
        if self.asked == 1:
            return Response(200, {}, b'{"a":' * 100_000)
        return await super().request(method, target, headers, body, timeout)


def test_a_list_too_deep_to_be_read_is_asked_for_again():
    async def main():
        transport = Deep([])
        task = asyncio.create_task((informer := Informer(Client(transport), NODES, Object)).run())
        await asyncio.wait(
            {task, asyncio.create_task(informer.wait_synced())}, return_when="FIRST_COMPLETED"
        )
        ended = task.done()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return ended, transport.asked

    assert (False, 2) == run_virtual(main())


class Healthy(AsgiTransport):
    """Something that is well answers instead of the server."""

    there = False

    async def request(self, *args, **more):
        if self.there:
            return Response(200, {}, b'{"status": "ok"}')
        return await super().request(*args, **more)


def test_what_is_no_list_empties_no_copy():
    async def main():
        watched = Watched()
        transport = Healthy(watched.api)
        watched.informer = Informer(Client(transport), NODES, Object)
        await watched.api.put("/api/v1/nodes/a")
        async with watched:
            transport.there = True
            await watched.api.break_streams()
            await watched.api.put("/api/v1/nodes/b")
            await watched.api.expire()
            await asyncio.sleep(60)
            kept = set(watched.informer.store)
            transport.there = False
            await watched.quiet()
            return kept

    assert {"a"} == run_virtual(main())
