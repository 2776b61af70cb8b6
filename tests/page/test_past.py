"""A moment of a running cluster is the present with later changes taken back."""

import asyncio

import pytest

from bayplan.errors import BayplanError
from bayplan.inspect import Cluster
from bayplan.page.past import Past
from bayplan.page.sources import Living
from bayplan.testing import make_node, make_pod


class Clock:
    def __init__(self):
        self.time = 100.0

    def __call__(self):
        return self.time


def test_why_is_asked_of_the_moment_that_is_shown():
    clock = Clock()
    node = make_node("n1").build()
    waits, runs, gone = (make_pod("a").build(), make_pod("a").node("n1").build(),
                         make_pod("b").node("n1").build())  # fmt: skip

    async def read():
        return Cluster.from_objects([node, runs])

    source = Living("test", read, clock=clock)
    for time, item, old in ((110.0, waits, None), (120.0, runs, waits), (130.0, gone, gone)):
        clock.time = time
        source.past.note(item, old)

    def at(moment):
        pods = asyncio.run(source.cluster("", moment)).pods
        return {key: pod.spec.node_name for key, pod in pods.items()}

    assert at(105.0) == {"default/b": "n1"}
    assert at(115.0) == {"default/a": "", "default/b": "n1"}
    assert at(125.0) == {"default/a": "n1", "default/b": "n1"}
    assert at(135.0) == {"default/a": "n1"}
    assert at(None) == {"default/a": "n1"}


def test_a_moment_that_was_forgotten_is_refused():
    clock = Clock()
    past = Past(clock, most=2)
    for number in range(4):
        clock.time += 10
        past.note(make_pod(f"p{number}").build(), None)

    assert past.objects({}, 120.0) == {type(make_pod("x").build()): {}}
    with pytest.raises(BayplanError, match="last 20 s"):
        past.objects({}, 119.0)
