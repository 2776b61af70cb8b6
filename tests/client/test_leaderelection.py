"""Leader election on virtual time: one leader at a time, takeover after the lease ran out."""

import asyncio
import json
from datetime import UTC, datetime

import pytest

from bayplan.client import AsgiTransport, Client, LeaderElector, TransportError
from bayplan.client.leaderelection import RELEASE_SECONDS
from bayplan.client.transport import Response
from bayplan.clock import run_virtual
from tests.client.fake_api import FakeApi, status

LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"


def candidate(api: FakeApi, name: str) -> LeaderElector:
    return LeaderElector(Client(AsgiTransport(api)), name)


async def forever() -> None:
    await asyncio.get_running_loop().create_future()


def test_first_candidate_creates_the_lease_and_second_waits():
    async def main():
        api = FakeApi()
        first, second = candidate(api, "a"), candidate(api, "b")
        tasks = [asyncio.create_task(one.run(forever)) for one in (first, second)]
        await asyncio.sleep(100)
        seen = (first.is_leader, second.is_leader, api.objects[LEASE]["spec"])
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return seen

    leads, follows, spec = run_virtual(main())

    assert (leads, follows) == (True, False)
    assert spec["holderIdentity"] == "a"
    assert spec["leaseDurationSeconds"] == 15


def test_release_lets_the_standby_take_over_at_once():
    async def main():
        api = FakeApi()
        first, second = candidate(api, "a"), candidate(api, "b")
        one = asyncio.create_task(first.run(forever))
        await asyncio.sleep(1)
        two = asyncio.create_task(second.run(forever))
        await asyncio.sleep(10)
        one.cancel()
        await asyncio.gather(one, return_exceptions=True)
        await asyncio.sleep(4.5)
        seen = second.is_leader, api.objects[LEASE]["spec"]["leaseTransitions"]
        two.cancel()
        await asyncio.gather(two, return_exceptions=True)
        return seen

    assert (True, 1) == run_virtual(main())


def test_who_does_not_lead_leaves_without_a_word():
    async def main():
        api = FakeApi()
        leader, standby = candidate(api, "a"), candidate(api, "b")
        leading = asyncio.create_task(leader.run(forever))
        await asyncio.sleep(1)
        waiting = asyncio.create_task(standby.run(forever))
        await asyncio.sleep(3.1)
        before = len(api.requests)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        after, holder = len(api.requests), api.objects[LEASE]["spec"]["holderIdentity"]
        leading.cancel()
        await asyncio.gather(leading, return_exceptions=True)
        return after - before, holder

    assert (0, "a") == run_virtual(main())


def test_a_lease_that_cannot_be_given_up_holds_nobody_up():
    async def main():
        api, clock = FakeApi(), asyncio.get_running_loop().time
        hangs = False

        async def served(scope, receive, send):
            if hangs:
                await forever()
            await api(scope, receive, send)

        leader = asyncio.create_task(LeaderElector(Client(AsgiTransport(served)), "a").run(forever))
        await asyncio.sleep(1)
        hangs, begun = True, clock()
        leader.cancel()
        await asyncio.gather(leader, return_exceptions=True)
        return clock() - begun

    assert RELEASE_SECONDS == pytest.approx(run_virtual(main()))


def test_a_dead_leader_is_replaced_after_the_lease_duration_and_never_before():
    async def main():
        api = FakeApi()
        await api.put(
            LEASE, spec={"holderIdentity": "dead", "leaseDurationSeconds": 15, "extra": "stays"}
        )
        elector = candidate(api, "b")
        task = asyncio.create_task(elector.run(forever))
        await asyncio.sleep(14.9)
        early = elector.is_leader
        await asyncio.sleep(3)
        late, spec = elector.is_leader, api.objects[LEASE]["spec"]
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return early, late, spec["extra"]

    assert (False, True, "stays") == run_virtual(main())


def test_a_leader_that_cannot_renew_stops_before_another_may_begin():
    async def main():
        api = FakeApi()
        elector = candidate(api, "a")
        cancelled = asyncio.Event()

        async def work():
            try:
                await forever()
            finally:
                cancelled.set()

        task = asyncio.create_task(elector.run(work))
        await asyncio.sleep(1)
        api.fault = lambda method, path: (*status(500, "InternalError"), {})
        begin = asyncio.get_running_loop().time()
        kept = await task
        return kept, cancelled.is_set(), asyncio.get_running_loop().time() - begin

    kept, cancelled, after = run_virtual(main())

    assert kept is False
    assert cancelled
    assert 10 <= after <= 13


def test_who_lost_the_lease_is_told_before_its_work_is_cancelled():
    """The scheduler ends its process then: no answer under way may be carried out after it."""

    async def main():
        api, story = FakeApi(), []
        client = Client(AsgiTransport(api))
        elector = LeaderElector(client, "a", on_lost=lambda: story.append(elector.is_leader))

        async def work():
            try:
                await forever()
            finally:
                story.append("cancelled")

        leading = asyncio.create_task(elector.run(work))
        await asyncio.sleep(1)
        api.fault = lambda method, path: (*status(500, "InternalError"), {})
        await leading
        return story

    assert run_virtual(main()) == [False, "cancelled"]


