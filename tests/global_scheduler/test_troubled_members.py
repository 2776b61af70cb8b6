"""Members that fail, hang or go away: each in its own time, and nobody else waits for it."""

import asyncio
import contextlib
from functools import partial
from types import SimpleNamespace

import msgspec
import pytest

from bayplan.apiserver.server import ApiServer
from bayplan.client import AsgiTransport, Change, Client, NotFound, Response, TransportError
from bayplan.clock import run_virtual
from bayplan.global_scheduler.dispatch import FINALIZER, Dispatcher
from bayplan.global_scheduler.kinds import ALLOCATIONS
from bayplan.global_scheduler.members import Changes
from bayplan.store import MemoryStore
from tests.effort import at_most
from tests.global_scheduler.test_between import ALLOCATION, MAPS, clients, placed, read, seen


def status_of(code, text):
    body = {"kind": "Status", "code": code, "reason": "InternalError", "message": text}
    return Response(code, {}, msgspec.json.encode(body))


async def fails(target):
    return status_of(500, f"no space left for {target}")


async def hangs(target):
    await asyncio.Event().wait()


async def breaks(target):
    raise TransportError("connection reset")


async def is_a_web_page(target):
    return Response(201, {}, b"<html>")


async def is_cut_off(target):
    return Response(201, {}, b'{"metadata":')


async def answers_another_object(target):
    return Response(201, {}, b'{"metadata": {"name": "welcome"}}')


class Moody(AsgiTransport):
    """The way to a server that does as it is told, for once or until it is told otherwise."""

    mood = None

    def __init__(self, api):
        super().__init__(api, token=api.admin_token)
        self.asked = []

    async def request(self, method, target, *rest):
        self.asked.append((method, asyncio.get_running_loop().time()))
        if self.mood is not None:
            return await self.mood(target)
        return await super().request(method, target, *rest)


@contextlib.asynccontextmanager
async def hub(*names):
    """A dispatcher at work with members of servers of their own; an allocation is placed there."""
    async with contextlib.AsyncExitStack() as stack:
        _, client = await stack.enter_async_context(clients())
        members, doubts = {}, []
        for name in names:
            api = ApiServer(MemoryStore())
            await api.start()
            stack.push_async_callback(api.close)
            members[name] = SimpleNamespace(
                name=name,
                online=True,
                by_allocation={},
                client=Client(Moody(api)),
                doubt=partial(doubts.append, name),
            )
        known = SimpleNamespace(by_name=members, on_change=lambda listener: None)
        dispatcher = Dispatcher(client, known)
        dispatcher.doubts = doubts
        running = asyncio.create_task(dispatcher.run())
        try:
            yield client, members, dispatcher
            assert not running.done()
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


async def place(client, *clusters, name="web", **spec):
    body = ALLOCATION | {"metadata": {"name": name}, "spec": ALLOCATION["spec"] | spec}
    with contextlib.suppress(NotFound):
        await client.get(ALLOCATIONS, name, "default")
        return await tell(client, name, *clusters)
    await client.create(ALLOCATIONS, body, "default")
    return await tell(client, name, *clusters)


async def tell(client, name, *clusters):
    groups = [{"cluster": cluster} if cluster else {"site": "alone"} for cluster in clusters]
    status = {"status": {"groups": groups}}
    await client.patch_status(ALLOCATIONS, name, status, "default", kind="merge")


async def until(right):
    async with asyncio.timeout(1000):
        while not await right():
            await asyncio.sleep(0.1)


async def told(client, member, fact, name="web"):
    """What an allocation tells of a member."""
    members = (await read(client, ALLOCATIONS, name)).get("status", {}).get("members", [])
    return next((one.get(fact) for one in members if one["name"] == member), None)


def is_there(client, member, name="web"):
    async def right():
        objects = await told(client, member, "objects", name)
        return bool(objects) and all(one["there"] for one in objects)

    return right


async def maps_in(member):
    member.client.transport.mood = None
    found = msgspec.json.decode(await member.client.list(MAPS, "default"))["items"]
    return sorted(one["metadata"]["name"] for one in found)


BAD = pytest.mark.parametrize(
    ("mood", "says"),
    [
        (fails, "no space left"),
        (hangs, "does not answer"),
        (breaks, "connection reset"),
        (is_a_web_page, "this is no API server"),
        (is_cut_off, "answers what is no object"),
    ],
)


@BAD
def test_a_member_that_is_in_trouble_is_told_and_keeps_no_other_from_its_copy(mood, says):
    async def main():
        async with hub("bad", "good") as (client, members, _):
            bad = members["bad"].client.transport
            bad.mood = mood
            await place(client, "bad", "bad", "good")
            await until(is_there(client, "good"))

            assert says in await told(client, "bad", "problem")
            assert not any(one["there"] for one in await told(client, "bad", "objects"))
            bad.mood = None
            await until(is_there(client, "bad"))

            assert await told(client, "bad", "problem") is None
            assert ["web-0", "web-1"] == await maps_in(members["bad"])

    run_virtual(main())


@BAD
def test_a_member_that_is_in_trouble_keeps_no_other_from_losing_its_copy(mood, says):
    async def main():
        async with hub("bad", "good") as (client, members, _):
            bad = members["bad"].client.transport
            await place(client, "bad", "good")
            await until(is_there(client, "bad"))
            await until(is_there(client, "good"))
            bad.mood = mood
            await client.delete(ALLOCATIONS, "web", "default")

            async def gone():
                return not await maps_in(members["good"])

            await until(gone)

            async def said():
                return says in (await told(client, "bad", "problem") or "")

            await until(said)
            assert FINALIZER in (await read(client, ALLOCATIONS, "web"))["metadata"]["finalizers"]
            bad.mood = None

            async def over():
                return b'"web"' not in await client.list(ALLOCATIONS, "default")

            await until(over)
            assert [] == await maps_in(members["bad"])

    run_virtual(main())


