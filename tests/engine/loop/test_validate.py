"""The check of all invariants, on which the other tests rely, finds what is wrong."""

import pytest
from msgspec.structs import replace

from bayplan.engine.queue.pods import Place
from bayplan.testing import make_node, make_pod
from tests.engine.loop.helper import World


def other_place(scheduler):
    scheduler.queue.get("default/p").place = Place.BACKOFF


def lost(scheduler):
    del scheduler.queue._pods["default/p"]


def forgotten(scheduler):
    scheduler.queue.delete(scheduler.queue.get("default/p").pod)


def unknown(scheduler):
    del scheduler._shared.unassigned["default/p"]


def old(scheduler):
    pods = scheduler._shared.unassigned
    pod = pods["default/p"]
    pods["default/p"] = replace(pod, metadata=replace(pod.metadata, uid="another"))


def of_others(scheduler):
    pods = scheduler._shared.unassigned
    pod = pods["default/p"]
    pods["default/p"] = replace(pod, spec=replace(pod.spec, scheduler_name="another"))


def counted_wrong(scheduler):
    scheduler.queue._waiting.gated += 1


@pytest.mark.parametrize(
    ("damage", "text"),
    [
        (other_place, "default/p says BACKOFF, not UNSCHEDULABLE"),
        (lost, "default/p is not the known pod"),
        (forgotten, "default/p was forgotten"),
        (unknown, "default/p is queued but not known as unassigned"),
        (old, "default/p is queued with an old uid"),
        (of_others, "default/p is queued but not ours"),
        (counted_wrong, ""),
    ],
)
def test_what_is_wrong_is_found(damage, text):
    world = World(make_node("a").capacity(cpu="1", pods="1"), make_pod("p").req(cpu="9"))
    world.run()
    world.scheduler.validate()

    damage(world.scheduler)

    with pytest.raises(AssertionError) as problem:
        world.scheduler.validate()
    assert text in str(problem.value)
