"""Whoever waits in real time hears that it goes on."""

import threading

from bayplan.cli.ticking import ticking


def test_lines_come_while_the_block_runs_and_end_with_it():
    lines, twice = [], threading.Event()

    def say(text: str) -> None:
        lines.append(text)
        if len(lines) == 2:
            twice.set()

    with ticking(say, every=0.001):
        assert twice.wait(60)
    count = len(lines)

    assert all(line.startswith("running for ") for line in lines)
    assert not any(thread.name == "ticking" for thread in threading.enumerate())
    assert count == len(lines)
