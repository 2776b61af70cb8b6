"""A plugin that waits makes the whole scheduler wait; that is told."""

import time

import pytest
from structlog.testing import capture_logs

from bayplan.client import Client
from bayplan.config import DEFAULT_GATES, default_config
from bayplan.plugins import in_tree_registry
from bayplan.scheduler import live
from bayplan.scheduler.event_recorder import EventRecorder


@pytest.mark.parametrize(("wall", "told"), [(time.time, 1), (lambda: 0.0, 0)])
def test_a_turn_that_held_the_loop_is_told_but_in_virtual_time(monkeypatch, wall, told):
    monkeypatch.setattr(live, "LONG_TURN", 0.0)
    nobody = Client(None)
    scheduler = live.LiveScheduler(
        config=default_config(),
        gates=DEFAULT_GATES,
        registry=in_tree_registry(),
        client=nobody,
        recorder=EventRecorder(nobody, hostname="h"),
        wall=wall,
    )
    with capture_logs() as logs:
        scheduler._turn()

    assert told == sum("held the event loop" in entry["event"] for entry in logs)
