"""Each step of the service: what it answers, what it says no to, and what it leaves behind."""

import asyncio
from collections import Counter
from types import SimpleNamespace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.clock import run_virtual
from bayplan.global_scheduler.inventory import Flavor, Host, Inventory, Quota, Site
from bayplan.global_scheduler.ledger import COMMITTED, RESERVED, Group, Record, Selected
from bayplan.global_scheduler.operations import HISTORY, shrunk, with_event
from bayplan.global_scheduler.placer import DEFAULT_POLICY, NoSite, Placer
from bayplan.global_scheduler.plugins import in_tree_registry
from bayplan.global_scheduler.quotas import QuotaError
from bayplan.global_scheduler.rebalance import Step, make_plan, shares
from bayplan.global_scheduler.service import (
    Allocations,
    ConflictError,
    NoSiteError,
    NotFoundError,
    _expired,
    _told,
    fingerprint,
)
from bayplan.global_scheduler.sources import Charges
from bayplan.global_scheduler.stack import (
    Allocation,
    FlavorChoice,
    Requirement,
    Resource,
    Selector,
    Spread,
    Stack,
)
from bayplan.global_scheduler.table import SiteTable
from bayplan.global_scheduler.writer import Known, UnavailableError
from bayplan.store import Compacted, MemoryStore
from bayplan.store.errors import Unavailable
from tests.effort import at_most
from tests.global_scheduler.sites import ask as wide
from tests.global_scheduler.test_service import snapshot

NOW = 1000.0


def world(rooms, **more):
    """Sites s0, s1 … with so many vcpus, a region each."""
    return Inventory(
        tuple(Site(f"s{n}", f"r{n}", "z") for n in range(len(rooms))),
        tuple(Host(f"r{n}", "z", "gp", room, 1000) for n, room in enumerate(rooms)),
        tuple(Flavor(f"r{n}", "f", 1, 1, "gp") for n in range(len(rooms))),
        **more,
    )


def ask(name, replicas=1, count=1, site="", selector=None, **more):
    resource = Resource("r", (FlavorChoice("f"),), count)
    chosen = msgspec.structs.replace(Selector(site_id=site), **(selector or {}))
    return Allocation(name, Stack("web", (resource,), {"app": "web"}), chosen, replicas, **more)


def service_of(*rooms, store=None, **more):
    loop = asyncio.get_running_loop()
    return Allocations(
        store or MemoryStore(),
        world(rooms, **more),
        Placer(DEFAULT_POLICY, in_tree_registry()),
        clock=lambda: NOW + loop.time(),
        name="me",
    )


def play(scene, *rooms, **more):
    """Play a scene on a service in virtual time; everything is given back in the end."""

    async def main():
        service = service_of(*rooms, **more)
        before = snapshot(service.table)
        await service.start()
        try:
            async with asyncio.timeout(3600):
                answer = await scene(service)
                for identity in list(service.ledger.records):
                    await service.release(identity)
        finally:
            await service.stop()
        assert before == snapshot(service.table)
        return answer

    return run_virtual(main())


def where(record):
    return [group.selected.node_id for group in record.groups]


def what(record):
    return [(event.at, event.what) for event in record.history]


def test_what_was_placed_is_written_down_whole():
    async def scene(service):
        assert (0, 0) == (service.decided, service.refused)
        held = await service.create(ask("a"), ttl=5.0, key="k", fingerprint="p")
        kept = await service.create(ask("b", domain="d"))
        assert (NOW, RESERVED, NOW + 5, "k", "p", "me") == (
            held.created,
            held.state,
            held.expires,
            held.key,
            held.fingerprint,
            held.owner,
        )
        assert (COMMITTED, 0.0, "", "", ()) == (
            kept.state,
            kept.expires,
            kept.key,
            kept.fingerprint,
            kept.preempted,
        )
        assert (2, 0) == (service.decided, service.refused)
        with pytest.raises(NoSiteError):
            await service.create(ask("c", count=99))
        assert (2, 1) == (service.decided, service.refused)
        again = await service.commit("a")
        assert (COMMITTED, 0.0) == (again.state, again.expires)
        assert again is await service.commit("a")

    play(scene, 4)


