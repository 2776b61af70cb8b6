"""`sys.exit` in a plugin fails the pod that it was asked about, not the scheduler."""

import sys

import pytest

from bayplan.testing import make_node, make_pod
from tests.engine.loop.helper import World, config_of


class Ending:
    """A plugin with one method, which ends the program for pods named `bad`."""

    name = "Ending"

    def __init__(self, method, answer):
        def ask(*args):
            pods = [getattr(arg, "pod", arg) for arg in args]
            if any(getattr(pod, "name", "") == "bad" for pod in pods):
                sys.exit("had enough")
            return answer

        setattr(self, method, ask)


def world_with(method, answer):
    profile = {"plugins": {"multiPoint": {"enabled": [{"name": "Ending"}]}}}
    room = {"cpu": "2", "memory": "4Gi", "pods": "10"}
    return World(
        *(make_node(name).capacity(room) for name in ("a", "b")),
        make_pod("bad"),
        make_pod("good").label(app="good"),
        config=config_of(profiles=[profile]),
        registry={"Ending": lambda args, handle: Ending(method, answer)},
    )


@pytest.mark.parametrize(
    ("method", "answer"),
    [
        ("pre_filter", (None, None)),
        ("filter_node", None),
        ("score_node", 1),
        ("reserve", None),
        ("permit", (None, 0.0)),
        ("pre_bind", None),
    ],
)
def test_a_pod_fails_with_the_plugin_s_name_and_others_go_on(method, answer):
    world = world_with(method, answer)

    world.run()

    assert world.node_of("good")
    assert not world.node_of("bad")
    assert "had enough" in world.condition("bad").message


@pytest.mark.parametrize(("method", "bound"), [("pre_enqueue", False), ("post_bind", True)])
def test_what_has_no_word_in_the_attempt_ends_nothing_either(method, bound):
    world = world_with(method, None)

    world.run()

    assert world.node_of("good")
    assert bool(world.node_of("bad")) is bound
