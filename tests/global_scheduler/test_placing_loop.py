"""When an object is tried, tried again, told and given back: second by second, in virtual time."""

import asyncio
import json
from contextlib import asynccontextmanager
from types import SimpleNamespace

import msgspec
import pytest
from structlog.testing import capture_logs

from bayplan.client import ApiError, Change, Conflict, NotFound
from bayplan.client.resources import EVENTS
from bayplan.clock import rest, run_virtual
from bayplan.global_scheduler import placing as module
from bayplan.global_scheduler.inventory import Flavor, Host, Inventory, Site
from bayplan.global_scheduler.kinds import STACKS, CustomResource, Placeable
from bayplan.global_scheduler.placer import DEFAULT_POLICY, Placer
from bayplan.global_scheduler.placing import Placing, _key, _version
from bayplan.global_scheduler.plugins import in_tree_registry
from bayplan.global_scheduler.service import Allocations
from bayplan.store import MemoryStore
from bayplan.store.errors import Unavailable

ROOM = 4
FULL = "0/2 sites are available: 2 Insufficient machines of the requested flavors."
INVENTORY = Inventory(
    sites=(Site("s1", "r", "z1"), Site("s2", "r", "z2")),
    hosts=(Host("r", "z1", "gp", ROOM, ROOM), Host("r", "z2", "gp", 1, 1)),
    flavors=(Flavor("r", "f", 1, 1, "gp"),),
)


class Failing(MemoryStore):
    """Does not take the next so many transactions."""

    fails = 0

    async def transact(self, ops):
        if self.fails:
            self.fails -= 1
            raise Unavailable("away")
        return await super().transact(ops)


class Cluster:
    """An API server that has stacks only, and whoever places them; patches come back as changes."""

    def __init__(self, **options):
        self.store, self.now = Failing(), asyncio.get_running_loop().time
        self.service = Allocations(
            self.store,
            INVENTORY,
            Placer(DEFAULT_POLICY, in_tree_registry()),
            clock=self.now,
            name="me",
        )
        self.problems, self.told, self.events = [], [], []
        self.meanwhile = []
        """What happens between a change and the answer to who made it."""
        self.placing = Placing(
            self, self.service, CustomResource(STACKS), clock=self.now, **options
        )
        self.stacks = {}
        self.synced = asyncio.Event()
        self.synced.set()
        self.placing.informer = SimpleNamespace(
            store=self.stacks, run=asyncio.Event().wait, wait_synced=self.synced.wait
        )

    async def patch_status(self, resource, name, body, namespace, kind):
        assert (STACKS, "n", "merge") == (resource, namespace, kind)
        status = body["status"]
        says = status["message"] or "".join(group["site"] for group in status["groups"])
        self.told.append((round(self.now(), 3), name, says))
        if self.problems:
            raise self.problems.pop(0)
        await asyncio.sleep(0)
        if f"n/{name}" in self.stacks:
            self.put(name, status=status)
        if self.meanwhile:
            await self.meanwhile.pop(0)()

    async def create(self, resource, body, namespace):
        assert (EVENTS, "n") == (resource, namespace)
        self.events.append(body)
        if self.problems:
            raise self.problems.pop(0)

    def put(self, name, count=None, status=None, times=1, **meta):
        """Make or change a stack of so many machines; what is not said stays."""
        old = self.stacks.get(f"n/{name}")
        spec, was = (old.spec, old.status) if old else (None, None)
        resource = {"name": "r", "flavors": [{"flavor_id": "f"}], "count": count}
        body = {
            "metadata": {"name": name, "namespace": "n", "uid": name, **meta},
            "spec": {"resources": [resource] * times} if count is not None else spec,
            "status": status if status is not None else was,
        }
        new = msgspec.json.decode(msgspec.json.encode(body), type=Placeable)
        self.stacks[f"n/{name}"] = new
        self.placing._changed([Change("MODIFIED" if old else "ADDED", new, old)])

    def remove(self, name):
        gone = self.stacks.pop(f"n/{name}")
        self.placing._changed([Change("DELETED", gone, gone)])

    def held(self):
        """Which stacks hold room, and where."""
        return {r.id: r.groups[0].selected.node_id for r in self.service.ledger.records.values()}

    def attempts(self, name):
        return [moment for moment, whose, _ in self.told if whose == name]


