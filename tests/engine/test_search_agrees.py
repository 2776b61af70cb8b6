"""A search goes through the nodes as kube-scheduler does, one after the other.

The plain search below asks about one node at a time, in list order, as upstream: with the pods that
are nominated there and without, filter by filter, until enough are found. The engine comes to the
same with columns, whatever narrows the search: PreFilter, a pod group's nodes, nominations, a
share of the nodes, extenders, errors.
"""

import random
from contextlib import nullcontext

import pytest

from bayplan.engine.cycle import search
from bayplan.framework import (
    Code,
    Depends,
    ExtenderError,
    ExtenderFilterResult,
    PreFilterResult,
    Status,
    unresolvable,
    unschedulable,
)
from bayplan.framework.contract.diagnosis import FitError
from bayplan.plugins import in_tree_registry
from bayplan.testing import make_node, make_pod
from tests.engine.clusters import make_engine, plugin_config
from tests.engine.test_choice import heap_root

NAMES = [f"n{number}" for number in range(8)]
NO = {
    "no": unschedulable("no"),
    "never": unresolvable("never"),
    "later": Status(Code.PENDING, "later"),
    "boom": Status(Code.ERROR, "boom"),
}


class First:
    """Rejects as it is told, and nodes with more pods than there is room for."""

    name = "First"

    def __init__(self, case):
        self.case = case

    def facet(self, state, pod):
        return None

    def depends_on(self, pod):
        return self.case.depends

    def revision(self, state, pod):
        return self.case.number

    def pre_filter(self, state, pod, nodes):
        allowed = self.case.allowed
        return None if allowed is None else PreFilterResult(frozenset(allowed)), None

    def filter_node(self, state, pod, node):
        return self.case.first(node.name, len(node.pods))

    def score_node(self, state, pod, node):
        return self.case.scores[node.name]


class Second:
    """Rejects, or fails, as it is told; may hang on anything."""

    name = "Second"

    def __init__(self, case):
        self.case = case

    def filter_node(self, state, pod, node):
        return NO.get(self.case.said[1].get(node.name))


class Helper:
    """An extender that says what the case says."""

    is_binder = supports_preemption = blocking = False

    def __init__(self, rng, number):
        self.name, self.weight = f"helper-{number}", rng.randint(1, 3)
        self.is_filter, self.is_prioritizer = rng.random() < 0.7, rng.random() < 0.6
        self.ignorable, self.likes = rng.random() < 0.5, rng.random() < 0.8
        self.gone = {name: rng.choice(["failed", "unresolvable", ""]) for name in NAMES
                     if rng.random() < 0.2}  # fmt: skip
        self.scores = {name: rng.randint(0, 10) for name in NAMES if rng.random() < 0.8}
        self.turned, self.broken = rng.random() < 0.3, rng.random() < 0.1

    def interested(self, pod):
        return self.likes

    def filter(self, pod, nodes):
        if self.broken:
            raise ExtenderError(f"{self.name} is broken")
        names = [node.metadata.name for node in nodes]
        kept = [name for name in names if name not in self.gone]
        failed = {name: f"{self.name} says no" for name in names if self.gone.get(name) == "failed"}
        never = {name: "not ever" for name in names if self.gone.get(name) == "unresolvable"}
        return ExtenderFilterResult(tuple(kept[::-1] if self.turned else kept), failed, never)

    def prioritize_later(self, pod, nodes):
        def wait():
            if self.broken:
                raise ExtenderError(f"{self.name} is broken")
            return self.scores

        return wait


