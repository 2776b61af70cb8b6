"""What changes in members is told to whom it concerns; and when each is asked if it is there."""

import asyncio
import random
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.client import Change, TransportError
from bayplan.clock import run_virtual
from bayplan.global_scheduler import members as module
from bayplan.global_scheduler.inventory import Host, Inventory, Site
from bayplan.global_scheduler.members import (
    ALLOCATION_LABEL,
    CHECK_EVERY,
    CHECK_WATCHED_EVERY,
    Changes,
    Member,
    MemberConfig,
    Members,
)
from bayplan.testing import make_node, make_pod


def site(name="m"):
    return Site(id=name, region="r", zone=f"z-{name}", cluster=name)


class Client:
    """A connection that answers, or does not, and can be closed."""

    def __init__(self, name="m"):
        self.name, self.away, self.closed = name, False, False
        self.asked = []

    async def request(self, method, path, timeout):
        assert ("GET", "/readyz", CHECK_EVERY) == (method, path, timeout)
        self.asked.append(round(asyncio.get_running_loop().time(), 3))
        if self.away:
            raise TransportError("nobody there")

    async def close(self):
        self.closed = True


# -- pods


def pod(number, allocation, version):
    made = make_pod(f"p{number}", "n")
    if allocation:
        made = made.label({ALLOCATION_LABEL: allocation})
    return made.annotate({"v": str(version)}).build()


@given(st.integers(0, 2**32))
def test_pods_of_an_allocation_concern_it_and_others_the_room(seed):
    choose = random.Random(seed).choice
    changes = Changes()
    member = Member(site(), Client(), changes)
    there = {}
    for version in range(12):
        batch, stale, moved, lost = [], False, set(), set()
        for _ in range(choose((1, 1, 2, 3))):
            number, whose = choose((0, 1, 2)), choose(("", "u", "v"))
            old = there.get(number)
            before = old.metadata.labels.get(ALLOCATION_LABEL) if old else None
            if old is not None and choose((False, False, True)):
                batch.append(Change("DELETED", old, old))
                del there[number]
                lost |= {before} - {None}
                whose = before or ""
            else:
                new = there[number] = pod(number, whose, version)
                batch.append(Change("MODIFIED" if old else "ADDED", new, old))
            moved |= {one for one in (before, whose) if one}
            stale = stale or not whose or bool(old and not before)
        member._pods_changed(batch)

        by_allocation = {}
        for one in there.values():
            if uid := one.metadata.labels.get(ALLOCATION_LABEL):
                by_allocation.setdefault(uid, {})[f"n/{one.metadata.name}"] = one
        assert by_allocation == member.by_allocation
        assert changes.some.is_set()
        taken = changes.take()
        assert ({"m"} if stale else set(), set(), moved, lost) == (
            taken.stale,
            taken.reached,
            taken.moved,
            taken.lost,
        )
        assert not changes.some.is_set()


def test_changes_add_up_until_they_are_taken():
    changes = Changes()
    changes.add(stale={"a"}, moved={"u"})
    changes.add(stale={"b"}, reached={"a"}, lost={"v"})
    taken = changes.take()

    assert ({"a", "b"}, {"a"}, {"u"}, {"v"}) == (
        taken.stale,
        taken.reached,
        taken.moved,
        taken.lost,
    )
    assert [set()] * 4 == [changes.stale, changes.reached, changes.moved, changes.lost]
    assert not changes.some.is_set()


# -- whether it is there


class Watch:
    """Stands for an informer."""

    def __init__(self):
        self.heard, self.has_synced, self.broken = 0, True, asyncio.Event()

    async def run(self):
        await asyncio.Event().wait()


