"""A limited client asks as often as it may, and never later than it must: by virtual seconds."""

import asyncio
from collections import deque
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.client import AsgiTransport, Client
from bayplan.client.limiter import SHARE, RateLimiter
from bayplan.clock import run_virtual


def moments(qps, burst, arrivals):
    """When each request goes that comes at some time; of a pair, the second says who is behind."""

    async def main():
        loop = asyncio.get_running_loop()
        client = Client(AsgiTransport(None), limiter=RateLimiter(qps, burst))
        begun = loop.time()

        async def one(arrival):
            at, behind = arrival if isinstance(arrival, tuple) else (arrival, False)
            await asyncio.sleep(float(at))
            await (client.turn_behind() if behind else client._limiter.acquire())
            return round(loop.time() - begun, 6)

        return await asyncio.gather(*(one(arrival) for arrival in arrivals))

    return run_virtual(main())


def reference(qps, burst, callers):
    """The same by exact numbers, one arrival or one turn at a time."""
    coming = deque(sorted((at, number) for number, (at, _) in enumerate(callers)))
    tokens, now, passed, went = Fraction(burst), Fraction(0), 0, {}
    first, behind = deque(), deque()
    while coming or first or behind:
        due = now + max(1 - tokens, 0) / qps if first or behind else None
        arrives = bool(coming) and (due is None or coming[0][0] < due)
        then = coming[0][0] if arrives else due
        tokens, now = min(Fraction(burst), tokens + (then - now) * qps), then
        if arrives:
            _, number = coming.popleft()
            if tokens < 1 or first or behind:
                (behind if callers[number][1] else first).append(number)
                continue
        elif first and (passed < SHARE or not behind):
            passed, number = passed + 1, first.popleft()
        else:
            passed, number = 0, behind.popleft()
        tokens -= 1
        went[number] = round(float(now), 6)
    return [went[number] for number in range(len(callers))]


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([1, 2, 4]),
    st.integers(1, 3),
    st.lists(st.tuples(st.integers(0, 700), st.booleans()), min_size=1, max_size=24),
)
def test_everybody_has_its_turn_in_order_and_at_the_moment_of_its_token(qps, burst, callers):
    """Arrivals are at different odd moments, so that none is at that of a turn."""
    callers = [(Fraction(at, 97) + n * Fraction(1, 10007), w) for n, (at, w) in enumerate(callers)]

    assert reference(qps, burst, callers) == pytest.approx(moments(qps, burst, callers), abs=1e-5)


def test_who_stands_behind_goes_after_every_few_of_the_others():
    callers = [(0, False), (0, True), (0, True), *[(0, False)] * (2 * SHARE)]
    wanted = [0, SHARE + 1, 2 * SHARE + 2, 1, 2, 3, 4, *(n + SHARE + 2 for n in range(SHARE))]

    assert wanted == moments(1, 1, callers)


def test_a_burst_is_at_least_one():
    assert [0, 1] == moments(1, 0, [0, 0])


@pytest.mark.parametrize(
    ("qps", "burst", "arrivals", "wanted"),
    [
        pytest.param(1, 1, [0, 0, 0], [0, 1, 2], id="one a second"),
        pytest.param(2, 3, [0] * 5, [0, 0, 0, 0.5, 1], id="a burst, then the rate"),
        pytest.param(1, 1, [0, 0.75], [0, 1], id="half a wait counts"),
        pytest.param(1, 1, [0, 1], [0, 1], id="just in time"),
        pytest.param(1, 2, [0, 0, 9, 9, 9], [0, 0, 9, 9, 10], id="rest fills up to the burst only"),
        pytest.param(4, 1, [0, 0, 0.3, 0.3], [0, 0.25, 0.5, 0.75], id="a queue keeps its order"),
    ],
)
def test_requests_go_when_it_is_their_turn(qps, burst, arrivals, wanted):
    assert wanted == moments(qps, burst, arrivals)


def test_who_leaves_the_queue_gives_its_turn_to_the_next():
    async def main():
        limiter, loop = RateLimiter(1, 1), asyncio.get_running_loop()
        await limiter.acquire()
        begun = loop.time()
        first, second = (asyncio.create_task(limiter.acquire()) for _ in range(2))
        await asyncio.sleep(0.5)
        first.cancel()
        await second
        return first.cancelled(), loop.time() - begun

    assert (True, pytest.approx(1.0)) == run_virtual(main())


def test_a_turn_that_came_just_before_its_caller_left_is_given_on():
    """At the very moment of the turn the caller is cancelled: nobody's second is lost."""

    async def main():
        limiter, loop = RateLimiter(1, 1), asyncio.get_running_loop()
        await limiter.acquire()
        begun = loop.time()
        first, second = (asyncio.create_task(limiter.acquire()) for _ in range(2))
        loop.call_later(1.0, lambda: (limiter._due(), first.cancel()))
        await second
        at = loop.time() - begun
        await limiter.acquire()
        return first.cancelled(), at, loop.time() - begun

    assert (True, pytest.approx(1.0), pytest.approx(2.0)) == run_virtual(main())


def test_who_left_is_not_waited_for():
    async def main():
        limiter = RateLimiter(1, 1)
        await limiter.acquire()
        waiting = [asyncio.create_task(limiter.acquire(behind=n % 2)) for n in range(4)]
        await asyncio.sleep(0.5)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        return len(limiter._first) + len(limiter._behind)

    assert 0 == run_virtual(main())