def test_the_same_again_is_answered_as_before_and_another_is_refused():
    async def scene(service):
        one = await service.create(ask("a"), key="k", fingerprint="p")
        assert one is await service.create(ask("a"), fingerprint="p")
        assert one is await service.create(ask("b"), key="k", fingerprint="p")
        for more in ({"key": "k"}, {}):
            with pytest.raises(ConflictError) as told:
                await service.create(ask("a"), fingerprint="other", **more)
            kind = "idempotency key" if more else "id"
            assert f"this {kind} was used for a different request" == str(told.value)
        with pytest.raises(ConflictError) as told:
            await service.create_all([ask("c"), ask("a")])
        assert 'the id "a" is in use' == str(told.value)
        assert ["a"] == list(service.ledger.records)

    play(scene, 4)


def test_what_is_not_there_is_said_by_name():
    async def scene(service):
        for act in (service.commit, service.release, lambda name: service.resize(name, 2)):
            with pytest.raises(NotFoundError) as told:
                await act("nobody")
            assert 'there is no allocation "nobody"' == str(told.value)
        with pytest.raises(NotFoundError) as told:
            await service.open_site("s0")
        assert 'the site "s0" is not drained' == str(told.value)

    play(scene, 4)


def test_resizing_keeps_what_stays_and_says_what_happened():
    async def scene(service):
        await service.create(ask("a", 2, site="s0"))
        same = await service.resize("a", 2)
        assert () == same.history
        await asyncio.sleep(7)
        grown = await service.resize("a", 3)
        assert same.groups == grown.groups[:2]
        assert [(NOW + 7, "resized from 2 to 3 replicas")] == what(grown)
        assert 3 == grown.allocation.replicas
        one = await service.resize("a", 1)
        assert (NOW + 7, "resized from 3 to 1 replica") == what(one)[-1]
        with pytest.raises(NoSiteError):
            await service.resize("a", 9)
        assert one is service.get("a")
        assert 1 == service.refused

    play(scene, 4, 9)


def test_an_allocation_grows_to_what_may_be_placed_together(monkeypatch):
    monkeypatch.setattr("bayplan.global_scheduler.service.MAX_REPLICAS", 5)
    two = (Resource("r", (FlavorChoice("f"),), 1), Resource("s", (FlavorChoice("f"),), 1))

    async def scene(service):
        await service.create(msgspec.structs.replace(ask("a"), stack=Stack("web", two, {})))
        assert 2 == len((await service.resize("a", 2)).groups)
        with pytest.raises(ConflictError, match="at most 2 replicas fit"):
            await service.resize("a", 3)

    play(scene, 9)


@pytest.mark.parametrize(
    ("apart", "least"),
    [
        ({"min_sites": 3}, 3),
        ({"min_zones": 3}, 3),
        ({"min_regions": 3}, 3),
        ({"min_sites": 1, "min_zones": 2}, 2),
    ],
    ids=str,
)
def test_no_fewer_replicas_are_left_than_the_spread_asks_for(apart, least):
    async def scene(service):
        await service.create(ask("a", 4, selector={"spread": Spread(**apart)}))
        with pytest.raises(ConflictError) as told:
            await service.resize("a", least - 1)
        assert f"the spread asks for at least {least} replicas" == str(told.value)
        assert least == len((await service.resize("a", least)).groups)

    play(scene, 4, 4, 4)


@pytest.mark.parametrize(("key", "moves"), [("stacks.bayplan.dev/a", True), ("pods./a", False)])
def test_what_belongs_to_an_object_is_changed_there(key, moves):
    async def scene(service):
        await service.create(ask("a", site="s0"), key=key)
        owner = key.partition("/")[0]
        text = f"the allocation belongs to an object of {owner}; change that one"
        acts = [lambda: service.resize("a", 2)]
        if not moves:
            acts.append(lambda: service.move("a", {"s0"}))
        for act in acts:
            with pytest.raises(ConflictError) as told:
                await act()
            assert text == str(told.value)
        assert service.why_not_elsewhere(service.get("a"), "s0") is not None
        with pytest.raises(ConflictError) as told:
            await service.evict(service.get("a"))
        assert "the allocation belongs to a pod, and no API server is connected" == str(told.value)

    play(scene, 4, 4)