@pytest.mark.parametrize("duration", [11.0, 11.9], ids=["whole", "others see whole seconds"])
def test_a_lease_hardly_longer_than_the_deadline_is_not_held_past_its_end(duration):
    async def main():
        api, clock = FakeApi(), asyncio.get_running_loop().time
        timing = {"lease_duration": duration, "renew_deadline": 10.0, "retry_period": 2.0}
        elector = LeaderElector(Client(AsgiTransport(api)), "a", **timing)
        leading = asyncio.create_task(elector.run(forever))
        await asyncio.sleep(0.5)
        api.fault = lambda method, path: (*status(500, "InternalError"), {})
        await leading
        return clock()

    assert 11.0 >= run_virtual(main())


def test_work_that_ends_by_itself_releases_the_lease():
    async def main():
        api = FakeApi()
        kept = await candidate(api, "a").run(lambda: asyncio.sleep(5))
        return kept, api.objects[LEASE]["spec"].get("holderIdentity", "")

    assert (True, "") == run_virtual(main())


def test_a_leader_that_has_not_renewed_for_the_lease_and_the_tolerance_is_not_healthy():
    """The leader's own renewing hangs, as it would on a machine that stood still."""

    async def main():
        api = FakeApi()
        elector = candidate(api, "a")
        before = elector.healthy()
        task = asyncio.create_task(elector.run(forever))
        await asyncio.sleep(3)
        elector._renewed_at = asyncio.get_running_loop().time()
        seen = [before]
        for age in (0.0, 15.0, 34.9, 35.1):
            elector._renewed_at = asyncio.get_running_loop().time() - age
            seen.append(elector.healthy(20.0))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return seen

    assert [True, True, True, True, False] == run_virtual(main())


def test_work_that_ends_after_the_lease_went_to_another_leaves_it_alone():
    async def main():
        api = FakeApi()
        elector = candidate(api, "a")

        async def work():
            await asyncio.sleep(1)
            taken = api.objects[LEASE]
            taken["spec"]["holderIdentity"] = "b"
            elector._note(json.dumps(taken).encode())

        kept = await elector.run(work)
        return kept, api.objects[LEASE]["spec"]["holderIdentity"]

    assert (True, "b") == run_virtual(main())


class LateAnswers(AsgiTransport):
    """Takes requests at once and answers writes late; then nothing passes any more."""

    late, cut = 0.0, False

    async def request(self, method, target, headers, body, timeout):
        if self.cut:
            raise TransportError("cut off")
        answer = await super().request(method, target, headers, body, timeout)
        if method in ("PUT", "POST"):
            await asyncio.sleep(self.late)
        if self.cut:
            raise TransportError("cut off")
        return answer


def test_a_lease_is_released_although_its_renewal_was_under_way():
    async def main():
        api = FakeApi()
        transport = LateAnswers(api)
        leader = asyncio.create_task(LeaderElector(Client(transport), "a").run(forever))
        await asyncio.sleep(1)
        transport.late = 1.0
        renewed = api.objects[LEASE]["spec"]["renewTime"]
        async with asyncio.timeout(60):
            while api.objects[LEASE]["spec"]["renewTime"] == renewed:
                await asyncio.sleep(0.1)
        leader.cancel()
        await asyncio.gather(leader, return_exceptions=True)
        return api.objects[LEASE]["spec"].get("holderIdentity", "")

    assert "" == run_virtual(main())


@pytest.mark.parametrize("late", [6.0, 8.0, 12.0, 18.0])
def test_a_renewal_counts_from_when_it_was_sent(late):
    """The standby counts from the write, which may be long before its answer."""

    async def main():
        api = FakeApi()
        slow = LateAnswers(api)
        leader, standby = LeaderElector(Client(slow), "a"), candidate(api, "b")
        tasks = [asyncio.create_task(leader.run(forever))]
        await asyncio.sleep(1)
        tasks.append(asyncio.create_task(standby.run(forever)))
        slow.late = late
        both = False
        for step in range(600):
            await asyncio.sleep(0.1)
            both = both or (leader.is_leader and standby.is_leader)
            slow.cut = slow.cut or step > 10 * (late + 2)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return both, standby.is_leader or api.objects[LEASE]["spec"]["leaseTransitions"] > 0

    both, taken_over = run_virtual(main())

    assert not both
    assert taken_over


class SlowWrites(AsgiTransport):
    """Takes its time between reading and writing."""

    async def request(self, method, target, headers, body, timeout):
        if method in ("PUT", "POST"):
            await asyncio.sleep(1)
        return await super().request(method, target, headers, body, timeout)


def test_who_writes_the_lease_after_another_does_not_lead():
    """Both read that it is free; the store refuses the second write."""

    async def main():
        api = FakeApi()
        await candidate(api, "a").run(lambda: asyncio.sleep(1))
        slow, quick = LeaderElector(Client(SlowWrites(api)), "b"), candidate(api, "c")
        tasks = [asyncio.create_task(slow.run(forever))]
        await asyncio.sleep(0.5)
        tasks.append(asyncio.create_task(quick.run(forever)))
        await asyncio.sleep(1)
        seen = slow.is_leader, quick.is_leader
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return seen

    assert (False, True) == run_virtual(main())