def play(scene, **options):
    """Play a scene in virtual time; returns the cluster as it is then."""

    async def main():
        async with stage(**options) as cluster:
            await scene(cluster)
        return cluster

    with capture_logs():
        return run_virtual(main())


@asynccontextmanager
async def stage(**options):
    cluster = Cluster(**options)
    await cluster.service.start()
    running = asyncio.create_task(cluster.placing.run())
    try:
        async with asyncio.timeout(3600):
            yield cluster
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await cluster.service.stop()


def test_a_stack_is_placed_once_and_told_once():
    async def scene(cluster):
        cluster.put("a", 1)
        await asyncio.sleep(200)
        assert 0 == len(cluster.placing._queue)

    cluster = play(scene)
    assert [(0.0, "a", "s1")] == cluster.told
    assert {"a": "s1"} == cluster.held()
    [record] = cluster.service.ledger.records.values()
    assert ("stacks.bayplan.dev/a", "me") == (record.key, record.owner)
    assert record.of_object


def test_what_waits_does_not_wait_for_a_clock_that_is_set_back():
    async def scene(cluster):
        cluster.put("big", ROOM + 1)
        await asyncio.sleep(1)
        cluster.now = lambda: asyncio.get_running_loop().time() - 3600
        cluster.placing._clock = cluster.now
        await asyncio.sleep(70)

    cluster = play(scene)
    assert 2 == len(cluster.told)
    assert "1969-12-31T23:01:00.000000Z" == cluster.events[1]["eventTime"]


def test_what_does_not_fit_is_told_and_tried_again_after_a_minute_without_any_hint():
    async def scene(cluster):
        cluster.put("big", ROOM + 1)
        await asyncio.sleep(125)

    cluster = play(scene)
    assert [(0.0, "big", FULL), (60.0, "big", FULL), (120.0, "big", FULL)] == cluster.told
    first = cluster.events[0]
    assert 3 == len(cluster.events)
    assert {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "big.0", "namespace": "n"},
        "eventTime": "1970-01-01T00:00:00.000000Z",
        "reason": "FailedScheduling",
        "note": FULL,
        "type": "Warning",
        "action": "Scheduling",
        "reportingController": "global-scheduler",
        "reportingInstance": "me",
        "regarding": {
            "apiVersion": "bayplan.dev/v1alpha1",
            "kind": "Stack",
            "namespace": "n",
            "name": "big",
            "uid": "big",
        },
    } == first
    assert f"big.{60_000_000:x}" == cluster.events[1]["metadata"]["name"]


def test_what_is_wrong_is_told_whole_and_in_the_event_as_much_as_it_takes():
    async def scene(cluster):
        cluster.put("odd", 0, times=2)
        cluster.put("long", 0, times=30)
        await asyncio.sleep(1)

    cluster = play(scene)
    problem = "spec.resources[{}].count: must be from 1 to 1000000, got 0"
    whole = "; ".join(problem.format(number) for number in range(30))
    assert [(0.0, "odd", whole[:116]), (0.0, "long", whole)] == cluster.told
    assert [whole[:116], whole[:1024]] == [event["note"] for event in cluster.events]


@pytest.mark.parametrize(
    ("hints", "tries"),
    [
        ([0.5], [0, 1]),
        ([0.5, 1.5], [0, 1, 3]),
        ([0.5, 1.5, 5], [0, 1, 3, 7]),
        ([5], [0, 5]),
        ([], [0]),
    ],
    ids=str,
)
def test_a_hint_makes_it_due_when_its_backoff_is_over(hints, tries):
    async def scene(cluster):
        loop = asyncio.get_running_loop()
        cluster.put("big", ROOM + 1)
        for moment in hints:
            loop.call_at(moment, cluster.placing.hint)
        await asyncio.sleep(30)

    assert tries == play(scene).attempts("big")


def test_room_that_comes_free_is_a_hint():
    async def scene(cluster):
        cluster.put("a", ROOM)
        await asyncio.sleep(1)
        cluster.put("b", ROOM)
        await asyncio.sleep(10)
        cluster.remove("a")
        await asyncio.sleep(10)

    cluster = play(scene)
    assert [(0.0, "a", "s1"), (1.0, "b"), (11.0, "b", "s1")] == [
        told if told[2] == "s1" else told[:2] for told in cluster.told
    ]
    assert {"b": "s1"} == cluster.held()