def watched(seconds, *then, synced=True):
    """Moments at which a member is asked, and at which it comes and goes; `then` happens."""

    async def main():
        changes, client = Changes(), Client()
        member = Member(site(), client, changes)
        member._place = 0.5
        member.nodes, member.pods = Watch(), Watch()
        member.pods.has_synced = synced
        loop, turned = asyncio.get_running_loop(), []
        whole = changes.add

        def add(**given):
            assert {"stale": {"m"}, "reached": {"m"}} == given
            turned.append((round(loop.time(), 3), member.online))
            whole(**given)

        member._changes = SimpleNamespace(add=add)
        for moment, happens in then:
            loop.call_at(moment, happens, member)
        running = asyncio.create_task(member.run())
        await asyncio.sleep(seconds)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await asyncio.sleep(0)
        assert 1 == len(asyncio.all_tasks()), "nobody waits for a break any more"
        return client.asked, turned

    return run_virtual(main())


def speak(member):
    member.nodes.heard += 1


def leave(member):
    member.client.away = True


def come_back(member):
    member.client.away = False


def break_(member):
    member.pods.broken.set()


def mend(member):
    member.pods.broken.clear()


def sync(member):
    member.pods.has_synced = True


LONG = CHECK_WATCHED_EVERY


def test_a_quiet_member_is_asked_at_its_own_moment_and_then_from_time_to_time():
    asked, turned = watched(100)

    assert [0, LONG / 2, LONG * 1.5, LONG * 2.5] == asked
    assert [(0, True)] == turned


def test_a_member_that_says_something_is_not_asked():
    asked, _ = watched(130, (10, speak), (40, speak), (101, speak))

    assert [0, LONG * 2.5] == asked, "before 15 and before 45 it spoke, before 75 it did not"


def test_a_member_of_which_not_all_is_known_is_asked_often_until_it_is():
    asked, turned = watched(1.5, (0.9, sync), synced=False)

    assert [0, 0.2, 0.4, 0.6, 0.8, 1.0] == asked
    assert [(1.0, True)] == turned


def test_one_miss_is_none_and_two_are():
    """Once it is away it is asked often, and twice in thirty seconds when it is back."""
    asked, turned = watched(50, (14, leave), (17.9, come_back))

    assert [0, 15, 17, *[17.2, 17.4, 17.6, 17.8, 18.0], 48.0] == asked
    assert [(0, True), (17, False), (18.0, True)] == turned

    asked, turned = watched(50, (14, leave), (16, come_back))
    assert [0, 15, 17, 47] == asked
    assert [(0, True)] == turned


def test_a_member_that_did_not_answer_somebody_is_asked_at_once_whatever_its_watches_say():
    asked, turned = watched(60, (3, leave), (3, speak), (5, Member.doubt), (50, come_back))

    assert [0, 5, 7] == asked[:3]
    assert [(0, True), (7, False), (50, True)] == turned

    asked, turned = watched(60, (3, speak), (5, Member.doubt))
    assert [0, 5, 35] == asked
    assert [(0, True)] == turned


def test_a_member_whose_watch_breaks_is_asked_at_once_and_often_until_it_is_open_again():
    asked, turned = watched(50, (5, break_), (5, speak), (8.5, mend))

    assert [0, 5, 7, 9, 39] == asked
    assert [(0, True)] == turned


# -- all of them


def usable(name, cpu):
    return make_node(name).ready().capacity({"cpu": cpu, "memory": "4Gi"}).build()


def test_what_changed_is_handed_out_in_bunches_and_listeners_hear_what_concerns_them():
    async def main():
        handed, heard, loop = [], [], asyncio.get_running_loop()
        members = Members(
            lambda found: handed.append((round(loop.time(), 3), [one.id for one in found.sites]))
        )
        members.on_change(
            lambda found: heard.append((round(loop.time(), 3), found.reached, found.moved))
        )
        running = asyncio.create_task(members.run())
        for moment, more in (
            (1.0, {"stale": {"b"}}),
            (1.05, {"stale": {"a"}}),
            (2.0, {"moved": {"u"}}),
            (3.0, {"lost": {"u"}}),
            (4.0, {"reached": {"a"}}),
        ):
            loop.call_at(moment, lambda more=more: members._changes.add(**more))
        for name in "ab":
            member = members.by_name[name] = Member(site(name), Client(), members._changes)
            assert not member.online
        await asyncio.sleep(10)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return handed, heard

    handed, heard = run_virtual(main())
    assert [(1.1, ["a", "b"])] == handed
    assert [(2.1, set(), {"u"}), (3.1, set(), set()), (4.1, {"a"}, set())] == heard


