"""Kept answers take no more memory than they are reckoned to, and that is bounded."""

import gc

import numpy as np
import pytest

from bayplan.cluster.limits import Limits
from bayplan.engine.cache import Cache
from bayplan.testing import make_node, make_pod
from tests.engine.clusters import make_engine

NODES, KINDS = 600, 40
PROMISES = 30
HOST = "kubernetes.io/hostname"


def engine_after_many_kinds(rule, limits=None, priorities=0):
    nodes = []
    for number in range(NODES):
        labels = {"zone": f"z{number % 3}", HOST: f"n{number}"}
        nodes.append(make_node(f"n{number}").label(labels).capacity(cpu=64, pods=99).build())
    engine = make_engine(nodes, cache=Cache(limits))
    for number in range(PROMISES if priorities else 0):
        wish = make_pod(f"w{number}").uid(f"w{number}").req(cpu="63900m").priority(9000)
        engine.cache.nominator.add(engine.cache.infos.make(wish.build()), f"n{number}")
    for number in range(2 * KINDS):
        app = f"a{number % KINDS}"
        pod = make_pod(f"p{number}").label(app=app).req(cpu=f"{10 + number % KINDS}m")
        pod.priority(number // KINDS % max(1, priorities))
        engine.place(rule(pod, f"app={app}").build(), 0.0)
    return engine


def all_of_its_own(pod, own):
    """A wish at every plugin that nobody else has."""
    pod.tolerate(own.replace("=", "-")).image(own).prefer_node(1, own)
    return pod.spread(1, "zone", own, hard=False).spread(9, HOST, own).prefer_near(1, own, HOST)


def arrays_of(answers):
    """The bytes of all arrays that hang on the plans, whoever holds them in between."""
    seen, found, left = set(), {}, list(answers._recent)
    while left:
        item = left.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        if isinstance(item, np.ndarray):
            whole = item if item.base is None else item.base
            found[id(whole)] = whole.nbytes
        elif isinstance(item, list | tuple | dict | set) or _ours(item):
            left += [other for other in gc.get_referents(item) if other is not answers._desk]
    return sum(found.values())


def _ours(item):
    module = type(item).__module__
    ours = ("bayplan.engine.answers", "bayplan.engine.cycle", "bayplan.cluster.column")
    return module.startswith(ours)


RULES = [
    pytest.param(lambda pod, own: pod, id="requests"),
    pytest.param(lambda pod, own: pod.spread(1, "zone", own, hard=False), id="soft spread"),
    pytest.param(lambda pod, own: pod.spread(1, "zone", own), id="hard spread"),
    pytest.param(lambda pod, own: pod.apart(own, HOST), id="apart"),
    pytest.param(lambda pod, own: pod.near(own, "zone"), id="near"),
    pytest.param(lambda pod, own: all_of_its_own(pod, own), id="everything"),
]


@pytest.mark.parametrize("priorities", [0, 1, 2])
@pytest.mark.parametrize("rule", RULES)
def test_kept_arrays_take_no_more_than_they_are_reckoned_to(rule, priorities):
    engine = engine_after_many_kinds(rule, priorities=priorities)
    (profile,) = engine.profiles.values()
    answers = engine._cycle.answers_of(profile)

    assert len(answers._recent) >= KINDS
    assert 0 < arrays_of(answers) <= answers.bytes


@pytest.mark.parametrize("rule", RULES)
def test_the_plans_that_were_not_used_for_longest_go(rule):
    roomy = engine_after_many_kinds(rule)
    (profile,) = roomy.profiles.values()
    limit = roomy._cycle.answers_of(profile).bytes // 4
    engine = engine_after_many_kinds(rule, Limits(answer_bytes=limit))
    (profile,) = engine.profiles.values()
    answers = engine._cycle.answers_of(profile)

    # the last plan comes on top of what was let in
    one = answers.bytes / len(answers._recent)
    assert arrays_of(answers) <= limit + 2 * one


def test_pods_of_one_kind_and_many_priorities_take_no_more_room():
    """What is remembered of nodes with nominated pods is kept for some priorities only."""
    limits = Limits(priorities=3)
    engine = make_engine([make_node(f"n{n}").build() for n in range(50)], cache=Cache(limits))
    wish = make_pod("wish").uid("wish").req(cpu="1").priority(9000)
    engine.cache.nominator.add(engine.cache.infos.make(wish.build()), "n0")
    (profile,) = engine.profiles.values()
    answers = engine._cycle.answers_of(profile)
    kept = []
    for number in range(20):
        engine.place(make_pod(f"p{number}").uid(f"u{number}").priority(number).build(), 0.0)
        kept.append(len(answers._promises))

    assert [1, 2, 3] == kept[:3]
    assert {3} == set(kept[3:])
