"""A signal ends the process, also one whose loop is held or whose tasks refuse to end."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys

import pytest

from bayplan import eventloop

EXTENDER = """
from bayplan.extender import Extender
from bayplan.extender.serve import Listen, serve

serve(Extender(), Listen(port=0), lambda port: print("ready", flush=True))
"""
PROGRAM = """
import asyncio, sys
from bayplan.stopping import stop_on_signals

async def stubborn():
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            pass

async def main():
    stopped = asyncio.Event()
    graces = {"orderly": 60, "patient": 3600}
    stop_on_signals(stopped, grace=graces.get(sys.argv[1], 0.2))
    print("ready", flush=True)
    if sys.argv[1] == "held":
        while True:
            pass
    if sys.argv[1] != "orderly":
        asyncio.create_task(stubborn())
    await stopped.wait()
    print("ending", flush=True)

asyncio.run(main())
"""


@pytest.mark.parametrize(("how", "code"), [("orderly", 0), ("held", 143), ("stubborn", 143)])
def test_a_signal_ends_the_process(how: str, code: int) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, how], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert "ready\n" == process.stdout.readline()
        process.send_signal(signal.SIGTERM)

        assert code == process.wait(60)


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_the_process_at_once(second: signal.Signals) -> None:
    """The first cannot: its time is an hour, and a task refuses to end."""
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "patient"], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert "ready\n" == process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        assert "ending\n" == process.stdout.readline()
        process.send_signal(second)

        assert 128 + second == process.wait(60)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_extender_that_is_told_to_end_has_not_failed(number: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", EXTENDER], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert "ready\n" == process.stdout.readline()
        process.send_signal(number)
        _, said = process.communicate(timeout=60)

    assert (0, "") == (process.returncode, said)


def test_a_server_in_a_test_runs_where_a_timeout_can_end_it() -> None:
    async def main() -> str:
        return type(asyncio.get_running_loop()).__module__

    assert "asyncio.unix_events" == eventloop.run(main())
