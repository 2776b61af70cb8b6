"""A signal ends the process, also one whose loop is held or whose tasks refuse to end."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

EXTENDER = """
from bayplan.extender import Extender
from bayplan.extender.serve import Listen, serve

serve(Extender(), Listen(port=0), lambda port: print("ready", flush=True))
"""
PROGRAM = """
import asyncio, sys
from bayplan.cli.stopping import stop_on_signals

async def stubborn():
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            pass

async def main():
    stopped = asyncio.Event()
    stop_on_signals(stopped, grace=60 if sys.argv[1] == "orderly" else 0.2)
    print("ready", flush=True)
    if sys.argv[1] == "held":
        while True:
            pass
    if sys.argv[1] == "stubborn":
        asyncio.create_task(stubborn())
    await stopped.wait()

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