@pytest.mark.parametrize(
    ("jitter", "moments"), [(0.0, [0.0, 2.0, 4.0]), (1.0, [0.0, 4.4, 8.8])], ids=["none", "most"]
)
def test_a_standby_asks_every_retry_period_stretched_by_its_jitter(jitter, moments):
    async def main():
        api, asked = FakeApi(), []
        leader = asyncio.create_task(candidate(api, "a").run(forever))
        await asyncio.sleep(0)
        began = asyncio.get_running_loop().time()

        class Noting(AsgiTransport):
            async def request(self, *words):
                asked.append(asyncio.get_running_loop().time() - began)
                return await super().request(*words)

        standby = LeaderElector(Client(Noting(api)), "b", jitter=lambda: jitter)
        task = asyncio.create_task(standby.run(forever))
        await asyncio.sleep(9)
        for each in (task, leader):
            each.cancel()
        await asyncio.gather(task, leader, return_exceptions=True)
        return asked[:3]

    assert moments == pytest.approx(run_virtual(main()))


def test_who_creates_the_lease_after_another_does_not_lead():
    """Both find none; the store takes the first one only."""

    async def main():
        api = FakeApi()
        slow, quick = LeaderElector(Client(SlowWrites(api)), "b"), candidate(api, "c")
        tasks = [asyncio.create_task(each.run(forever)) for each in (slow, quick)]
        await asyncio.sleep(1.5)
        seen = slow.is_leader, quick.is_leader
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return seen

    assert (False, True) == run_virtual(main())


@pytest.mark.parametrize(("late", "leads"), [(9.9, True), (10.0, False)])
def test_an_answer_as_old_as_the_deadline_makes_no_leader(late, leads):
    async def main():
        slow = LateAnswers(FakeApi())
        slow.late = late
        elector = LeaderElector(Client(slow), "a")
        task = asyncio.create_task(elector.run(forever))
        await asyncio.sleep(late + 0.05)
        seen = elector.is_leader
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return seen

    assert leads is run_virtual(main())


def test_work_that_fails_says_so_and_releases_the_lease():
    async def main():
        api = FakeApi()

        async def fails():
            raise LookupError("x")

        with pytest.raises(LookupError):
            await candidate(api, "a").run(fails)
        return api.objects[LEASE]["spec"].get("holderIdentity", "")

    assert "" == run_virtual(main())


def test_nobody_leads_by_the_word_of_another_server():
    async def main():
        transport = Talking(FakeApi())
        transport.said, transport.end = b'{"status": "ok"}', 30.0
        elector = LeaderElector(Client(transport), "a")
        task = asyncio.create_task(elector.run(forever))
        await asyncio.sleep(10)
        early = elector.is_leader
        await asyncio.sleep(30)
        seen = early, elector.is_leader
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return seen

    assert (False, True) == run_virtual(main())


def test_every_new_leader_is_told_once():
    told = []

    async def main():
        api = FakeApi()
        client = Client(AsgiTransport(api))
        watcher = LeaderElector(client, "c", on_new_leader=told.append)
        for name in "ab":
            standing = asyncio.create_task(candidate(api, name).run(forever))
            await asyncio.sleep(5)
            for _ in range(2):
                await watcher._try()
            standing.cancel()
            await asyncio.gather(standing, return_exceptions=True)

    run_virtual(main())

    assert ["a", "b"] == told


class Talking(AsgiTransport):
    """Something else answers between two moments, with what is no Lease."""

    said, begin, end = b"ok", 0.0, 0.0

    async def request(self, method, target, headers, body, timeout):
        if self.begin <= asyncio.get_running_loop().time() < self.end:
            return Response(200, {}, self.said)
        return await super().request(method, target, headers, body, timeout)


@pytest.mark.parametrize(
    "said", [b"ok", b"\xff", b'{"spec": 1}'], ids=["words", "bytes", "another object"]
)
@pytest.mark.parametrize("begin", [0.0, 5.0], ids=["standing by", "leading"])
def test_what_is_no_lease_is_asked_for_again(said, begin):
    async def main():
        transport = Talking(FakeApi())
        transport.said, transport.begin, transport.end = said, begin, begin + 6.0
        elector = LeaderElector(Client(transport), "a")
        task = asyncio.create_task(elector.run(forever))
        await asyncio.sleep(30)
        seen = elector.is_leader, task.done()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return seen

    assert (True, False) == run_virtual(main())


def test_what_ends_the_renewing_is_told():
    async def main():
        def wall():
            if asyncio.get_running_loop().time() > 5:
                raise ValueError("no time")
            return datetime.now(UTC)

        elector = LeaderElector(Client(AsgiTransport(FakeApi())), "a", wall=wall)
        await elector.run(forever)

    with pytest.raises(ValueError, match="no time"):
        run_virtual(main())