def test_a_change_of_the_request_is_tried_at_once_and_one_of_the_status_is_not():
    async def scene(cluster):
        cluster.put("a", ROOM + 1)
        await asyncio.sleep(5)
        cluster.put("a", status={"phase": "Odd"}, labels={"x": "y"})
        await asyncio.sleep(5)
        cluster.put("a", ROOM)
        await asyncio.sleep(5)

    cluster = play(scene)
    assert [0.0, 10.0] == cluster.attempts("a")
    assert {"a": "s1"} == cluster.held()


@pytest.mark.parametrize("late", [False, True])
def test_what_goes_before_it_was_placed_is_not_tried_and_takes_nothing(late):
    async def scene(cluster):
        cluster.put("a", ROOM + late)
        if late:
            await asyncio.sleep(1)
        cluster.remove("a")
        assert 0 == len(cluster.placing._queue)
        await asyncio.sleep(100)
        cluster.put("a", ROOM)  # the same name and the same request: another object
        await asyncio.sleep(1)

    cluster = play(scene)
    assert [0.0, 101.0] == cluster.attempts("a") if late else [100.0] == cluster.attempts("a")


def test_what_is_being_deleted_gives_back_and_is_not_placed():
    async def scene(cluster):
        cluster.put("a", 1)
        cluster.put("big", ROOM + 1)
        await asyncio.sleep(1)
        for name in ("a", "big"):
            cluster.put(name, deletionTimestamp="2026-01-01T00:00:00Z")
        assert 0 == len(cluster.placing._queue)
        await asyncio.sleep(100)

    cluster = play(scene)
    assert {} == cluster.held()
    assert [0.0] == cluster.attempts("big")


@pytest.mark.parametrize(
    "problem", [Conflict(409, "Conflict", "x"), NotFound(404, "NotFound", "x")]
)
def test_what_another_placed_or_what_is_gone_is_given_back(problem):
    async def scene(cluster):
        cluster.problems = [problem]
        cluster.put("a", 1)
        await asyncio.sleep(100)

    cluster = play(scene)
    assert [0.0] == cluster.attempts("a")
    assert {} == cluster.held()


def test_a_server_that_fails_is_asked_again_and_the_place_is_kept():
    async def scene(cluster):
        cluster.problems = [ApiError(500, "InternalError", "x")] * 3
        cluster.put("a", 1)
        await asyncio.sleep(100)

    cluster = play(scene)
    assert [0, 1, 3, 7] == cluster.attempts("a")
    assert {"a": "s1"} == cluster.held()


def test_an_object_or_an_event_that_cannot_be_told_is_no_failure():
    async def scene(cluster):
        gone, away = NotFound(404, "NotFound", "x"), ApiError(403, "Forbidden", "x")
        cluster.problems = [gone, away]
        cluster.put("big", ROOM + 1)
        await asyncio.sleep(59)

    cluster = play(scene)
    assert ([0.0], 1) == (cluster.attempts("big"), len(cluster.events))


def test_a_store_that_fails_is_told_and_asked_again():
    async def scene(cluster):
        cluster.store.fails = 1
        cluster.put("a", 1)
        await asyncio.sleep(100)

    cluster = play(scene)
    away = "the store did not take it: away"
    assert [(0.0, "a", away), (60.0, "a", "s1")] == cluster.told


def test_what_was_given_back_is_not_given_back_again():
    async def scene(cluster):
        for name in "ab":
            cluster.put(name, 1)
            await asyncio.sleep(1)
            cluster.remove(name)
            await asyncio.sleep(1)
            cluster.put("a", 1)
            await asyncio.sleep(1)

    cluster = play(scene)
    assert {"a": "s1"} == cluster.held()


def test_who_was_placed_at_last_begins_with_a_short_wait_when_it_fails_again():
    async def scene(cluster):
        cluster.put("a", ROOM + 1)
        await asyncio.sleep(61)
        cluster.put("a", 1)
        await asyncio.sleep(1)
        cluster.put("a", ROOM + 1, status={})
        await asyncio.sleep(0.5)
        cluster.placing.hint()
        await asyncio.sleep(2)

    assert [0, 60, 61, 62, 63] == play(scene).attempts("a")


