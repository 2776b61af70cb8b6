"""What a plugin that may hang on anything says by domain, at the edges of what is allowed."""

import pytest

from bayplan.cluster.limits import Limits
from bayplan.engine.answers.asking import AttemptFailed
from bayplan.engine.answers.cluster_answer import ClusterAnswer
from bayplan.engine.cache import Cache
from bayplan.testing import make_node, make_pod
from tests.engine.clusters import make_engine


class Domains:
    """Stands for `DomainScores`: only the sizes are looked at here."""

    def __init__(self, worth, own):
        self.worth, self.own = [1] * worth, dict.fromkeys(range(own), 1)


class Speaks:
    name = "Speaks"

    def __init__(self, said):
        self.said = said

    def score_table(self, state, pod, nodes):
        raise AssertionError("domains are enough")

    def score_domains(self, state, pod, nodes):
        if isinstance(self.said, Exception):
            raise self.said
        return self.said

    def normalize_domains(self, state, pod, scores):
        if isinstance(self.said, Exception):
            raise self.said
        return self.said


def answer_of(said):
    engine = make_engine(
        [make_node("a").capacity(cpu="4").build()], cache=Cache(Limits(domains=2, own_scores=3))
    )
    info = engine.cache.infos.make(make_pod("p").build())
    engine.schedule(info.pod, 0.0)
    answers = engine._cycle.answers_of(engine.profiles["default-scheduler"])
    points = dict.fromkeys(["preFilter", "filter", "preScore", "score", "normalize"], False)
    return ClusterAnswer(answers._desk, Speaks(said), points | {"score": True}, info), info


@pytest.mark.parametrize(
    ("worth", "own", "taken"),
    [(0, 0, True), (2, 3, True), (3, 3, False), (2, 4, False), (3, 4, False)],
)
def test_domains_are_taken_up_to_the_limits(worth, own, taken):
    said = Domains(worth, own)
    answer, info = answer_of(said)

    assert (said if taken else None) is answer.score_domains(info)


def test_a_plugin_may_have_nothing_to_say_by_domain():
    answer, info = answer_of(None)
    assert answer.score_domains(info) is None


@pytest.mark.parametrize(
    ("scores", "wrong"),
    [([], None), ([0, 100], None), ([50], None), ([0, 101], 101), ([-1, 100], -1), ([-5, 200], -5)],
)
def test_normalised_scores_of_domains_are_in_range(scores, wrong):
    answer, info = answer_of(scores)
    if wrong is None:
        assert scores == answer.normalize_domains(info, [1] * len(scores))
        return
    with pytest.raises(AttemptFailed) as failed:
        answer.normalize_domains(info, [1] * len(scores))
    message = failed.value.status.message
    assert f'plugin "Speaks" returns an invalid score {wrong}' in message


@pytest.mark.parametrize("point", ["score_domains", "normalize_domains"])
def test_one_that_raises_fails_the_attempt_and_is_named(point):
    answer, info = answer_of(ValueError("no map"))
    with pytest.raises(AttemptFailed) as failed:
        getattr(answer, point)(info, *([[1]] if point.startswith("norm") else []))
    assert f'plugin "Speaks" raised ValueError in {point}: no map' in failed.value.status.message