def test_replicas_move_where_they_may_and_the_rest_stays():
    async def scene(service):
        placed = await service.create(ask("a", 3, selector={"spread": Spread(max_per_site=3)}))
        await service.resize("a", 3)
        home = where(placed)
        moved = await service.move("a", {"s0"}, "because")
        assert "s0" not in where(moved)
        gone = home.count("s0")
        [(moment, text)] = what(moved)
        assert (NOW, f"moved {gone} from s0; ", True) == (
            moment,
            text[: text.index(";") + 2],
            text.endswith(" (because)"),
        )
        again = await service.move("a", {"s0"})
        assert again is moved, "there is nothing to leave"
        back = await service.move("a", {"s1", "s2"}, to="s0", most=1)
        assert 1 == where(back).count("s0")
        assert 2 == sum(x == y for x, y in zip(where(moved), where(back), strict=True))
        with pytest.raises(NoSiteError):
            await service.move("a", {"s0"}, to="s9")
        assert back is service.get("a")

    play(scene, 4, 4, 4)


def groups(*sites):
    return tuple(Group("g", (), Selected(site, "r", "z")) for site in sites)


def test_how_replicas_moved_is_told_in_words():
    old, new = (SimpleNamespace(groups=groups(*sites)) for sites in ("aabc", "cdde"))

    assert "moved 2 from a, 1 from b; 2 to d, 1 to e" == _told(old, new, "")
    assert _told(old, new, "drained").endswith("1 to e (drained)")


@pytest.mark.parametrize(
    ("sites", "left", "stay"),
    [
        ("aab", 2, [0, 2]),
        ("abab", 3, [0, 1, 2]),
        ("abab", 2, [0, 1]),
        ("abbba", 2, [0, 1]),
        ("abc", 1, [0]),
        ("aaa", 3, [0, 1, 2]),
    ],
)
def test_the_youngest_of_the_fullest_site_goes_first(sites, left, stay):
    record = SimpleRecord(groups(*sites))

    found = shrunk(record, left)

    assert [record.groups[n] for n in stay] == list(found.groups)
    assert all(found.groups[at] is record.groups[n] for at, n in enumerate(stay))
    assert left == found.allocation.replicas


class SimpleRecord(msgspec.Struct):
    groups: tuple
    allocation: Allocation = ask("a")
    history: tuple = ()


def test_only_the_last_events_are_remembered():
    record = SimpleRecord(())
    for number in range(HISTORY + 2):
        record = with_event(record, float(number), f"event {number}")

    assert [(n, f"event {n}") for n in range(2, HISTORY + 2)] == [
        (event.at, event.what) for event in record.history
    ]


@pytest.mark.parametrize(
    ("state", "expires", "ends", "now", "over"),
    [
        (RESERVED, 5.0, 0.0, 4.9, False),
        (RESERVED, 5.0, 0.0, 5.0, True),
        (COMMITTED, 0.0, 0.0, 5.0, False),
        (COMMITTED, 0.0, 5.0, 4.9, False),
        (COMMITTED, 0.0, 5.0, 5.0, True),
        (RESERVED, 9.0, 5.0, 6.0, True),
        (COMMITTED, 0.0, 0.5, 1.0, True),
    ],
)
def test_when_an_allocation_is_over(state, expires, ends, now, over):
    record = SimpleNamespace(state=state, expires=expires, allocation=ask("a", ends_at=ends))

    assert over == _expired(record, now)


def test_what_is_over_is_given_back_within_half_a_second():
    async def scene(service):
        await service.create(ask("reserved"), ttl=3.2)
        await service.create(ask("ending", ends_at=NOW + 4.1))
        await service.create(ask("kept"))
        loop, gone = asyncio.get_running_loop(), []
        service.ledger.on_change(lambda one, came: gone.append((loop.time(), one.id)))
        await asyncio.sleep(60)
        assert [(3.5, "reserved"), (4.5, "ending")] == gone
        with pytest.raises(ConflictError) as told:
            await service.create(ask("late", ends_at=NOW + 60))
        assert "ends_at is over already" == str(told.value)
        await service.create(ask("just", ends_at=NOW + 60.1))

    play(scene, 4)