def test_what_could_not_be_given_back_is_tried_again_every_second():
    pauses = []

    async def pause(seconds):
        pauses.append(seconds)
        await asyncio.sleep(seconds)

    async def scene(cluster):
        cluster.put("a", 1)
        cluster.put("b", 1)
        await asyncio.sleep(1)
        cluster.store.fails = 3
        cluster.remove("a")
        await asyncio.sleep(0.5)
        cluster.remove("b")
        for held in ({"a", "b"}, {"a", "b"}, set()):
            assert held == cluster.held().keys()
            await asyncio.sleep(module.RELEASE_AGAIN)
        await asyncio.sleep(10)

    play(scene, pause=pause)
    assert [module.RELEASE_AGAIN] * 2 == pauses


# -- with others


def test_only_what_is_in_the_own_share_is_placed_and_given_back():
    mine = {"a"}

    async def scene(cluster):
        cluster.put("a", 1)
        cluster.put("b", 1)
        await asyncio.sleep(1)
        assert {"a": "s1"} == cluster.held()
        mine.add("b")
        cluster.placing.reconsider()
        await asyncio.sleep(1)
        assert {"a": "s1", "b": "s1"} == cluster.held()
        mine.clear()
        cluster.remove("a")
        await asyncio.sleep(10)
        assert {"a": "s1", "b": "s1"} == cluster.held()
        mine.update("ab")
        cluster.placing.reconsider()
        await asyncio.sleep(module.SECOND_LOOK - 0.1)
        assert {"a": "s1", "b": "s1"} == cluster.held(), "it may be new here"
        await asyncio.sleep(0.2)
        assert {"b": "s1"} == cluster.held()

    play(scene, is_mine=lambda uid: uid in mine)


def test_what_waits_is_tried_at_once_when_the_share_moves_unless_another_has_it_now():
    mine = {"a", "b"}

    async def scene(cluster):
        for name in mine:
            cluster.put(name, ROOM + 1)
        await asyncio.sleep(5)
        mine.remove("b")
        cluster.placing.reconsider()
        await asyncio.sleep(100)

    cluster = play(scene, is_mine=lambda uid: uid in mine)
    assert [0.0] == cluster.attempts("b")
    assert [0.0, 5.0] == cluster.attempts("a")[:2]


def test_nothing_is_orphaned_before_all_objects_are_known():
    async def scene(cluster):
        cluster.put("a", 1)
        cluster.put("b", 1)
        await asyncio.sleep(1)
        a = cluster.stacks.pop("n/a")
        cluster.synced.clear()
        again = Placing(cluster, cluster.service, CustomResource(STACKS), clock=cluster.now)
        again.informer = cluster.placing.informer
        running = asyncio.create_task(again.run())
        again.reconsider()
        await asyncio.sleep(10)
        assert {"a": "s1", "b": "s1"} == cluster.held()
        cluster.synced.set()
        await asyncio.sleep(0.1)
        assert {"b": "s1"} == cluster.held()
        cluster.stacks["n/a"] = a
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    play(scene)


def test_what_another_placed_and_is_new_here_is_no_orphan():
    async def scene(cluster):
        cluster.put("a", 1)
        await asyncio.sleep(1)
        stack = cluster.stacks.pop("n/a")
        cluster.placing.reconsider()
        await asyncio.sleep(1)
        cluster.stacks["n/a"] = stack
        await asyncio.sleep(10)
        assert {"a": "s1"} == cluster.held()

    play(scene)


def test_at_the_start_only_what_objects_of_the_own_kind_left_is_given_back():
    async def main():
        first = Cluster()
        await first.service.start()
        for key, name in (
            ("stacks.bayplan.dev/a", "a"),
            ("stacks.bayplan.dev/b", "b"),
            ("pods./c", "c"),
            ("", "d"),
        ):
            stack = CustomResource(STACKS)
            body = {"resources": [{"name": "r", "flavors": [{"flavor_id": "f"}]}]}
            item = msgspec.json.decode(
                json.dumps({"metadata": {"name": name, "uid": name}, "spec": body}), type=Placeable
            )
            known = first.service.table.flavors, first.service.table.volume_types
            allocation, problems = stack.allocation(item, known)
            assert [] == problems
            await first.service.create(allocation, key=key)
        first.put("b", status={"groups": [{"site": "s1"}]})
        running = asyncio.create_task(first.placing.run())
        await asyncio.sleep(1)
        held = first.held()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await first.service.stop()
        return held.keys()

    assert {"b", "c", "d"} == run_virtual(main())


