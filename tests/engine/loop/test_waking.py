"""Waiting pods are found by the labels that may help them, and nobody is overlooked."""

import pytest

from bayplan.testing import make_node, make_pod
from tests.engine.loop.helper import World

HOST = "kubernetes.io/hostname"
APPS = 30


def node(name):
    return make_node(name).label({HOST: name}).capacity(cpu="64", memory="64Gi", pods="200")


def world_of_waiting(make):
    world = World(node("a"), *(make(number) for number in range(APPS)))
    world.run()
    assert APPS == world.scheduler.queue.pending()["unschedulable"]
    return world


def wants(number):
    """Waits for a pod of an app of its own."""
    return make_pod(f"p{number}").label(app=f"app-{number}").near(f"app=db-{number}", HOST)


def waiting(world):
    return [item.pod.name for item in world.scheduler.queue if item.place.name == "UNSCHEDULABLE"]


def test_a_pod_wakes_the_app_that_waits_for_it_and_asks_no_other():
    world = world_of_waiting(wants)
    before = world.scheduler.queue.hint_calls

    world.show(make_pod("db").label(app="db-7").node("a"))

    assert "p7" not in waiting(world)
    assert APPS - 1 == len(waiting(world))
    assert world.scheduler.queue.hint_calls - before < 5


@pytest.mark.parametrize("labels", [{"app": "db-3"}, {"app": "db-3", "more": "x"}])
def test_a_label_that_a_running_pod_gets_wakes_too(labels):
    world = world_of_waiting(wants)
    world.show(make_pod("db").label(app="none").node("a"))
    assert APPS == len(waiting(world))

    world.show(make_pod("db").label(labels).node("a"))

    assert "p3" not in waiting(world)


def test_a_pod_that_kept_others_away_wakes_them_when_it_goes():
    keeper = make_pod("keeper").label(app="keeper").apart("app=web", HOST).node("a")
    world = World(node("a"), keeper, make_pod("web").label(app="web"))
    world.run()
    assert ["web"] == waiting(world)

    world.gone("Pod", "default/keeper")

    assert [] == waiting(world)


def test_what_keeps_a_pod_away_by_its_own_rule_wakes_it_when_it_goes():
    world = World(node("a"), make_pod("noisy").label(app="noisy").node("a"))
    world.show(make_pod("quiet").label(app="quiet").apart("app=noisy", HOST))
    world.run()
    assert ["quiet"] == waiting(world)

    world.gone("Pod", "default/noisy")

    assert [] == waiting(world)


def test_a_pod_of_a_spread_app_wakes_those_that_count_it():
    def spread(number):
        made = make_pod(f"s{number}").label(app=f"app-{number}")
        return made.spread(1, "rack", f"app=app-{number}")  # no node has the key

    world = world_of_waiting(spread)
    before = world.scheduler.queue.hint_calls

    world.show(make_pod("other").label(app="app-5").node("a"))

    assert world.scheduler.queue.hint_calls - before < 5
    assert "s5" not in waiting(world)


@pytest.mark.parametrize("pool", ["x7", "none"])
def test_a_node_label_wakes_who_selects_it_and_asks_each_at_most_once(pool):
    world = world_of_waiting(
        lambda number: make_pod(f"p{number}").node_selector({"pool": f"x{number}"})
    )
    before = world.scheduler.queue.hint_calls

    world.show(node("a").label(pool=pool))

    woken = {f"p{number}" for number in range(APPS)} - set(waiting(world))
    assert ({"p7"} if pool == "x7" else set()) == woken
    assert world.scheduler.queue.hint_calls - before <= APPS