def test_a_store_that_was_compacted_is_read_anew_and_followed_on():
    class Forgetful(MemoryStore):
        lost = 0

        def watch(self, *given, **more):
            watches.append(asyncio.get_running_loop().time())
            if self.lost:
                self.lost -= 1
                raise Compacted(asked=1, compacted=2)
            return super().watch(*given, **more)

    watches, store = [], Forgetful()

    async def scene(service):
        other = service_of(4, store=store)
        store.lost = 2
        await other.start()
        await service.create(ask("a"))
        await asyncio.sleep(2)
        assert ["a"] == list(other.ledger.records)
        assert [0.0, 0.0, 0.5, 0.5] == watches
        await service.release("a")
        await asyncio.sleep(0.1)
        assert {} == other.ledger.records
        await other.stop()

    play(scene, 4, store=store)


def test_sites_that_cannot_be_closed_or_opened_say_so():
    async def scene(service):
        await service.close_site("s0")
        assert [False, True] == service.table.open.tolist()
        whole = service._store.transact

        async def away(ops):
            raise Unavailable("away")

        service._store.transact = away
        for act in (service.close_site("s1"), service.open_site("s0")):
            with pytest.raises(UnavailableError) as told:
                await act
            assert "the store did not take it: away" == str(told.value)
        assert [False, True] == service.table.open.tolist()
        service._store.transact = whole
        await service.open_site("s0")
        assert [True, True] == service.table.open.tolist()

    play(scene, 4, 4)


def test_equal_requests_have_one_fingerprint_whatever_their_id():
    assert fingerprint(ask("a")) == fingerprint(ask("b"))
    assert fingerprint(ask("a")) != fingerprint(ask("a", 2))
    assert 64 == len(fingerprint(ask("a")))


def test_what_is_placed_is_explained_as_if_it_were_not():
    async def scene(service):
        await service.create(ask("a", count=3))
        free = snapshot(service.table)
        assert (1, 1) == ((why := service.explain_placed("a")).fits, why.replicas)
        assert 0 == service.explain(ask("b", count=3)).fits
        service.explain = lambda allocation: 1 / 0
        with pytest.raises(ZeroDivisionError):
            service.explain_placed("a")
        assert free == snapshot(service.table)

    play(scene, 4)


def test_several_are_decided_on_top_of_each_other_and_leave_nothing_when_one_fails():
    """Also with those that must go for them, which are taken once."""

    async def scene(service):
        for name in "xy":
            await service.create(ask(name, count=2, priority=1))
        free = snapshot(service.table)
        wanted = [ask(name, count=2, priority=5, preempt=True) for name in "ab"]
        with pytest.raises(NoSiteError):
            await service.create_all([*wanted, ask("c", count=2, priority=5, preempt=True)])
        assert (free, {"x", "y"}) == (snapshot(service.table), service.ledger.records.keys())
        made = await service.create_all(wanted)
        assert [("y",), ("x",)] == [record.preempted for record in made]
        assert {"a", "b"} == service.ledger.records.keys()
        assert all(record.fingerprint == fingerprint(record.allocation) for record in made)
        assert {COMMITTED} == {record.state for record in made}

    play(scene, 4)


@pytest.mark.parametrize(
    ("low", "goes"),
    [
        ({"priority": 1}, True),
        ({"priority": 5}, False),
        ({"priority": 1, "ends_at": NOW + 100}, True),
        ({"priority": 1, "starts_at": NOW + 500}, None),
    ],
    ids=str,
)
@pytest.mark.parametrize("of_object", [False, True])
def test_only_lesser_ones_of_nobody_that_are_in_the_way_must_go(low, goes, of_object):
    """One that holds room at another time only is not in the way at all."""

    async def scene(service):
        key = "stacks.bayplan.dev/low" if of_object else ""
        await service.create(ask("low", count=3, **low), key=key)
        wanted = ask("high", count=3, priority=5, preempt=True, ends_at=NOW + 400)
        if goes is None:
            assert () == (await service.create(wanted)).preempted
        elif goes and not of_object:
            assert ("low",) == (await service.create(wanted)).preempted
            assert ["high"] == list(service.ledger.records)
        else:
            with pytest.raises(NoSiteError):
                await service.create(wanted)
            assert ["low"] == list(service.ledger.records)

    play(scene, 4)


