"""Streams together write a bounded amount in one turn of the event loop."""

import asyncio
import queue
from collections import Counter

from bayplan.apiserver.http import PIECE_COST, Pacing
from bayplan.clock import run_virtual
from bayplan.released import MANY, SECONDS, Released


async def written(streams, pieces, per_turn, gone=()):
    """Return the turn and the stream of each write."""
    pacing, turn, seen = Pacing(per_turn * PIECE_COST), 0, []

    async def count():
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    async def write(stream):
        for _ in range(pieces):
            await pacing.turn(0)
            seen.append((turn, stream))

    counting = asyncio.create_task(count())
    tasks = [asyncio.create_task(write(n)) for n in range(streams)]
    await asyncio.sleep(0)
    for number in gone:
        tasks[number].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    counting.cancel()
    return seen


async def test_many_streams_share_a_turn():
    seen = await written(streams=40, pieces=3, per_turn=5)

    assert 40 * 3 == len(seen)
    assert max(Counter(turn for turn, _ in seen).values()) <= 2 * 5, "of one turn and the next"
    assert {3} == set(Counter(stream for _, stream in seen).values())


async def test_nobody_is_passed_over():
    seen = await written(streams=20, pieces=2, per_turn=4)

    first = [stream for _, stream in seen][:20]
    assert len(set(first)) >= 16, "the second piece of one does not go before the first of most"


async def test_one_that_has_gone_takes_no_turn():
    seen = await written(streams=20, pieces=2, per_turn=2, gone=range(5, 20))

    assert set(range(5)) == {stream for _, stream in seen}


async def test_one_stream_waits_for_nobody():
    seen = await written(streams=1, pieces=4, per_turn=10)

    assert 1 == len({turn for turn, _ in seen})


def test_memory_of_many_closed_connections_is_given_back_once():
    trimmed = queue.Queue()
    released = Released(lambda: trimmed.put(True))

    async def close(count):
        for _ in range(count):
            released.one(asyncio.get_running_loop())
        await asyncio.sleep(2 * SECONDS)

    run_virtual(close(MANY - 1))
    assert trimmed.empty()
    run_virtual(close(MANY * 3))
    assert trimmed.get(timeout=60)
    run_virtual(close(MANY - 1))
    assert trimmed.empty()
