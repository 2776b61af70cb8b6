"""The loop on virtual time: what rings when, and that it hears those outside."""

import asyncio
import socket
import threading

import pytest

from bayplan.clock import VirtualLoop, rest, run_virtual


def test_timers_ring_by_time_and_equal_ones_in_the_order_in_which_they_were_set():
    async def main():
        loop, rung = asyncio.get_running_loop(), []
        for name, due in [("d", 2.0), ("a", 1.0), ("b", 1.0), ("c", 1.0), ("e", 86_400.0 * 3)]:
            loop.call_at(due, lambda name=name: rung.append((name, loop.time())))
        await asyncio.sleep(86_400.0 * 4)
        return rung, loop.time()

    rung, end = run_virtual(main())

    assert [("a", 1.0), ("b", 1.0), ("c", 1.0), ("d", 2.0), ("e", 86_400.0 * 3)] == rung
    assert end == 86_400.0 * 4


def test_what_was_cancelled_does_not_ring_and_is_not_kept():
    async def main():
        loop, rung = asyncio.get_running_loop(), []
        assert isinstance(loop, VirtualLoop)
        timers = [loop.call_at(10.0 + n, rung.append, n) for n in range(1000)]
        for timer in timers[1:]:
            timer.cancel()
        timers[1].cancel()
        kept = len(loop._timers)
        await asyncio.sleep(2000.0)
        return rung, kept, len(loop._timers)

    rung, kept, left = run_virtual(main())

    assert [0] == rung
    assert kept < 210
    assert left == 0


def test_idle_callbacks_come_when_all_else_of_a_moment_is_done():
    async def main():
        said = []

        async def work():
            for _ in range(5):
                await asyncio.sleep(0)
            said.append("work")

        task = asyncio.create_task(work())
        await rest()
        said.append("idle")
        await asyncio.sleep(1.0)
        await task
        return said

    assert ["work", "idle"] == run_virtual(main())


def test_a_thread_is_heard_while_there_is_work():
    async def main():
        loop, heard = asyncio.get_running_loop(), asyncio.Event()
        thread = threading.Thread(target=loop.call_soon_threadsafe, args=(heard.set,))
        thread.start()
        while not heard.is_set():
            await asyncio.sleep(0)
        thread.join()
        answer = await asyncio.to_thread(lambda: "heard")
        return answer, loop.time()

    assert ("heard", 0.0) == run_virtual(main())


def test_a_socket_is_heard_before_the_clock_moves():
    async def main() -> list[float]:
        loop = asyncio.get_running_loop()
        here, there = socket.socketpair()
        with here, there:
            here.setblocking(False)
            heard = []
            for _ in range(20):
                waiting = asyncio.ensure_future(loop.sock_recv(here, 1))
                await asyncio.sleep(1)
                there.send(b"x")
                before = loop.time()
                pause = asyncio.ensure_future(asyncio.sleep(5))
                await waiting
                heard.append(loop.time() - before)
                pause.cancel()
            return heard

    assert run_virtual(main()) == [0.0] * 20


def test_a_closed_loop_takes_no_callbacks_and_one_in_debug_mode_no_coroutines():
    loop = VirtualLoop()
    loop.set_debug(True)
    with pytest.raises(TypeError, match="coroutines cannot be used"):
        loop.call_soon(asyncio.sleep)
    loop.close()
    for debug in (False, True):
        loop.set_debug(debug)
        with pytest.raises(RuntimeError, match="Event loop is closed"):
            loop.call_soon(print)
        with pytest.raises(RuntimeError, match="Event loop is closed"):
            loop.call_at(1.0, print)