def known(service, *, others=0, closed=()):
    return Known(others, frozenset(closed), 0, (0, 0))


@pytest.mark.parametrize(
    ("case", "holds"),
    [
        ("nothing", True),
        ("others", True),
        ("site closed", False),
        ("site closed before", True),
        ("other site closed", True),
        ("quota", False),
        ("too much", False),
        ("too much, but nobody else was there", True),
        ("key", False),
        ("affinity", False),
        ("antiaffinity", False),
        ("affinity, but nobody else was there", True),
        ("too much at another time", True),
    ],
)
def test_whether_a_decision_stands_after_what_others_wrote(case, holds):
    """What nobody could have changed is not looked at again."""

    async def scene(service):
        ledger = service.ledger
        wish = (Requirement("app", "exists"),)
        kind = case.partition(",")[0]
        selector = {f"stack_{kind}": wish} if "affinity" in kind else {}
        if kind == "antiaffinity":
            selector["stack_antiaffinity"] = (Requirement("none", "exists"),)
        record = await service.create(
            ask("a", 2, selector={"spread": Spread(max_per_site=1)} | selector, domain="d"), key="k"
        )
        before = known(service, closed=["s0"] if case == "site closed before" else [])
        ledger.others += "nobody else" not in case
        if "site closed" in case:
            ledger._close({"other": "s2"}.get(case.partition(" ")[0], "s0"))
        if case == "quota":
            service.table.quotas = {"d": Quota("d", {"replicas": 1})}
        if case == "key":
            ledger.by_key["k"] = "b"
        if "too much" in case:
            first, wanted = record.groups[0], ask("b")
            if "another time" in case:
                wanted = ask("b", starts_at=NOW + 900, ends_at=NOW + 999)
                soon = msgspec.structs.replace(record.allocation, ends_at=NOW + 800)
                record = msgspec.structs.replace(record, allocation=soon)
            large = Charges(dict.fromkeys(first.charges.takes, (9, 9)))
            group = msgspec.structs.replace(first, charges=large)
            ledger.apply(
                msgspec.structs.replace(record, id="b", key="", allocation=wanted, groups=(group,))
            )
        free = snapshot(service.table)

        assert holds == service._still_holds(record, list(record.groups), before)
        assert free == snapshot(service.table)
        ledger.by_key["k"] = "a"
        if "b" in ledger.records:
            ledger.unapply(ledger.records["b"])
        ledger._close("s0", closed=False)
        ledger._close("s2", closed=False)

    play(scene, 4, 4, 4)


def test_a_quota_counts_what_is_replaced_as_given_back():
    async def scene(service):
        await service.create(ask("a", 3, domain="d"))
        with pytest.raises(QuotaError, match="would have 5 vcpus and may have 4"):
            await service.create(ask("b", 2, domain="d"))
        await service.create(ask("b", 2, domain="other"))
        assert 4 == len((await service.resize("a", 4)).groups)
        with pytest.raises(QuotaError, match="would have 5 vcpus and may have 4; it has 0 now"):
            await service.resize("a", 5)
        await service.create(ask("filler", 3, priority=20))
        high = ask("c", 4, domain="d", priority=9, preempt=True)
        assert ("a",) == (await service.create(high)).preempted

    play(scene, 9, quotas=(Quota("d", {"vcpus": 4}),))


# -- plans