def test_all_who_wait_for_a_member_that_hangs_wait_once():
    """One after the other would keep what comes last from a member in order for long."""

    async def main():
        async with hub("bad", "good") as (client, members, dispatcher):
            members["bad"].client.transport.mood = hangs
            for number in range(20):
                await place(client, "bad", name=f"a{number}")
            await place(client, "good", name="z")
            begun = asyncio.get_running_loop().time()
            await until(is_there(client, "good", "z"))

            assert asyncio.get_running_loop().time() - begun < 30
            assert {"bad"} == set(dispatcher.doubts), "whether it is there is asked at once"

    run_virtual(main())


def test_a_member_that_is_away_is_not_asked_to_delete():
    async def main():
        async with hub("away", "good") as (client, members, dispatcher):
            await place(client, "away", "good")
            await until(is_there(client, "away"))
            await until(is_there(client, "good"))
            away = members["away"]
            away.online, asked = False, len(away.client.transport.asked)
            await client.delete(ALLOCATIONS, "web", "default")

            async def gone():
                return not await maps_in(members["good"])

            await until(gone)
            await asyncio.sleep(60)
            assert asked == len(away.client.transport.asked)
            assert FINALIZER in (await read(client, ALLOCATIONS, "web"))["metadata"]["finalizers"]
            away.online = True
            dispatcher._members_changed(Changes(reached={"away"}))

            async def over():
                return b'"web"' not in await client.list(ALLOCATIONS, "default")

            await until(over)
            assert [] == await maps_in(away)

    run_virtual(main())


def test_what_somebody_answers_who_is_no_api_server_is_not_taken_for_a_copy():
    async def main():
        async with hub("m") as (client, members, _):
            transport = members["m"].client.transport
            transport.mood = answers_another_object
            await place(client, "m")
            await asyncio.sleep(60)
            assert [{"name": "web-0", "there": False}] == await told(client, "m", "objects")
            transport.mood = None
            await until(is_there(client, "m"))

    run_virtual(main())


def test_names_that_others_have_are_asked_for_at_a_steady_pace():
    """However many there are, and however often something else of the allocation changes."""

    async def main():
        async with hub("a", "b", "c") as (client, members, dispatcher):
            for number, member in enumerate(members.values()):
                foreign = {"metadata": {"name": f"web-{number}"}}
                await member.client.create(MAPS, foreign, "default")
            await place(client, *members)
            for _ in range(20):
                await asyncio.sleep(1)
                dispatcher._members_changed(Changes(reached={"a"}))
            for member in members.values():
                member.client.transport.asked.clear()
            await asyncio.sleep(600)

            for member in members.values():
                posts = [when for method, when in member.client.transport.asked if method == "POST"]
                assert 40 <= len(posts) <= 130

    run_virtual(main())


def test_the_copy_of_a_group_that_moved_to_where_no_member_is_goes():
    async def main():
        async with hub("m") as (client, members, _):
            await place(client, "m", "m")
            await until(is_there(client, "m"))
            await tell(client, "web", "", "")

            async def gone():
                return not await maps_in(members["m"])

            await until(gone)

            async def noted():
                status = (await read(client, ALLOCATIONS, "web"))["status"]
                return status["dispatched"] == [] == status["members"]

            await until(noted)

    run_virtual(main())


def test_what_was_seen_before_a_move_makes_and_forgets_nothing():
    """Between looking and writing the group may move: what is written down is all there may be."""

    async def main():
        async with clients() as (client, _), hub("old", "new") as (_, members, _):
            known = SimpleNamespace(by_name=members, on_change=lambda listener: None)
            dispatcher = Dispatcher(client, known)
            await client.create(ALLOCATIONS, ALLOCATION | {"status": {}}, "default")
            await tell(client, "web", "old")
            await dispatcher._finalize(await seen(client), keep=True)
            before = await seen(client)
            await tell(client, "web", "new")
            moved = await seen(client)

            with contextlib.suppress(Exception):
                await dispatcher._reconcile(before)
            with contextlib.suppress(Exception):
                await dispatcher._reconcile(moved)
            with contextlib.suppress(Exception):
                await dispatcher._reconcile(await seen(client))

            noted = (await read(client, ALLOCATIONS, "web"))["status"]["dispatched"]
            assert ["new/0/ConfigMap.v1/web-0"] == noted
            assert [] == await maps_in(members["old"])
            assert ["web-0"] == await maps_in(members["new"])

    run_virtual(main())


def test_a_member_that_comes_or_goes_costs_little_of_many_allocations():
    """Not a copy of each template for each group."""
    dispatcher = Dispatcher(
        SimpleNamespace(), SimpleNamespace(by_name={}, on_change=lambda listener: None)
    )
    spec = {"template": msgspec.Raw(msgspec.json.encode({"kind": "Pod", "spec": [{}] * 300}))}
    groups = [{"cluster": f"m{number % 4}"} for number in range(50)]
    for number in range(200):
        item = placed(f"u{number}", name=f"a{number}")
        item.spec.update(spec)
        item.status["groups"] = msgspec.Raw(msgspec.json.encode(groups))
        dispatcher.informer.store[f"default/a{number}"] = item
        dispatcher._changed([Change("ADDED", item, None)])
    dispatcher._todo.clear()

    with at_most(10):
        dispatcher._members_changed(Changes(reached={"m1"}))

    assert 200 == len(dispatcher._todo)
