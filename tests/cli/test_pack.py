"""Ctrl-C ends the search of `bayplan pack` and keeps what it has."""

import os
import signal
import threading

import pytest

from bayplan.cli.pack import _ask


class Search:
    """Runs until it is stopped; presses Ctrl-C itself, `presses` times."""

    def __init__(self, presses):
        self.presses, self.stopped = presses, False
        self._end = threading.Event()

    def run(self):
        for _ in range(self.presses):
            os.kill(os.getpid(), signal.SIGINT)
            self._end.wait(60)
        return "the best so far"

    def stop(self):
        self.stopped = True
        self._end.set()


def test_ctrl_c_keeps_the_best():
    assert _ask(Search(1)) == "the best so far"


def test_a_second_ctrl_c_gives_up():
    search = Search(1)
    search.stopped = True

    with pytest.raises(KeyboardInterrupt):
        _ask(search)
