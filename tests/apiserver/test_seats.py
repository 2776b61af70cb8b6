"""One client's flood does not keep the others out."""

from __future__ import annotations

import asyncio

import pytest

from bayplan.apiserver.errors import ApiError
from bayplan.apiserver.fairness.seats import Seats

FLOOD, CALM = ("admin", "flood"), ("admin", "kubectl")


async def test_a_free_seat_goes_to_the_clients_in_turn() -> None:
    seats = Seats(2)
    order: list[str] = []
    all_wait = asyncio.Event()

    async def run(client: tuple[str, str]) -> None:
        await seats.take(client)
        order.append(client[1])
        await all_wait.wait()
        seats.give()

    tasks = [asyncio.create_task(run(FLOOD)) for _ in range(4)]
    await asyncio.sleep(0)
    tasks.append(asyncio.create_task(run(CALM)))
    await asyncio.sleep(0)
    all_wait.set()
    await asyncio.gather(*tasks)

    assert "kubectl" in order[2:4]
    assert 0 == seats.taken


async def test_who_has_too_many_waiting_is_refused_and_others_are_not() -> None:
    seats = Seats(1)
    await seats.take(FLOOD)
    waiting = asyncio.create_task(seats.take(FLOOD))
    await asyncio.sleep(0)

    with pytest.raises(ApiError, match="too many requests"):
        await seats.take(FLOOD)
    calm = asyncio.create_task(seats.take(CALM))
    await asyncio.sleep(0)
    seats.give()
    await waiting
    seats.give()
    await calm
    seats.give()

    assert 0 == seats.taken


async def test_who_leaves_while_waiting_keeps_no_seat() -> None:
    seats = Seats(1)
    await seats.take(FLOOD)
    leaving = [asyncio.create_task(seats.take(client)) for client in (FLOOD, CALM)]
    await asyncio.sleep(0)
    leaving[0].cancel()
    await asyncio.sleep(0)
    seats.give()  # to the second
    leaving[1].cancel()
    await asyncio.gather(*leaving, return_exceptions=True)

    assert 0 == seats.taken


@pytest.mark.parametrize("turns", range(3))
async def test_who_has_left_the_queue_takes_no_place_in_it(turns: int) -> None:
    """Clients that give up while all seats are taken must not keep their next request out."""
    seats = Seats(1, queue=2)
    await seats.take(FLOOD)
    for _ in range(3):
        leaving = asyncio.create_task(seats.take(FLOOD))
        for _ in range(turns):
            await asyncio.sleep(0)
        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)
    staying = asyncio.create_task(seats.take(FLOOD))
    await asyncio.sleep(0)
    assert not staying.done()

    seats.give()
    await staying
    seats.give()

    assert (0, 0) == (seats.taken, seats.waiting)