def test_who_came_is_watched_from_then_on_and_who_left_is_closed(monkeypatch):
    begun, ended = [], []

    async def run(self):
        begun.append(self.name)
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(self.name)

    monkeypatch.setattr(Member, "run", run)

    async def main():
        members, clients = Members(lambda found: None), {}

        def add(name):
            clients[name] = Client(name)
            return members.add(site(name), clients[name])

        assert add("early") is members.by_name["early"]
        assert ({"early"}, {"early"}) == (members._changes.stale, members._changes.reached)
        assert [] == begun
        running = asyncio.create_task(members.run())
        await asyncio.sleep(1)
        assert ["early"] == begun
        add("late")
        await asyncio.sleep(1)
        assert ["early", "late"] == begun
        await members.remove("early")
        assert ["early"] == ended
        assert (True, False) == (clients["early"].closed, clients["late"].closed)
        assert ({"early"}, {"early"}) == (members._changes.stale, members._changes.reached)
        assert ["late"] == list(members.by_name)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert ["early", "late"] == ended
        await members.close()
        assert clients["late"].closed
        add("after")
        await asyncio.sleep(1)
        assert ["early", "late"] == begun, "nobody watches any more"

    run_virtual(main())


def config(name, kubeconfig="k"):
    return MemberConfig(site(name), kubeconfig)


def test_a_changed_file_changes_what_differs(monkeypatch):
    made = []

    def load(path):
        if path == "bad":
            raise module.ClientError("no such file")
        return path

    def connect(kubeconfig):
        made.append(kubeconfig)
        return Client(kubeconfig)

    monkeypatch.setattr(module, "load_kubeconfig", load)
    monkeypatch.setattr(module, "connect", connect)

    async def main():
        members = Members(lambda found: None)
        await members.take([config("a", "k1"), config("b", "k2")])
        kept, gone = members.by_name["a"], members.by_name["b"]
        with pytest.raises(module.ClientError):
            await members.take([config("a", "bad"), config("c", "k3")])
        assert {"a": kept, "b": gone} == members.by_name
        await members.take([config("a", "k1"), config("b", "k4"), config("c", "k3")])
        assert kept is members.by_name["a"]
        assert not kept.client.closed
        assert gone.client.closed
        assert ["k1", "k2", "k4", "k3"] == made
        await members.take([config("a", "k1"), config("b", "k4"), config("c", "k3")])
        assert 4 == len(made)
        await members.take([])
        assert ({}, {}, True) == (members.by_name, members._configs, kept.client.closed)

    run_virtual(main())


def test_only_who_changed_is_added_up_anew_and_who_left_is_left_out():
    members = Members(lambda found: None)
    for name, cpu in (("b", "4"), ("a", "8500m")):
        member = members.by_name[name] = Member(site(name), Client(), members._changes)
        member.online = True
        member.nodes.store["n"] = usable("n", cpu)
    members.inventory({"b"})
    found = members.inventory({"a"})

    assert ["a", "b"] == [one.id for one in found.sites]
    assert [8, 4] == [host.vcpus for host in found.hosts]
    assert {"Normal"} == {one.status for one in found.sites}
    members.by_name["b"].online = False
    assert found == members.inventory(set())
    del members.by_name["a"]
    again = members.inventory({"a", "b", "never"})
    assert [("b", "Offline")] == [(one.id, one.status) for one in again.sites]
    assert Inventory(again.sites, again.hosts) == again
    assert isinstance(again.hosts[0], Host)
