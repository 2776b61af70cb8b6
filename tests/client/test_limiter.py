"""A limited client asks as often as it may, and never later than it must: by virtual seconds."""

import asyncio

import pytest

from bayplan.client.limiter import RateLimiter
from bayplan.clock import run_virtual


def moments(qps, burst, arrivals):
    """When each request goes that comes at some time."""

    async def main():
        limiter, loop = RateLimiter(qps, burst), asyncio.get_running_loop()
        begun = loop.time()

        async def one(at):
            await asyncio.sleep(at)
            await limiter.acquire()
            return round(loop.time() - begun, 6)

        return await asyncio.gather(*(one(at) for at in arrivals))

    return run_virtual(main())


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
