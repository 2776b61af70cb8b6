"""Whatever a plugin raises fails the pod that it was asked about, not the scheduler."""

import asyncio
import signal

import pytest

from bayplan.errors import text_of
from bayplan.testing import make_node, make_pod
from tests.engine.loop.helper import World, config_of


class Panic(BaseException):
    """As extensions written in Rust raise it."""


RAISED = [SystemExit, Panic, asyncio.CancelledError, GeneratorExit]


class Ending:
    """A plugin with one method, which raises something for pods named `bad`."""

    name = "Ending"

    def __init__(self, method, answer, raised):
        def ask(*args):
            pods = [getattr(arg, "pod", arg) for arg in args]
            if any(getattr(pod, "name", "") == "bad" for pod in pods):
                raise raised("had enough")
            return answer

        setattr(self, method, ask)


def world_with(method, answer, raised):
    profile = {"plugins": {"multiPoint": {"enabled": [{"name": "Ending"}]}}}
    room = {"cpu": "2", "memory": "4Gi", "pods": "10"}
    return World(
        *(make_node(name).capacity(room) for name in ("a", "b")),
        make_pod("bad"),
        make_pod("good").label(app="good"),
        config=config_of(profiles=[profile]),
        registry={"Ending": lambda args, handle: Ending(method, answer, raised)},
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
@pytest.mark.parametrize("raised", RAISED)
def test_a_pod_fails_with_the_plugin_s_name_and_others_go_on(method, answer, raised):
    world = world_with(method, answer, raised)

    world.run()

    assert world.node_of("good")
    assert not world.node_of("bad")
    assert "had enough" in world.condition("bad").message


@pytest.mark.parametrize(("method", "bound"), [("pre_enqueue", False), ("post_bind", True)])
@pytest.mark.parametrize("raised", RAISED)
def test_what_has_no_word_in_the_attempt_ends_nothing_either(method, bound, raised):
    world = world_with(method, None, raised)

    world.run()

    assert world.node_of("good")
    assert bool(world.node_of("bad")) is bound


@pytest.mark.parametrize("method", ["filter_node", "pre_enqueue"])
def test_an_interrupt_is_the_user_s_where_nobody_else_takes_it(method):
    """Ctrl-C comes as an exception in whatever runs then; servers take the signal themselves."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            world_with(method, None, KeyboardInterrupt).run()
        signal.signal(signal.SIGINT, lambda *_: None)
        served = world_with(method, None, KeyboardInterrupt)
        served.run()
    finally:
        signal.signal(signal.SIGINT, before)

    assert served.node_of("good")
    assert not served.node_of("bad")


def test_an_interrupt_of_an_error_s_words_is_the_user_s_too():
    class Slow(Exception):
        def __str__(self):
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            text_of(Slow())
        signal.signal(signal.SIGINT, lambda *_: None)
        said = text_of(Slow())
    finally:
        signal.signal(signal.SIGINT, before)

    assert not said
