"""`Engine.validate` finds what a fault in anything kept would do to the next decisions."""

import random

import numpy as np
import pytest

from bayplan.engine.answers.candidates import Candidates
from bayplan.engine.answers.domains import DomainLeaders
from bayplan.engine.answers.kind_answer import KindAnswer
from bayplan.engine.answers.kind_column import KindColumn
from bayplan.engine.answers.leaders import Leaders
from bayplan.engine.answers.part import Part
from bayplan.engine.answers.row_answer import RowAnswer
from bayplan.engine.answers.totals import Totals
from bayplan.engine.cache import Cache
from tests.engine.clusters import make_engine
from tests.engine.test_winners import LIMITS, node, template


def life(seed, limits, steps):
    """An engine that places pods of a few kinds while others and nodes come and go."""
    rng = random.Random(seed)
    nodes = [node(rng, f"n{number}") for number in range(rng.choice([3, 12, 30]))]
    engine = make_engine(nodes, cache=Cache(limits))
    templates, placed = [template(rng, number) for number in range(6)], []
    for step in range(steps):
        if placed and rng.random() < 0.4:
            engine.cache.remove_pod(placed.pop(rng.randrange(len(placed))))
        if rng.random() < 0.05:
            engine.cache.put(node(rng, f"n{rng.randrange(40)}"))
        pod = rng.choice(templates)(f"p{step}")
        if engine.place(pod, 0.0).placed:
            placed.append(pod)
        yield engine


@pytest.mark.parametrize("limits", LIMITS)
def test_all_that_is_kept_is_right(limits):
    for seed in range(3):
        for step, engine in enumerate(life(seed, limits, 60)):
            if step % 5 == 4:
                engine.validate(use=True)


def never(*given):
    """Does nothing where something should be done."""


def keeps_old_neighbours(self, masked, others, among=Leaders.among):
    """What reaches the top is worked out once, for whatever totals came first."""
    row = among(self, masked, others)
    if self.settled is not None and self._near is None and row >= 0:
        self._near, self._most = set(), int(self.settled.max())
    return row


FAULTS = [
    pytest.param(Leaders, "_quiet", lambda *given: True, id="a row that rises is not seen"),
    pytest.param(Leaders, "among", keeps_old_neighbours, id="kinds near the top are forgotten"),
    pytest.param(Leaders, "_reach", lambda *given: -1, id="kinds that are born never reach it"),
    pytest.param(Leaders, "holds_at", lambda *given: True, id="winners of another order"),
    pytest.param(Totals, "_sum_row", never, id="a row is not summed"),
    pytest.param(Totals, "_sum_rows", never, id="rows are not summed"),
    pytest.param(Candidates, "_sync_row", never, id="a row that is full stays a candidate"),
    pytest.param(Candidates, "_sync_rows", never, id="rows that are full stay candidates"),
    pytest.param(DomainLeaders, "risen", never, id="a row rises within its domain"),
    pytest.param(DomainLeaders, "all_risen", never, id="rows rise within their domains"),
    pytest.param(KindAnswer, "_learn", lambda self, column, stamp, ask, info: stamp is None and
                 column.learn(column.missing(stamp), ask(column.missing(stamp), info)),
                 id="kinds that are born are not asked about"),
    pytest.param(Part, "_normalized", lambda self, info, candidates: np.zeros(
        len(candidates.mask), dtype=np.uint8), id="scores are normalised wrongly"),
]  # fmt: skip


@pytest.mark.parametrize(("where", "name", "fault"), FAULTS)
def test_a_fault_in_what_is_kept_is_found(monkeypatch, where, name, fault):
    for seed in range(20):
        found = life(seed, LIMITS[0].values[0], 80)
        with monkeypatch.context() as planted:
            for step, engine in enumerate(found):
                if step == 10:
                    planted.setattr(where, name, fault)
                if step > 10 and step % 3 == 0:
                    try:
                        engine.validate(use=True)
                    except AssertionError:
                        return
    raise AssertionError("nobody saw it")


@pytest.mark.parametrize(
    ("kind", "what", "word"),
    [(KindAnswer, "fails", "filter"), (KindAnswer, "raw", "score"), (RowAnswer, "raw", "score")],
)
def test_values_that_are_kept_wrongly_are_told_by_the_plugin_and_its_point(kind, what, word):
    *_, engine = life(1, LIMITS[0].values[0], 30)
    profile = next(iter(engine.profiles.values()))
    told = set()
    for item in engine._cycle.answers_of(profile)._answers.values():
        column = getattr(item, what)
        values = column.said.array if isinstance(column, KindColumn) else column.values
        if type(item) is kind and values is not None:
            values[values >= 0] += 1
            told |= {(item.name, problem.split(" of rows")[0]) for problem in item.problems()}

    assert told
    assert all(problem == f"{name}: {word}" for name, problem in told)


@pytest.mark.parametrize("kind", [KindAnswer, RowAnswer])
def test_whether_there_are_scores_is_told(kind):
    *_, engine = life(1, LIMITS[0].values[0], 30)
    answers = engine._cycle.answers_of(next(iter(engine.profiles.values())))._answers.values()
    for item in [item for item in answers if type(item) is kind and item.scores]:
        named = f"{item.name}: whether there are scores"
        assert named not in item.problems()
        item.skips_score = not item.skips_score
        if named in item.problems():
            return
    raise AssertionError("nobody saw it")


def test_how_many_candidates_there_are_is_told():
    *_, engine = life(1, LIMITS[0].values[0], 30)
    answers = engine._cycle.answers_of(next(iter(engine.profiles.values())))
    kept = next(item for item in answers._candidates.values() if item._seen is not None)
    named = f"how many candidates there are of {[answer.name for answer in kept.filters]}"
    assert named not in kept.problems()
    kept.count += 1
    assert named in kept.problems()