@pytest.mark.parametrize(
    ("used", "moves"),
    [
        ((10, 8), 1),
        ((10, 9), 0),
        ((10, 0), 5),
        ((0, 0), 0),
        ((20, 0), 10),
    ],
    ids=str,
)
def test_a_plan_moves_one_by_one_while_it_is_worth_it(used, moves):
    """A site must be emptier by a twentieth of the whole afterwards, here by one of twenty."""

    async def scene(service):
        for site, count in enumerate(used):
            for number in range(count):
                await service.create(ask(f"s{site}-{number}", site=f"s{site}"))
        for record in list(service.ledger.records.values()):
            free = msgspec.structs.replace(record.allocation, selector=Selector())
            anywhere = msgspec.structs.replace(record, allocation=free)
            service.ledger.unapply(record)
            service.ledger.apply(anywhere)
        known = service.placer, service.inventory, list(service.ledger.records.values()), ()
        plan = make_plan(*known, 99)
        assert moves == len(plan.moves)
        assert {("s0", "s1", "web")} >= {(m.source, m.to, m.name) for m in plan.moves}
        assert used[0] / 20 == plan.fullest_before
        assert (used[0] - moves) / 20 == plan.fullest_after
        assert min(moves, 2) == len(make_plan(*known, 2).moves)

    play(scene, 20, 20)


def test_the_least_important_moves_first_and_what_may_not_move_stays():
    async def main():
        service = service_of(20, 20)
        await service.start()
        for name, priority, key in (
            ("high", 5, ""),
            ("old", 0, ""),
            ("young", 0, ""),
            ("pod", 0, "pods./pod"),
        ):
            await asyncio.sleep(1)
            record = await service.create(ask(name, priority=priority, site="s0"), key=key)
            free = msgspec.structs.replace(record.allocation, selector=Selector())
            service.ledger.unapply(record)
            service.ledger.apply(msgspec.structs.replace(record, allocation=free))
        records = list(service.ledger.records.values())
        closed = make_plan(service.placer, service.inventory, records, ["s1"], 9)
        plan = make_plan(service.placer, service.inventory, records, [], 9)
        await service.stop()
        return closed.moves, plan.moves

    closed, moves = run_virtual(main())
    assert () == closed
    assert (Step("young", "web", "s0", "s1"), Step("old", "web", "s0", "s1")) == moves[:2]


def test_how_much_of_each_site_is_given_away():
    inventory = world((1, 2, 4, 0))
    more = (Host("r2", "z", "hi", 4, 4), Host("r0", "z", "none", 0, 4))
    table = SiteTable(msgspec.structs.replace(inventory, hosts=inventory.hosts + more))
    table.apply(Charges({"hosts/r0/z/gp": (1, 1), "hosts/r1/z/gp": (1, 1)}))
    table.apply(Charges({"hosts/r2/z/gp": (1, 1), "hosts/r2/z/hi": (1, 1)}))

    assert [1.0, 0.5, 0.25, 0.0] == shares(table).tolist()


def test_nobody_is_asked_where_there_is_nothing():
    table = SiteTable(Inventory())
    found = Placer(DEFAULT_POLICY, in_tree_registry()).decide(table, ask("a"))

    assert ("no sites", 0) == (found.message, found.sites)
    assert isinstance(found, NoSite)
    plan = make_plan(Placer(DEFAULT_POLICY, in_tree_registry()), Inventory(), [], [], 9)
    assert ((), 0.0, 0.0) == (plan.moves, plan.fullest_before, plan.fullest_after)


def plainly_shrunk(sites, replicas):
    """One after the other, as it is told: the youngest of the site that has most."""
    left = list(enumerate(sites))
    while len(left) > replicas:
        counts = Counter(site for _, site in left)
        fullest = [one for one in left if counts[one[1]] == max(counts.values())]
        left.remove(max(fullest))
    return [number for number, _ in left]


def record_on(sites):
    groups = tuple(Group(str(n), (), Selected(site, "r", "z", "")) for n, site in enumerate(sites))
    return Record("u", wide(len(sites)), groups, created=0.0)


@given(st.lists(st.sampled_from("abcd"), min_size=1, max_size=12), st.integers(1, 12))
def test_who_goes_first_is_found_as_if_one_went_after_the_other(sites, replicas):
    left = shrunk(record_on(sites), replicas).groups

    assert plainly_shrunk(sites, replicas) == [int(group.name) for group in left]


def test_many_replicas_that_go_are_not_counted_anew_for_each():
    record = record_on([f"s{n % 50}" for n in range(2_000)])

    with at_most(10):
        left = shrunk(record, 1).groups

    assert ["0"] == [group.name for group in left]