class Case:
    """One random cluster and pod."""

    def __init__(self, seed):
        rng = random.Random(seed)
        self.number = seed
        self.names = NAMES[: rng.randint(1, 8)]
        self.depends = rng.choice([Depends.USAGE, Depends.CLUSTER])
        words = [["no", "never"], rng.choice([["no", "later"], ["no", "boom", "boom"]])]
        share = rng.choice([0.1, 0.3, 0.6])
        self.said = [
            {name: rng.choice(some) for name in self.names if rng.random() < share}
            for some in words
        ]
        self.placed = {name: rng.choice([0, 0, 1]) for name in self.names}
        self.room = {name: rng.choice([1, 2, 2]) for name in self.names}
        self.scores = {name: rng.choice([10, 20, 20]) for name in self.names}
        self.allowed = rng.sample(NAMES, rng.randint(1, 6)) if rng.random() < 0.3 else None
        self.within = None
        if rng.random() < 0.3:
            self.within = rng.sample(self.names, rng.randint(1, len(self.names)))
        self.enough = rng.choice([None, None, 1, 2, 3])
        self.start = rng.randrange(20)
        self.nominated = {}  # pod to node and priority
        for number in range(rng.choice([0, 0, 1, 2])):
            self.nominated[f"promised-{number}"] = rng.choice(self.names), rng.choice([0, 5, 9])
        self.own = rng.choice(self.names) if rng.random() < 0.15 else ""
        count = rng.choice([0, 0, 1, 2])
        self.extenders = [Helper(rng, number) for number in range(count)]

    def first(self, name, pods):
        if pods >= self.room[name]:
            return unschedulable("full")
        return NO.get(self.said[0].get(name))

    # -- the plain search --

    def status(self, name):
        """What a node's filters say: with the pods nominated there, then without."""
        there = self.placed[name]
        more = sum(node == name and rank >= 5 for node, rank in self.nominated.values())
        for pods in (there + more, there) if more else (there,):
            for plugin, said in (
                ("First", self.first(name, pods)),
                ("Second", NO.get(self.said[1].get(name))),
            ):
                if said is not None:
                    return said.with_plugin(plugin)
        return None

    def ask(self, names):
        """Who is left after all extenders, and what they said of the others; or an error."""
        said = {}
        for helper in self.extenders:
            if not (helper.likes and helper.is_filter and names):
                continue
            if helper.broken:
                if not helper.ignorable:
                    return f"{helper.name} is broken", said
                continue
            for name in names:
                if helper.gone.get(name) == "unresolvable":
                    said[name] = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, "not ever")
                elif helper.gone.get(name) == "failed":
                    said[name] = Status(Code.UNSCHEDULABLE, f"{helper.name} says no")
            names = [name for name in names if name not in helper.gone]
            names = names[::-1] if helper.turned else names
        return names, said

    def total(self, name):
        more = sum(
            10 * helper.weight * helper.scores.get(name, 0)
            for helper in self.extenders
            if helper.likes and helper.is_prioritizer and not helper.broken
        )
        return self.scores[name] + more

    def decide(self, order):
        """Winner, feasible, evaluated, next start; or why there is none."""
        start = self.start % len(order)
        listed = [name for name in order[start:] + order[:start] if self.allows(name)]
        if self.own and self.allows(self.own) and self.own in order and not self.status(self.own):
            left, _ = self.ask([self.own])
            if left == [self.own]:
                return self.own, 1, 1, start
        enough = len(listed) if self.enough is None else min(self.enough, len(listed))
        found, said, seen = [], {}, 0
        for name in listed:
            status = self.status(name)
            if status is not None and not status.rejected:
                after = (start + listed.index(name)) % len(order)
                return "", f'running "{status.plugin}" filter plugin: boom', after
            seen += 1
            if status is None:
                found.append(name)
                if len(found) == enough:
                    break
            else:
                said[name] = status
        after = (start + seen) % len(order)
        left, more = self.ask(found)
        if isinstance(left, str):
            return "", left, after
        said |= more
        if not left:
            return "", said, after
        left = [name for name in found if name in left]  # in whatever order extenders told them
        best = left[heap_root([self.total(name) for name in left])]
        return best, len(left), seen, after

    def allows(self, name):
        return self.allowed is None or name in self.allowed


def engine_of(case):
    registry = {
        **in_tree_registry(),
        "First": lambda args, handle: First(case),
        "Second": lambda args, handle: Second(case),
    }
    names = ("PrioritySort", "DefaultBinder", "First", "Second")
    enabled = [{"name": name} for name in names]
    config = plugin_config(multiPoint={"enabled": enabled, "disabled": [{"name": "*"}]})
    nodes = [
        make_node(name).zone(f"z{number % 2}").build() for number, name in enumerate(case.names)
    ]
    pods = [
        make_pod(f"on-{name}-{number}").node(name).build()
        for name, count in case.placed.items()
        for number in range(count)
    ]
    engine = make_engine(nodes, pods, config=config, registry=registry, extenders=case.extenders)
    for name, (node, rank) in case.nominated.items():
        pod = make_pod(name).priority(rank).build()
        engine.cache.nominator.add(engine.cache.infos.make(pod), node)
    engine.next_start = case.start
    return engine


BEYOND = 1133, 2220
"""Extenders leave nobody, and a node behind the last that was looked at is promised to others."""


@pytest.mark.parametrize(
    "seeds", [range(100), range(100, 200), range(200, 300), BEYOND], ids=["1", "2", "3", "beyond"]
)
def test_a_search_comes_to_what_a_plain_one_comes_to(monkeypatch, seeds):
    for seed in seeds:
        case = Case(seed)
        engine = engine_of(case)
        enough = len(NAMES) if case.enough is None else case.enough
        monkeypatch.setattr(search.Search, "_wanted", lambda self, size, n=enough: min(n, size))
        made = make_pod("p").priority(5)
        pod = (made.nominated(case.own) if case.own else made).build()
        for attempt in range(2):  # the second finds kept answers
            with nullcontext() if case.within is None else engine.within(case.within):
                order = engine.searched()
                decision = engine.schedule(pod, 0.0, post_filter=False)
            expected = case.decide(order)
            try:
                compare(expected, decision, order)
            except AssertionError as problem:
                raise AssertionError(f"seed {seed}, attempt {attempt}") from problem


def compare(expected, decision, order):
    if expected[0]:
        found = decision.feasible_nodes, decision.evaluated_nodes, decision.next_start
        assert expected == (decision.node_name, *found)
        assert decision.status is None
        return
    _, why, after = expected
    assert ("", after) == (decision.node_name, decision.next_start)
    if isinstance(why, str):
        assert (Code.ERROR, why) == (decision.status.code, decision.message)
        assert decision.fit_error is None
        return
    assert isinstance(decision.fit_error, FitError)
    assert len(order) == decision.fit_error.node_count
    diagnosis = decision.fit_error.diagnosis
    found = {name: diagnosis.status_of(name) for name in order}
    told = {name: status for name, status in found.items() if status is not diagnosis.absent}
    assert {k: (v.code, v.reasons) for k, v in why.items()} == {
        k: (v.code, v.reasons) for k, v in told.items()
    }