def test_a_placed_object_tells_where_it_was_moved_to_if_it_is_in_the_own_share():
    mine = {"a", "b"}

    async def scene(cluster):
        cluster.put("a", 1)
        cluster.put("b", 1)
        await asyncio.sleep(1)
        mine.remove("b")
        await cluster.service.move("b", {"s1"})
        await cluster.service.move("b", {"s2"})
        cluster.problems = [ApiError(500, "InternalError", "x")]
        await cluster.service.move("a", {"s1"})
        await asyncio.sleep(99)
        assert 0 == len(cluster.placing._queue)
        cluster.problems = [ApiError(500, "InternalError", "x")]
        await cluster.service.move("a", {"s2"})
        await asyncio.sleep(10)

    cluster = play(scene, is_mine=lambda uid: uid in mine)
    assert [0.0] == cluster.attempts("b")
    assert [(0.0, "s1"), (1.0, "s2"), (2.0, "s2"), (100.0, "s1"), (101.0, "s1")] == [
        (moment, says) for moment, name, says in cluster.told if name == "a"
    ]


def test_a_move_before_the_last_telling_is_answered_is_told_too():
    """The watch may be faster than the answer."""

    async def scene(cluster):
        cluster.meanwhile = [
            lambda: cluster.service.move("a", {"s1"}),
            lambda: cluster.service.move("a", {"s2"}),
        ]
        cluster.put("a", 1)
        await asyncio.sleep(100)
        assert 0 == len(cluster.placing._queue)

    assert [(0.0, "a", "s1"), (0.0, "a", "s2"), (0.0, "a", "s1")] == play(scene).told


def test_an_allocation_that_another_scheduler_wrote_is_told_where_it_is():
    async def scene(cluster):
        cluster.put("a", 1)
        await asyncio.sleep(1)
        [record] = cluster.service.ledger.records.values()
        cluster.service.ledger.unapply(record)
        await asyncio.sleep(1)
        cluster.put("a", status={"groups": [{"site": "s9"}]})
        await asyncio.sleep(1)
        cluster.service.ledger.apply(record)
        await asyncio.sleep(1)

    assert [(0.0, "a", "s1"), (3.0, "a", "s1")] == play(scene).told


def test_what_tells_an_old_place_is_mended_when_it_is_seen():
    async def scene(cluster):
        cluster.put("a", 1)
        await asyncio.sleep(1)
        cluster.put("a", status={"groups": [{"site": "elsewhere"}]})
        await asyncio.sleep(100)

    cluster = play(scene)
    assert [(0.0, "a", "s1"), (1.0, "a", "s1")] == cluster.told


def test_nothing_is_left_to_do_when_it_ends():
    async def scene(cluster):
        cluster.put("big", ROOM + 1)
        await rest()

    async def main():
        async with stage() as cluster:
            await scene(cluster)
            before = asyncio.all_tasks()
        await asyncio.sleep(0)
        return asyncio.all_tasks() - before, len(asyncio.all_tasks())

    assert (set(), 1) == run_virtual(main())


def thing(uid="u", spec=None, **meta):
    body = {"metadata": {"name": "x", "uid": uid, **meta}, "spec": spec}
    return msgspec.json.decode(msgspec.json.encode(body), type=Placeable)


def test_what_an_object_is_called_and_when_it_asks_for_something_else():
    assert ["n/x", "x"] == [_key(thing(namespace="n")), _key(thing())]
    same = [thing(spec={"a": 1}), thing(spec={"a": 1}, generation=5)]
    other = [thing("v", {"a": 1}), thing(spec={"a": 2}), thing(), thing(spec={})]
    assert 1 == len({_version(each) for each in same})
    assert not {_version(same[0])} & {_version(each) for each in other}
